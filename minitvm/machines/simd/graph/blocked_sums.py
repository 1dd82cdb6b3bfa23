"""Pools, norms and other reductions on blocked layouts. Sums over pixels keep the blocks; sums over channels remove
them.

The padding in an incomplete last block is not data, so no sum may read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....graph.nodes import OpNode
from ....topi.shapes import paddings, per_axis
from . import plain_rows

if TYPE_CHECKING:
    from .blocked_layout import Blocking


def pool2d(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a pool on [N, C/x, H, W, x] as a pool over three dimensions whose window is 1 along the last one. Return
    whether it was done.
    """
    data = item.inputs[0]
    if data not in blocking.blocked or not blocking.block(item.output) or item.attrs["layout"] != "NCHW":
        return plain_rows.pool(blocking, item)
    before, after = paddings(item.attrs["padding"], 2)
    attrs = {**item.attrs, "padding": (*before, 0, *after, 0)}
    del attrs["layout"]
    for name in ("pool_size", "strides", "dilation"):
        attrs[name] = (*per_axis(item.attrs[name], 2, name), 1)
    pooled = blocking.op(item.op.replace("2d", "3d"), blocking.blocked[data], name=item.output.name, **attrs)
    blocking.blocked[item.output] = pooled
    return True


def global_pool(blocking: Blocking, item: OpNode) -> bool:
    data = item.inputs[0]
    if data not in blocking.blocked or not blocking.block(item.output):
        return False
    op = {"nn.global_avg_pool": "mean", "nn.global_max_pool": "max"}[item.op]
    axes = tuple(range(2, data.ndim))
    blocking.blocked[item.output] = blocking.op(
        op, blocking.blocked[data], name=item.output.name, axis=axes, keepdims=True
    )
    return True


def channel_norm(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a normalisation over channels, or over groups of them; in blocks, channels are numbered along two axes.
    Return whether it was done.
    """
    data, *weights = item.inputs
    width = blocking.block(item.output)
    if data not in blocking.blocked or width is None or any(v not in blocking.arrays for v in weights):
        return False
    if item.attrs["axis"] != 1 or int(data.shape[1]) % width:  # type: ignore[arg-type]
        return False  # what fills a block is no channel
    rows = [blocking.b.constant(blocking.arrays[v].reshape(-1, width), v.name) for v in weights]
    attrs = {**item.attrs, "axis": (1, -1)}
    blocking.blocked[item.output] = blocking.op(item.op, blocking.blocked[data], *rows, name=item.output.name, **attrs)
    return True


def reduction(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a reduction: over channels it reads blocks and has a plain result, over pixels it keeps the blocks.
    Return whether it was done.
    """
    data, output, rank = item.inputs[0], item.output, item.inputs[0].ndim
    width, axis = blocking.block(data), item.attrs["axis"]
    if data not in blocking.blocked or width is None or axis is None:
        return False
    axes = {a % rank for a in ((axis,) if isinstance(axis, int) else axis)}
    if 1 not in axes:
        if not item.attrs["keepdims"] or blocking.block(output) != width:
            return False
        attrs = {**item.attrs, "axis": tuple(sorted(axes))}
        blocking.blocked[output] = blocking.op(item.op, blocking.blocked[data], name=output.name, **attrs)
        return True
    if int(data.shape[1]) % width or not all(isinstance(d, int) for d in output.shape):  # type: ignore[arg-type]
        return False  # what fills a block is no channel
    attrs = {**item.attrs, "axis": (*sorted(axes), rank), "keepdims": False}
    reduced = blocking.op(item.op, blocking.blocked[data], name=output.name, **attrs)
    if item.attrs["keepdims"]:
        reduced = blocking.op("reshape", reduced, name=output.name, newshape=output.shape, allowzero=True)
    blocking.plain[output] = reduced
    return True
