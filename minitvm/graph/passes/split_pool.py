"""Split a pool over windows into one pool for each axis: for a window of 5 x 5, it reads 5 + 5 elements instead of 25.

    max over (i, j) of x[y + i, x + j]  =  max over j of (max over i of x[y + i, x + j])

Legal for a maximum, because it is associative, and the number of windows along an axis depends only on that axis. A
mean is a sum divided by the number of elements that count, and this number is a product of one number for each axis; so
a mean is a mean of means. It adds fewer numbers than the whole window and divides once more per axis, so the error
bound is no larger in float32 and wider dtypes. The axes with large steps come first, so that the next axes have fewer
elements.
"""

from __future__ import annotations

from math import prod

from ...topi.shapes import paddings, per_axis
from ..nodes import Graph, OpNode, Value
from ..pattern import Match, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite

# The least factor by which fewer elements are read: data between two pools is written and read again.
_WORTH = 2
_RANKS = {"nn.max_pool2d": 2, "nn.max_pool3d": 3, "nn.avg_pool2d": 2, "nn.avg_pool3d": 3}
_MEANS = ("nn.avg_pool2d", "nn.avg_pool3d")
_SUMMED = ("float32", "float64")  # narrower floats would be rounded between the axes


def split_pool(graph: Graph) -> Graph:
    """Replace a maximum or mean pool with large windows by one pool per axis.

    before:
        x = b.input("x", (1, 4, 8, 8))
        return b.op("nn.max_pool2d", x, pool_size=(5, 5), strides=(1, 1), padding=(2, 2))
    after:
        def main(x: float32[1, 4, 8, 8]):
            max_pool2d: float32[1, 4, 8, 8] = nn.max_pool2d(
                x, pool_size=(5, 1), strides=(1, 1), padding=(2, 0, 2, 0), dilation=(1, 1)
            )
            max_pool2d_1: float32[1, 4, 8, 8] = nn.max_pool2d(
                max_pool2d, pool_size=(1, 5), strides=(1, 1), padding=(0, 2, 0, 2), dilation=(1, 1)
            )
            return max_pool2d_1
    """
    return rewrite(graph, RULES)


def _splits(item: OpNode) -> bool:
    if item.op in _MEANS and item.output.dtype not in _SUMMED:
        return False
    size = per_axis(item.attrs["pool_size"], _RANKS[item.op], "pool_size")
    axes, fewer = _axes(item), _fewer(item)
    work = sum(size[axis] * prod(fewer[later] for later in axes[n + 1 :]) for n, axis in enumerate(axes))
    return len(axes) > 1 and _WORTH * work <= prod(size)


def _axes(item: OpNode) -> list[int]:
    """Return the axes along which windows have several elements, steps or padding, in the order in which to pool
    them.
    """
    rank, fewer = _RANKS[item.op], _fewer(item)
    shape = [per_axis(item.attrs[name], rank, name) for name in ("pool_size", "strides")]
    before, after = paddings(item.attrs["padding"], rank)
    moved = [axis for axis in range(rank) if any(s[axis] != 1 for s in shape) or before[axis] or after[axis]]
    return sorted(moved, key=lambda axis: -fewer[axis])


def _fewer(item: OpNode) -> list[float]:
    """Return the number of input elements per window along each axis: the step, or less if there are few windows."""
    rank = _RANKS[item.op]
    strides = per_axis(item.attrs["strides"], rank, "strides")
    layout = item.attrs.get("layout", "NCHW" if rank == 2 else "NCDHW")
    places = [layout.index(letter) for letter in "DHW"[-rank:]]
    pairs = [(item.inputs[0].shape[p], item.output.shape[p]) for p in places]
    return [
        data / result if isinstance(data, int) and isinstance(result, int) and result else float(step)
        for (data, result), step in zip(pairs, strides, strict=True)
    ]


def _along_the_axes(b: Rewriter, match: Match) -> Value:
    item, data = match.root, match["data"]
    rank, axes = _RANKS[item.op], _axes(item)
    before, after = paddings(item.attrs["padding"], rank)
    for number, axis in enumerate(axes):
        attrs = dict(item.attrs)
        for name in ("pool_size", "strides", "dilation"):
            values = per_axis(item.attrs[name], rank, name)
            attrs[name] = tuple(value if a == axis else 1 for a, value in enumerate(values))
        attrs["padding"] = tuple(n if a == axis else 0 for side in (before, after) for a, n in enumerate(side))
        last = number == len(axes) - 1
        data = b.op(item.op, data, name=item.output.name if last else None, **attrs)
    return data


RULES = [RewriteRule(op(tuple(_RANKS), value("data"), when=_splits), _along_the_axes)]
