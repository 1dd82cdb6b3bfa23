"""Reductions over some axes. If `axis` is None, all axes are reduced; `keepdims` keeps each reduced axis with extent
1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import EQ, And, DType, Expr, IntImm, IterVar, Or, as_expr, binary, const
from ..te import Tensor
from ..tir.op import highest, lowest
from .elementwise import elementwise
from .indices import check_counts
from .registry import Pattern, register
from .shapes import Dim, axes_of, dims, product, require_some

Axes = int | Sequence[int] | None

_all = te.comm_reducer(lambda x, y: binary(And, x, y), lambda t: const(True), "all")
_any = te.comm_reducer(lambda x, y: binary(Or, x, y), lambda t: const(False), "any")


def reduce_over(x: Tensor, axis: Axes, keepdims: bool, body: Callable[[Expr, list[IterVar]], Any], name: str) -> Any:
    """Return a compute over the remaining axes whose element is `body(element of x, reduce axes)`."""
    axes = axes_of(axis, x.ndim)
    taps = [te.reduce_axis((0, x.shape[a]), name=f"k{n}" if len(axes) > 1 else "k") for n, a in enumerate(axes)]
    kept = [a for a in range(x.ndim) if a not in axes]
    extents = dims(x)
    shape: list[Dim] = [extents[a] for a in kept]
    if keepdims:
        shape = [1 if a in axes else extents[a] for a in range(x.ndim)]

    def element(*indices: Any) -> Any:
        spatial = iter([i for a, i in enumerate(indices) if a in kept] if keepdims else indices)
        reduced = iter(taps)
        point = [next(reduced).var if a in axes else next(spatial) for a in range(x.ndim)]

        return body(x[tuple(point)], taps)

    return te.compute(tuple(shape), element, name=name)


def _reduce(
    name: str, reducer: Any, x: Tensor, axis: Axes, keepdims: bool, one: Callable[[Expr], Expr] = lambda v: v
) -> Tensor:
    """Return a reduction of x. If there are no axes to reduce, apply `one` to each element: the reduction of a single
    element.
    """
    if not axes_of(axis, x.ndim):
        return elementwise(x, one, name)
    reduced: Tensor = reduce_over(x, axis, keepdims, lambda value, taps: reducer(value, axis=taps), f"T_{name}")
    return reduced


def count_of(x: Tensor, axis: Axes) -> Expr:
    """Return how many elements of `x` are reduced into one, as an integer expression."""
    return as_expr(product([dims(x)[a] for a in axes_of(axis, x.ndim)]))


def _keeping_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy reduction that keeps the dtype of its input, as the operator does."""

    def fold(x: Any, axis: Any, keepdims: bool) -> Any:
        reduced = function(x, axis=axis, keepdims=keepdims)
        return np.asarray(reduced, x.dtype)

    return fold


@register(
    "sum",
    pattern=Pattern.COMM_REDUCE,
    fold=_keeping_dtype(np.sum),
    onnx="ReduceSum",
    aten="sum.default sum.dim_IntList",
)
def sum(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum over the axes in `axis`."""
    return _reduce("sum", te.sum, x, axis, keepdims)


@register(
    "prod",
    pattern=Pattern.COMM_REDUCE,
    fold=_keeping_dtype(np.prod),
    onnx="ReduceProd",
    aten="prod.default prod.dim_int",
)
def prod(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the product over the axes in `axis`."""
    return _reduce("prod", te.prod, x, axis, keepdims)


@register("max", pattern=Pattern.COMM_REDUCE, fold=_keeping_dtype(np.max), onnx="ReduceMax", aten="amax")
def max(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over the axes in `axis`, or NaN if any element is NaN."""
    return _reduce("max", _any if x.dtype.is_bool else te.max, x, axis, keepdims)


@register("min", pattern=Pattern.COMM_REDUCE, fold=_keeping_dtype(np.min), onnx="ReduceMin", aten="amin")
def min(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over the axes in `axis`, or NaN if any element is NaN."""
    return _reduce("min", _all if x.dtype.is_bool else te.min, x, axis, keepdims)


@register("all", pattern=Pattern.COMM_REDUCE, fold=np.all)
def all(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over the axes in `axis` are true, as a bool."""
    return _reduce("all", lambda v, axis: _all(_truth(v), axis=axis), x, axis, keepdims, _truth)


@register("any", pattern=Pattern.COMM_REDUCE, fold=np.any)
def any(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether any element over the axes in `axis` is true, as a bool."""
    return _reduce("any", lambda v, axis: _any(_truth(v), axis=axis), x, axis, keepdims, _truth)


def _truth(v: Expr) -> Expr:
    return v.astype("bool")


@register("mean", pattern=Pattern.COMM_REDUCE, onnx="ReduceMean", aten="mean.default mean.dim")
def mean(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the mean over the axes in `axis`, rounded toward zero for integers.

    16-bit floats are summed in float32, and integers of fewer than 32 bits in int32, because neither the sum nor the
    count fits in their own dtype.
    """
    if x.dtype.is_bool:
        raise TypeMismatch("mean: wanted numbers, found bool\n  try:    cast to float32 first")
    if x.dtype.bits < 32:
        wide = elementwise(x, lambda v: v.astype("float32" if x.dtype.is_float else "int32"), "cast")
        return elementwise(mean(wide, axis=axis, keepdims=keepdims), lambda v: v.astype(x.dtype), "cast")
    total = sum(x, axis=axis, keepdims=keepdims)
    count = count_of(x, axis).astype(x.dtype)
    return elementwise(total, lambda v: v / count if x.dtype.is_float else te.truncdiv(v, count), "divide")


@register("variance")
def variance(x: Tensor, *, axis: Axes = None, keepdims: bool = False, unbiased: bool = False) -> Tensor:
    """Return the mean squared distance from the mean over the axes in `axis`, computed in two passes. `unbiased`
    divides by count - 1, at least 0.
    """
    return _variance(x, mean(x, axis=axis, keepdims=True), axis, keepdims, unbiased)


def moments(x: Tensor, axis: Axes) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) over the axes in `axis`, which stay with extent 1. The mean is computed once and used for
    both.
    """
    average = mean(x, axis=axis, keepdims=True)
    return average, _variance(x, average, axis, True, False)


def _variance(x: Tensor, average: Tensor, axis: Axes, keepdims: bool, unbiased: bool) -> Tensor:
    zero = const(0, "int32")
    kept = axes_of(axis, x.ndim)
    squares = te.compute(
        x.shape,
        lambda *i: _square(x[i] - average[tuple(zero if a in kept else p for a, p in enumerate(i))]),
        name="T_square_distance",
    )
    total = sum(squares, axis=axis, keepdims=keepdims)
    count = count_of(x, axis)
    divisor = (te.maximum(count - 1, 0) if unbiased else count).astype(x.dtype)
    return elementwise(total, lambda v: v / divisor, "divide")


def _square(v: Expr) -> Expr:
    return v * v


@register("l1", pattern=Pattern.COMM_REDUCE, onnx="ReduceL1")
def l1(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum of absolute values over the axes in `axis`."""

    def magnitude(v: Expr) -> Expr:
        return v if v.dtype.kind == "uint" else te.abs(v)

    return _reduce("l1", lambda v, axis: te.sum(magnitude(v), axis=axis), x, axis, keepdims, magnitude)


@register("sum_square", pattern=Pattern.COMM_REDUCE, onnx="ReduceSumSquare")
def sum_square(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum of squares over the axes in `axis`."""
    if not axes_of(axis, x.ndim):
        return elementwise(x, _square, "square")
    return _reduce("sum_square", lambda v, axis: te.sum(_square(v), axis=axis), x, axis, keepdims)


@register("l2", pattern=Pattern.COMM_REDUCE, onnx="ReduceL2")
def l2(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the square root of the sum of squares over the axes in `axis`. For integers, it is computed in float64 and
    rounded toward zero.
    """

    def root(v: Expr) -> Expr:
        return te.sqrt(v) if v.dtype.is_float else te.sqrt(v.astype("float64")).astype(v.dtype)

    return elementwise(sum_square(x, axis=axis, keepdims=keepdims), root, "sqrt")


@register("log_sum", pattern=Pattern.COMM_REDUCE, onnx="ReduceLogSum")
def log_sum(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the logarithm of the sum over the axes in `axis`."""
    return elementwise(sum(x, axis=axis, keepdims=keepdims), te.log, "log")


@register("logsumexp", pattern=Pattern.COMM_REDUCE, onnx="ReduceLogSumExp", aten="logsumexp")
def logsumexp(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over the axes in `axis`, without overflow."""
    if not axes_of(axis, x.ndim):
        return elementwise(x, lambda v: v, "logsumexp")
    largest = max(x, axis=axis, keepdims=True)
    # If all elements are -inf (or one is +inf), the largest is not subtracted: inf - inf is NaN.
    shift = elementwise(largest, lambda v: te.select(te.isfinite(v), v, const(0, v.dtype)), "finite")
    reduced = axes_of(axis, x.ndim)
    zero = const(0, "int32")
    powers = te.compute(
        x.shape,
        lambda *i: te.exp(x[i] - shift[tuple(zero if a in reduced else p for a, p in enumerate(i))]),
        name="T_exp",
    )
    total = sum(powers, axis=axis, keepdims=keepdims)
    kept = [a for a in range(x.ndim) if a not in reduced]

    def element(*i: Any) -> Expr:
        place = iter([p for a, p in enumerate(i) if a in kept] if keepdims else i)
        at = tuple(next(place) if a in kept else zero for a in range(x.ndim))
        return te.log(total[i]) + shift[at]

    return te.compute(total.shape, element, name="T_logsumexp")


@register("argmax", pattern=Pattern.COMM_REDUCE)
def argmax(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False, dtype: str = "int64"
) -> Tensor:
    """Return the index of the largest element along `axis`, which names one axis, or over all axes in row-major order
    (None).

    If several elements are equal, the first one wins, or the last one with `select_last_index`.
    """
    return _arg("argmax", x, axis, keepdims, select_last_index, dtype)


@register("argmin", pattern=Pattern.COMM_REDUCE)
def argmin(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False, dtype: str = "int64"
) -> Tensor:
    """Return the index of the smallest element along `axis`, which names one axis, or over all axes in row-major order
    (None).

    If several elements are equal, the first one wins, or the last one with `select_last_index`.
    """
    return _arg("argmin", x, axis, keepdims, select_last_index, dtype)


def _arg(name: str, x: Tensor, axis: Axes, keepdims: bool, select_last: bool, dtype: str) -> Tensor:
    count = count_of(x, axis)
    check_counts(name, dtype, count)
    # Positions of 32 bits fill as many lanes as float32 has, those of 64 bits half of them.
    if dtype == "int64" and isinstance(count, IntImm) and count.value <= DType("int32").max:
        short = _arg(name, x, axis, keepdims, select_last, "int32")
        return elementwise(short, lambda v: v.astype("int64"), "cast")
    largest = name == "argmax"

    def combine(a: Any, b: Any) -> tuple[Expr, Expr]:
        better = a[1] > b[1] if largest else a[1] < b[1]
        equal: Expr = binary(EQ, a[1], b[1])
        earlier = a[0] > b[0] if select_last else a[0] < b[0]
        if a[1].dtype.is_float:  # NaN wins against numbers, as in NumPy
            better = te.any(better, te.all(te.isnan(a[1]), binary(EQ, b[1], b[1])))
            equal = te.any(equal, te.all(te.isnan(a[1]), te.isnan(b[1])))
        first = te.any(better, te.all(equal, earlier))
        return te.select(first, a[0], b[0]), te.select(first, a[1], b[1])

    def identity(index: Any, value: Any) -> tuple[Expr, Expr]:
        # Every element, even an equal one, is taken before this start.
        start = const(-1, index) if select_last else te.max_value(index)
        return start, lowest(value) if largest else highest(value)

    reducer = te.comm_reducer(combine, identity, name)
    source = elementwise(x, lambda v: v.astype("int8"), "cast") if x.dtype.is_bool else x

    def body(value: Expr, taps: list[IterVar]) -> Any:
        position: Any = None
        wide = dtype if DType(dtype).bits >= 32 else "int32"  # an extent may be one more than the last index
        for tap in taps:
            at_tap = tap.var.astype(wide)
            position = at_tap if position is None else position * tap.dom.extent.astype(wide) + at_tap
        return reducer((position.astype(dtype), value), axis=taps)

    if not axes_of(axis, x.ndim):
        raise InputError(f"{name}: no axis to search")
    extents, axes = dims(x), axes_of(axis, x.ndim)
    for a in axes:
        others = [d for k, d in enumerate(extents) if k not in axes]
        require_some(extents[a], f"entries along axis {a} to choose from", others)
    return reduce_over(source, axis, keepdims, body, f"T_{name}")[0]
