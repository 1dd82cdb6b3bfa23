"""Compute depthwise convolutions and pools of plain values in whole vectors along their rows (`topi.window_rows`).

Blocks of channels would need two changes of layout, which take as long as the windows themselves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ....expr import Expr
from ....graph.nodes import OpNode
from ....target import GPU
from ....topi.shapes import per_axis

if TYPE_CHECKING:
    from .blocked_layout import Blocking

# Rows that may be computed together, and how many of them are enough.
_MOST_ROWS, _ENOUGH_ROWS = 8, 5
_NARROWEST = 4  # a row of fewer windows is no vector
_LONGEST_STEP = 4  # of windows along a row: beyond, loads of whole vectors read more than they use
_NUMBERS = {"max": ("float32", "float64", "int32", "int64"), "avg": ("float32", "float64")}


def depthwise(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a depthwise convolution between plain values, if two changes of layout would cost more than they save.
    Return whether it was done.
    """
    data, weight = item.inputs
    if data.dtype != "float32" or blocking.goes_into_blocks(item.output):
        return False
    attrs = {name: item.attrs[name] for name in ("strides", "padding", "dilation")}
    height, width = item.output.shape[2:]
    blocking.plain[item.output] = blocking.op(
        "nn.contrib_depthwise_conv2d_rows",
        blocking.as_plain(data),
        blocking.as_plain(weight),
        name=item.output.name,
        lanes=row_lanes(width, blocking.lanes),
        tile=1 if isinstance(blocking.target.description, GPU) else row_tile(height),
        **attrs,
    )
    return True


def pool(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a pool of plain values whose rows have several windows. GPUs keep it, because they use threads, not
    vectors. Return whether it was done.
    """
    data, attrs = item.inputs[0], dict(item.attrs)
    kind, rank = ("max" if item.op.startswith("nn.max") else "avg"), data.ndim - 2
    width = item.output.shape[-1]
    if isinstance(blocking.target.description, GPU) or attrs.pop("layout", "NCHW") != "NCHW":
        return False
    if data.dtype not in _NUMBERS[kind] or (isinstance(width, int) and width < _NARROWEST):
        return False
    if per_axis(attrs["strides"], rank, "strides")[-1] > _LONGEST_STEP:
        return False
    height = item.output.shape[-2] if rank > 1 else 1
    blocking.plain[item.output] = blocking.op(
        f"nn.contrib_{kind}_pool_rows",
        blocking.as_plain(data),
        name=item.output.name,
        lanes=row_lanes(width, blocking.target.vector_lanes(str(data.dtype))),
        tile=row_tile(height),
        **attrs,
    )
    return True


def row_lanes(width: int | Expr, lanes: int) -> int:
    """Return the number of lanes for rows of this width: the target's, or fewer if those hold the whole row."""
    while isinstance(width, int) and lanes >= 8 and lanes // 2 >= width:
        lanes //= 2
    return lanes


def row_tile(height: int | Expr) -> int:
    """Return how many rows of windows to compute together: enough to hide latency, with few of them beyond the image.

    Additions in one row wait for each other; five or more rows hide that. An unknown height counts as a large one.
    """
    if not isinstance(height, int):
        return _MOST_ROWS

    def cost(tile: int) -> tuple[int, int]:
        tiles = math.ceil(height / tile)
        return tiles * max(tile, _ENOUGH_ROWS), tiles * tile

    return min(range(_MOST_ROWS, 0, -1), key=cost)
