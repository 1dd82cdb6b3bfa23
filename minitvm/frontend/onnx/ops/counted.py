"""Operators of which data decide how many results there are: their number becomes a size (`bind_size`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import te
from ....expr import LE, Expr, SizeVar, as_expr, match
from ....graph.nodes import Dim
from ....topi.shapes import product, simple
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter

_LOWEST = float(np.finfo(np.float32).min)


def _counted(n: NodeContext, found: Sequence[Operand], name: str) -> tuple[Operand, SizeVar]:
    """The first `count` rows, and the size that counts them."""
    places, count = found
    size = n.bound(count, places.shape[0], name)
    return n.op("leading", places, size=size), size


@converter("NonZero", since=9)
def nonzero(n: NodeContext) -> Any:
    """A column for each element that is not 0."""
    x = n[0]
    if x.is_known and not x.is_symbolic:
        return Operand.known(np.array(np.nonzero(n.array(x, "the data")), np.int64).reshape(x.ndim, -1))
    if x.ndim == 0:
        n.refuse("a tensor without dimensions")
    places, _ = _counted(n, n.op("argwhere", x), "nonzeros")
    return n.op("transpose", places)


@converter("Compress", since=9)
def compress(n: NodeContext) -> Any:
    """The entries of an axis, or the elements, at which a condition holds; it may be shorter than the axis."""
    x, condition = n[0], n[1]
    axis = n.attr("axis", None)
    x = n.reshape(x, (-1,)) if axis is None else x
    if condition.is_known:
        places = Operand.known(np.flatnonzero(n.static(condition, "the condition")))
    else:
        found, _ = _counted(n, n.op("argwhere", condition), "compressed")
        places = n.op("squeeze", found, axis=(1,))
    return n.op("take", x, places, axis=0 if axis is None else axis)


@converter("Unique", since=11)
def unique(n: NodeContext) -> Any:
    """The different elements, or entries of an axis, with their first places, what each element is, and counts."""
    x, axis = n[0], n.attr("axis", None)
    order = bool(n.attr("sorted", 1))
    if axis is None:
        rows = x = n.reshape(x, (-1,))
        axis = 0
    else:
        axis = axis % x.ndim
        front = n.op("transpose", x, axes=(axis, *(a for a in range(x.ndim) if a != axis)))
        rows = n.reshape(front, (x.shape[axis], product([d for a, d in enumerate(x.shape) if a != axis])))
    first, inverse, counts, number = n.op("unique", rows, sorted=order)
    places, size = _counted(n, (first, number), "different")
    return [n.op("take", x, places, axis=axis), places, inverse, n.op("leading", counts, size=size)]


@converter("TopK", since=10)
def topk(n: NodeContext) -> Any:
    """k may be data: then all elements are sorted."""
    n.ignore("sorted")
    axis = n.attr("axis", -1)
    x, k = n[0], n[1]
    extent = x.shape[axis]
    count: Dim = n.bound(k, extent, "k") if k.data is None else n.dims(k, "k")[0]
    if isinstance(count, Expr) and k.data is not None:
        fits = simple(LE(*match(as_expr(count), as_expr(extent))))
        if isinstance(fits, Expr):
            x = n.builder.required(x, [fits], n.where)
    return n.op("topk", x, k=count, axis=axis, is_ascend=not n.attr("largest", 1))


def slice_at_data(n: NodeContext, given_axes: Operand | None, given_steps: Operand | None) -> Operand:
    """A slice whose ends a run computes: they are clamped to the axis, and what is between them is taken."""
    x, count = n[0], n[1].shape[0]
    if not isinstance(count, int):
        n.refuse("the number of axes that are cut is data")
    axes = tuple(range(count)) if given_axes is None else n.ints(given_axes, "the axes")
    steps = (1,) * count if given_steps is None else n.ints(given_steps, "the steps")
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if not step:
            n.refuse("the step of a slice is 0")
        extent = x.shape[axis]
        first, last = (_clamped(n, ends, k, extent, backwards=step < 0) for ends in (n[1], n[2]))
        between = n.op("subtract", last, first) if step > 0 else n.op("subtract", first, last)
        rounded = between if abs(step) == 1 else n.op("floor_divide", n.op("add", between, abs(step) - 1), abs(step))
        number = n.op("maximum", rounded, 0)
        if number.is_known and step == 1:
            x = n.part(x, axis, n.dims(first, "a start")[0], n.dims(last, "an end")[0])
            continue
        size = n.bound(number, extent, "sliced")
        if step == 1 and first.is_known and n.dims(first, "a start") == (0,):
            x = n.op("leading", x, size=size, axis=axis)
            continue
        places = n.op("leading", n.op("arange", start=0, stop=extent, step=1, dtype="int64"), size=size)
        strided = places if step == 1 else n.op("multiply", places, step)
        x = n.op("take", x, n.op("add", strided, n.reshape(first, (1,))), axis=axis)
    return x


def _clamped(n: NodeContext, ends: Operand, position: int, extent: Dim, *, backwards: bool = False) -> Operand:
    """An end of a slice as a place of the axis: a negative one counts from behind.

    It is at most the extent, and at least 0; of a slice that goes backwards, each is one less.
    """
    end, length = n.entry(n.cast(ends, "int64"), position), n.number(extent, ())
    front = n.op("where", n.op("less", end, 0), n.op("add", end, length), end)
    most = n.op("subtract", length, 1) if backwards else length
    place: Operand = n.op("minimum", n.op("maximum", front, -1 if backwards else 0), most)
    return place


@converter("NonMaxSuppression", since=10)
def non_max_suppression(n: NodeContext) -> Any:
    """Rows [image, class, box]; without a number of boxes there are none."""
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
    return _counted(n, suppressed, "selected")[0]
