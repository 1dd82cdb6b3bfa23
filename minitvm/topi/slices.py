"""Slices of a tensor along its axes with a step, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError
from ..expr import Expr, as_expr
from ..te import Tensor
from . import shapes
from .registry import Pattern, register
from .shapes import dims

_UNBOUNDED = 2**31 - 1  # ONNX and Relay write "to the end" as a very large number


def _fold_strided_slice(x: Any, begin: Any, end: Any, strides: Any, axes: Any) -> Any:
    where = range(len(begin)) if axes is None else axes
    steps = (1,) * len(begin) if strides is None else strides
    steps = steps * len(begin) if len(steps) == 1 else steps
    slices = [slice(None)] * x.ndim
    for a, first, last, step in zip(where, begin, end, steps, strict=True):
        stop = None if step < 0 and last < -x.shape[a] else last
        slices[a] = slice(first, stop, step)
    return x[tuple(slices)]


@register("strided_slice", pattern=Pattern.INJECTIVE, fold=_fold_strided_slice)
def strided_slice(
    x: Tensor,
    *,
    begin: Sequence[shapes.Dim],
    end: Sequence[shapes.Dim],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Return `x[begin:end:strides]` along `axes` (by default the first ones). Negative numbers follow Python's
    rules.
    """
    where = [shapes.axis_of(a, x.ndim) for a in axes] if axes is not None else list(range(len(begin)))
    steps = tuple(strides) if strides is not None else (1,) * len(where)
    if len(steps) == 1 and len(where) > 1:
        steps = steps * len(where)
    if not len(where) == len(begin) == len(end) == len(steps):
        raise InputError(f"strided_slice: begin {begin}, end {end}, strides {strides}, axes {axes} differ in length")
    shape = list(dims(x))
    starts: list[shapes.Dim] = [0] * x.ndim
    by = [1] * x.ndim
    for a, first, last, step in zip(where, begin, end, steps, strict=True):
        starts[a], shape[a] = _slice(dims(x)[a], first, last, step)
        by[a] = step
    return te.compute(
        shape,
        lambda *i: x[tuple(shapes.plus(shapes.times(p, s), b) for p, s, b in zip(i, by, starts, strict=True))],
        name="T_strided_slice",
    )


def _slice(extent: shapes.Dim, begin: shapes.Dim, end: shapes.Dim, step: int) -> tuple[shapes.Dim, shapes.Dim]:
    """Return (start, count) of a slice of an axis."""
    if step == 0:
        raise InputError("strided_slice: a stride is not 0")
    if isinstance(extent, int) and isinstance(begin, int) and isinstance(end, int):
        first, stop, _ = slice(begin, end, step).indices(extent)
        return first, len(range(first, stop, step))
    begin, end = (max(min(e, _UNBOUNDED), -_UNBOUNDED) if isinstance(e, int) else e for e in (begin, end))
    if step < 0:
        return _backwards(extent, begin, end, step)
    first, stop = _clamped(extent, begin), _clamped(extent, end)
    if isinstance(begin, int) and begin < 0 and stop is extent:
        length = shapes.simple(te.minimum(extent, -begin))
    elif isinstance(begin, int) and begin > 0:
        first, length = begin, shapes.simple(te.maximum(stop - begin, 0))  # a start beyond the end is never read
    else:
        length = stop if isinstance(first, int) and first == 0 else shapes.simple(te.maximum(stop - first, 0))
    count = length if step == 1 else shapes.simple((length + (step - 1)) // step)
    return first, max(count, 0) if isinstance(count, int) else count


def _clamped(extent: shapes.Dim, bound: shapes.Dim) -> shapes.Dim:
    if isinstance(bound, int) and bound >= _UNBOUNDED:
        return extent
    if isinstance(bound, int) and bound == 0:
        return 0
    if isinstance(bound, int) and bound < 0:
        return 0 if bound <= -_UNBOUNDED else shapes.simple(te.maximum(extent + bound, 0))
    if shapes.same(bound, extent):
        return extent
    from_front = shapes.simple(te.minimum(bound, extent))
    negative = shapes.simple(as_expr(bound) < 0)
    if isinstance(negative, int):
        return shapes.simple(te.maximum(extent + bound, 0)) if negative else from_front
    return shapes.simple(te.select(negative, te.maximum(extent + bound, 0), from_front))


def _backwards(extent: shapes.Dim, begin: shapes.Dim, end: shapes.Dim, step: int) -> tuple[shapes.Dim, shapes.Dim]:
    """Return (start, count) of a slice with a negative step.

    Both ends are clamped to the range from -1, which is before the first element, to the last element.
    """
    first, stop = _clamped_behind(extent, begin), _clamped_behind(extent, end)
    length = shapes.simple(te.maximum(as_expr(first) - stop, 0))
    return first, length if step == -1 else shapes.simple((length + (-step - 1)) // -step)


def _clamped_behind(extent: shapes.Dim, bound: shapes.Dim) -> shapes.Dim:
    last = shapes.simple(as_expr(extent) - 1)
    if isinstance(bound, int) and bound >= _UNBOUNDED:
        return last
    if isinstance(bound, int) and bound < 0:
        return last if bound == -1 else -1 if bound <= -_UNBOUNDED else shapes.simple(te.maximum(extent + bound, -1))
    from_front = shapes.simple(te.minimum(bound, last))
    negative = shapes.simple(as_expr(bound) < 0)
    if isinstance(negative, int):
        return shapes.simple(te.maximum(extent + bound, -1)) if negative else from_front
    return shapes.simple(te.select(negative, te.maximum(extent + bound, -1), from_front))


@register("reverse", pattern=Pattern.INJECTIVE, fold=np.flip)
def reverse(x: Tensor, *, axis: int | Sequence[int] = 0) -> Tensor:
    """Return x with its elements in reverse order along the axes in `axis`."""
    axes = shapes.axes_of(axis, x.ndim)

    def element(*i: Any) -> Expr:
        return x[tuple((d - 1) - p if a in axes else p for a, (p, d) in enumerate(zip(i, dims(x), strict=True)))]

    return te.compute(x.shape, element, name="T_reverse")
