"""Convert operators with a data-dependent number of results. The number becomes a size (`bind_size`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import te
from ....expr import LE, Expr, as_expr, match
from ....graph.nodes import Dim
from ....topi.shapes import axis_of, product, simple
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .data_axes import spread

_LOWEST = float(np.finfo(np.float32).min)


@converter("NonZero", since=9)
def nonzero(n: NodeContext) -> Any:
    """Return a column of indices for each element that is not 0. For a tensor without dimensions, columns have no
    rows.
    """
    x = n[0]
    if x.is_known and not x.is_symbolic:
        return Operand.known(np.argwhere(n.array(x, "the data")).astype(np.int64).T)
    whole = x if x.ndim else n.reshape(x, (1,))
    places, _ = n.counted(n.op("argwhere", whole), "nonzeros")
    columns = n.op("transpose", places)
    return columns if x.ndim else n.op("strided_slice", columns, begin=(0,), end=(0,), axes=(0,))


@converter("Compress", since=9)
def compress(n: NodeContext) -> Any:
    """Return the entries of an axis, or the elements, for which a condition holds. The condition may be shorter than
    the axis.
    """
    x, condition = n[0], n[1]
    axis = n.attr("axis", None)
    x = n.reshape(x, (-1,)) if axis is None else x
    if condition.is_known:
        places = Operand.known(np.flatnonzero(n.static(condition, "the condition")))
    else:
        found, _ = n.counted(n.op("argwhere", condition), "compressed")
        places = n.op("squeeze", found, axis=(1,))
    return n.op("take", x, places, axis=0 if axis is None else axis)


@converter("Unique", since=11)
def unique(n: NodeContext) -> Any:
    """Return the distinct elements (or entries of an axis), their first places, the index of each element, and
    counts.
    """
    x, axis = n[0], n.attr("axis", None)
    order = bool(n.attr("sorted", 1))
    if axis is None:
        rows = x = n.reshape(x, (-1,))
        axis = 0
    else:
        axis = axis_of(axis, x.ndim)
        front = n.op("transpose", x, axes=(axis, *(a for a in range(x.ndim) if a != axis)))
        rows = n.reshape(front, (x.shape[axis], product([d for a, d in enumerate(x.shape) if a != axis])))
    first, inverse, counts, number = n.op("unique", rows, sorted=order)
    places, size = n.counted((first, number), "different")
    return [
        n.op("take", x, places, axis=axis),
        places,
        inverse,
        counts if size == 0 else n.op("leading", counts, size=size),
    ]


@converter("TopK", since=10)
def topk(n: NodeContext) -> Any:
    """Return the largest elements. If k is given by a tensor, all elements are sorted."""
    n.ignore("sorted")
    axis = n.attr("axis", -1)
    x, k = n[0], n.one(n[1], "k")
    extent = x.shape[axis]
    count: Dim = n.bound(k, extent, "k") if k.data is None else n.dim(k, "k")
    if isinstance(count, Expr) and k.data is not None:
        fits = simple(LE(*match(as_expr(count), as_expr(extent))))
        if isinstance(fits, Expr):
            x = n.builder.required(x, [fits], n.where)
    return n.op("topk", x, k=count, axis=axis, is_ascend=not n.attr("largest", 1))


def slice_at_data(n: NodeContext, given_axes: Operand | None, given_steps: Operand | None) -> Operand:
    """Return a slice whose ends, axes or steps are computed at run time.

    The ends are clamped to the axis, and the entries between them are taken.
    """
    x, starts, ends, count = n[0], n[1], n[2], n[1].shape[0]
    if isinstance(count, int) and (given_axes is None or given_axes.is_known):
        axes = tuple(range(count)) if given_axes is None else n.ints(given_axes, "the axes")
    else:  # each axis is cut, those that are not meant from end to end
        listed = n.op("arange", start=0, stop=count, step=1, dtype="int64") if given_axes is None else given_axes
        axes = tuple(range(x.ndim))
        starts, ends = (spread(n, listed, v, x.ndim, other) for v, other in ((starts, 0), (ends, FAR)))
        given_steps = None if given_steps is None else spread(n, listed, given_steps, x.ndim, 1)
    for k, axis in enumerate(axes):
        step = 1 if given_steps is None else _step(n, given_steps, k)
        x = _sliced_at(n, x, axis, n.entry(n.cast(starts, "int64"), k), n.entry(n.cast(ends, "int64"), k), step)
    return x


FAR = 2**31 - 1  # the longest axis


def _step(n: NodeContext, steps: Operand, k: int) -> Operand | int:
    """Return the step along the k-th axis that is sliced."""
    if not steps.is_known:
        step = n.op("clip", n.entry(n.cast(steps, "int64"), k), a_min=-FAR, a_max=FAR)
        n.at_most(n.cast(n.op("equal", step, 0), "int64"), 0, "the step of a slice is 0")
        return step
    step = n.ints(steps, "the steps")[k]
    if not step:
        n.refuse("the step of a slice is 0")
    return shortened(step)


def shortened(step: int) -> int:
    """Return a step that selects the same entries and fits in an index; no axis is longer than FAR."""
    return max(-FAR, min(step, FAR))


def _sliced_at(n: NodeContext, x: Operand, axis: int, start: Operand, end: Operand, step: Operand | int) -> Operand:
    """Return the entries of an axis from one place up to another, each of which may be computed at run time."""
    extent = x.shape[axis]
    forwards = step > 0 if isinstance(step, int) else n.op("greater", step, 0)
    first = _clamped(n, start, extent, forwards, before=0)
    last = _clamped(n, end, extent, forwards, before=-1)
    between = _either(n, forwards, n.op("subtract", last, first), n.op("subtract", first, last))
    if isinstance(step, int):
        stride: Operand | int = abs(step)
        rounded = between if stride == 1 else n.op("floor_divide", n.op("add", between, abs(step) - 1), stride)
    else:  # a step of 0 has been refused
        stride = n.op("maximum", n.op("abs", step), 1)
        rounded = n.op("floor_divide", n.op("add", between, n.op("subtract", stride, 1)), stride)
    number = n.op("maximum", rounded, 0)
    plain = isinstance(step, int) and step == 1
    if number.is_known and plain:
        return n.part(x, axis, n.dim(first, "a start"), n.dim(last, "an end"))
    size = n.bound(number, extent, "sliced")
    if plain and first.is_known and n.dims(first, "a start") == (0,):
        cut: Operand = n.op("leading", x, size=size, axis=axis)
        return cut
    places = n.op("leading", n.op("arange", start=0, stop=extent, step=1, dtype="int64"), size=size)
    strided = places if plain else n.op("multiply", places, step)
    taken: Operand = n.op("take", x, n.op("add", strided, n.reshape(first, (1,))), axis=axis)
    return taken


def _either(n: NodeContext, flag: Operand | bool, a: Operand, b: Operand) -> Operand:
    """Return a if the truth value [] holds, and b otherwise."""
    if isinstance(flag, bool):
        return a if flag else b
    result: Operand = n.op("where", flag, a, b)
    return result


def _clamped(n: NodeContext, end: Operand, extent: Dim, forwards: Operand | bool, before: int) -> Operand:
    """Return an end of a slice as a position on the axis. A negative end counts from the end of the axis.

    The position is clamped to 0 .. the extent. For a slice that goes backwards, it is clamped to `before` .. the last
    place.
    """
    length = n.number(extent, ())
    if end.data is not None and not end.is_symbolic:
        end = Operand.known(np.clip(end.data, -FAR, FAR), end.dtype)
    front = n.op("where", n.op("less", end, 0), n.op("add", end, length), end)
    least = _either(n, forwards, *(Operand.known(np.array(place)) for place in (0, before)))
    most = _either(n, forwards, length, n.op("subtract", length, 1))
    place: Operand = n.op("minimum", n.op("maximum", front, least), most)
    return place


@converter("NonMaxSuppression", since=10)
def non_max_suppression(n: NodeContext) -> Any:
    """Return rows [image, class, box]. Without a limit on the number of boxes there are no rows."""
    boxes, scores = n[0], n[1]
    limit = n.optional(2) or Operand.known(np.array([0]))
    iou = n.optional(3) or Operand.known(np.zeros(1, np.float32))
    least = n.optional(4) or Operand.known(np.full(1, _LOWEST, np.float32))
    extent = scores.shape[2]
    most: Dim = extent
    if limit.data is not None and not limit.is_symbolic:
        asked = max(int(n.scalar(limit, "the number of boxes")), 0)
        most = (
            min(asked, extent)
            if isinstance(extent, int)
            else simple(te.minimum(as_expr(extent), min(asked, 2**31 - 1)))
        )
    box_format = "center" if n.attr("center_point_box", 0) else "corner"
    operands = (boxes, scores, *(n.reshape(t, (1,)) for t in (limit, iou, least)))
    suppressed = n.op("vision.all_class_non_max_suppression", *operands, most=most, box_format=box_format)
    return n.counted(suppressed, "selected")[0]
