"""Reading and writing at places that are data: take, gather, scatter, sorting by rank.

An index counts from the end when negative. One that is out of range is moved to the nearest end where it is read,
so that nothing outside a tensor is touched, and ignored where it would be written.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import EQ, Expr, as_expr, binary, const
from ..te import Tensor
from .indices import check_counts, clamped, from_front
from .shapes import Dim, axis_of, constant, dims, same
from .transform import reshape

_COMBINE = {"add": te.sum, "mul": te.prod, "max": te.max, "min": te.min}


def _check_index(op: str, indices: Tensor) -> None:
    if not indices.dtype.is_int:
        raise TypeMismatch(f"{op}: indices are integers, found {indices}")


def take(data: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices of `data` along an axis at the indices, whose axes come in its place; None flattens data first."""
    _check_index("take", indices)
    if axis is None:
        return take(reshape(data, newshape=(-1,)), indices, axis=0)
    at = axis_of(axis, data.ndim)
    count = indices.ndim

    def element(*i: Any) -> Expr:
        index = clamped(indices[i[at : at + count]], dims(data)[at])
        return data[(*i[:at], index, *i[at + count :])]

    return te.compute([*dims(data)[:at], *dims(indices), *dims(data)[at + 1 :]], element, name="T_take")


def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """out[i, j, k] = data[indices[i, j, k], j, k] for axis 0, and so on (ONNX's GatherElements)."""
    _check_index("gather", indices)
    at = axis_of(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise TypeMismatch(f"gather: data and indices have as many dimensions, found {data} and {indices}")
    return te.compute(
        indices.shape, lambda *i: data[(*i[:at], clamped(indices[i], dims(data)[at]), *i[at + 1 :])], name="T_gather"
    )


def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The elements or slices of `data` at the points that the last axis of `indices` holds (ONNX's GatherND).

    Relay keeps the points along the first axis instead. The first `batch_dims` axes are common to both.
    """
    _check_index("gather_nd", indices)
    size = constant(dims(indices)[-1], "gather_nd: the last axis of the indices")
    if batch_dims + size > data.ndim or batch_dims >= indices.ndim:
        raise TypeMismatch(f"gather_nd: points of {size} coordinates behind {batch_dims} do not fit {data}")
    lead = indices.ndim - 1

    def element(*i: Any) -> Expr:
        point = [clamped(indices[(*i[:lead], as_expr(k))], dims(data)[batch_dims + k]) for k in range(size)]
        return data[(*i[:batch_dims], *point, *i[lead:])]

    return te.compute([*dims(indices)[:-1], *dims(data)[batch_dims + size :]], element, name="T_gather_nd")


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """`data` with updates[i, j, k] at [indices[i, j, k], j, k] for axis 0, and so on.

    `reduction` (add, mul, max, min) combines with what is there; with "none" no place may be written twice. Written as
    a reduction over the axis of the updates, so that every output is computed once, in parallel.
    """
    _check_index("scatter_elements", indices)
    at = axis_of(axis, data.ndim)
    if indices.ndim != data.ndim or not all(same(a, b) for a, b in zip(dims(indices), dims(updates), strict=True)):
        raise TypeMismatch(f"scatter_elements: {indices} and {updates} do not fit {data}")
    k = te.reduce_axis((0, indices.shape[at]), name="k")
    others = [(a, d) for a, d in enumerate(dims(indices)) if a != at and not same(d, dims(data)[a])]

    def hits(i: tuple[Any, ...]) -> Expr:
        place = from_front(indices[(*i[:at], k.var, *i[at + 1 :])], dims(data)[at])
        hit = binary(EQ, place, i[at].astype(place.dtype))
        # Updates may be smaller than data along the other axes.
        return te.all(*(i[a] < d for a, d in others), hit) if others else hit

    def update(i: tuple[Any, ...]) -> Expr:
        return updates[(*i[:at], k.var, *i[at + 1 :])]

    return _combined(data, hits, update, [k], reduction, "scatter_elements")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """`data` with the updates at the points that the last axis of `indices` holds (ONNX's ScatterND)."""
    _check_index("scatter_nd", indices)
    size = constant(dims(indices)[-1], "scatter_nd: the last axis of the indices")
    if size > data.ndim or updates.ndim != indices.ndim - 1 + data.ndim - size:
        raise TypeMismatch(f"scatter_nd: {indices} and {updates} do not fit {data}")
    taps = [te.reduce_axis((0, d), name=f"k{n}") for n, d in enumerate(indices.shape[:-1])]
    if not taps:
        raise InputError("scatter_nd: indices need an axis before the last")
    at = tuple(t.var for t in taps)

    def hits(i: tuple[Any, ...]) -> Expr:
        places = [from_front(indices[(*at, as_expr(k))], dims(data)[k]) for k in range(size)]
        return te.all(*(binary(EQ, p, i[k].astype(p.dtype)) for k, p in enumerate(places)))

    return _combined(data, hits, lambda i: updates[(*at, *i[size:])], taps, reduction, "scatter_nd")


def _combined(data: Tensor, hits: Any, update: Any, taps: list[Any], reduction: str, name: str) -> Tensor:
    """Each element of data combined with the updates that hit it."""
    if reduction == "none":
        written = te.compute(
            data.shape,
            lambda *i: te.sum(te.if_then_else(hits(i), const(1, "int32"), const(0, "int32")), axis=taps),
            name="T_hits",
        )
        # At most one update hits: the sum is that one.
        value = te.compute(data.shape, lambda *i: _only(hits(i), update(i), taps), name="T_update")
        return te.compute(data.shape, lambda *i: te.select(written[i] > 0, value[i], data[i]), name=f"T_{name}")
    if reduction not in _COMBINE:
        raise InputError(f"{name}: reduction is none, add, mul, max or min, found {reduction!r}")
    reducer: Any = _COMBINE[reduction]
    change = te.compute(data.shape, lambda *i: reducer(update(i), axis=taps, where=hits(i)), name="T_update")
    meet: Any = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": te.maximum, "min": te.minimum}[reduction]
    return te.compute(data.shape, lambda *i: meet(data[i], change[i]), name=f"T_{name}")


def _only(hit: Expr, value: Expr, taps: list[Any]) -> Any:
    if value.dtype.is_bool:
        any_hit = te.comm_reducer(lambda x, y: te.any(x, y), lambda t: const(False), "any")
        return any_hit(te.all(hit, value), axis=taps)
    return te.sum(value, axis=taps, where=hit)


def argsort(data: Tensor, *, axis: int = -1, is_ascend: bool = True, dtype: str = "int64") -> Tensor:
    """The indices that sort along an axis, equal elements in their order; n^2 comparisons, all in parallel."""
    at = axis_of(axis, data.ndim)
    check_counts("argsort", dtype, dims(data)[at])
    rank = _ranks(data, at, is_ascend)
    return _places(rank, at, dims(data)[at], dtype)


def topk(data: Tensor, *, k: int = 1, axis: int = -1, is_ascend: bool = False, dtype: str = "int64") -> list[Tensor]:
    """[values, indices] of the first k in descending (or ascending) order along an axis; the first of equals first."""
    at = axis_of(axis, data.ndim)
    extent = dims(data)[at]
    if k < 0 or (isinstance(extent, int) and k > extent):
        raise InputError(f"topk: {k} of {extent} elements")
    check_counts("topk", dtype, extent)
    indices = _places(_ranks(data, at, is_ascend), at, k, dtype)
    values = te.compute(indices.shape, lambda *i: data[(*i[:at], indices[i], *i[at + 1 :])], name="T_topk_values")
    return [values, indices]


def _ranks(data: Tensor, at: int, ascending: bool) -> Tensor:
    """How many elements come before each, in sorted order."""
    j = te.reduce_axis((0, data.shape[at]), name="j")

    def element(*i: Any) -> Any:
        own, other = data[i], data[(*i[:at], j.var, *i[at + 1 :])]
        before = other < own if ascending else other > own
        tie = te.all(binary(EQ, other, own), j.var < i[at])
        return te.sum(te.select(te.any(before, tie), const(1, "int32"), const(0, "int32")), axis=j)

    return te.compute(data.shape, element, name="T_rank")


def _places(rank: Tensor, at: int, count: Dim, dtype: str) -> Tensor:
    """Which element has each rank."""
    j = te.reduce_axis((0, rank.shape[at]), name="j")
    shape = [*dims(rank)[:at], count, *dims(rank)[at + 1 :]]

    def element(*i: Any) -> Any:
        found = binary(EQ, rank[(*i[:at], j.var, *i[at + 1 :])], i[at].astype("int32"))
        return te.sum(te.select(found, j.var.astype(dtype), const(0, dtype)), axis=j)

    return te.compute(shape, element, name="T_argsort")
