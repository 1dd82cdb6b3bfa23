"""Sorting along an axis: a merge sort of all elements, or a heap of the first k.

Equal elements keep their order. NaN is greater than every number and equal to NaN, as in NumPy and ONNX.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import InputError
from ..expr import Expr, as_expr
from ..te import Tensor
from ..tir.nodes import PrimFunc
from .broadcast import full
from .indices import check_counts
from .lines import along, extent_of
from .shapes import Dim, axis_of, dims

# A heap of more elements than this part of the axis is slower than a sort of all.
_FEW = 8


def argsort(data: Tensor, *, axis: int = -1, is_ascend: bool = True, dtype: str = "int64") -> Tensor:
    """The indices that sort along an axis, equal elements in their order; a merge sort (Knuth, TAOCP 3, 5.2.4)."""
    at = axis_of(axis, data.ndim)
    check_counts("argsort", dtype, dims(data)[at])
    extent = extent_of(dims(data)[at], "n")
    line = _merge_sort(extent, extent, 1, str(data.dtype), is_ascend, dtype)
    return along([data], at, line, [lambda i, _: i[at].astype(dtype)])[0]


def order_of_rows(flat: Tensor, rows: Dim, columns: int) -> Tensor:
    """The indices that sort rows, given one behind the other, by their first elements, equal ones by the next ones."""
    total = extent_of(dims(flat)[0], "n")
    extent = rows if isinstance(rows, int) else total // columns
    line = _merge_sort(total, extent, columns, str(flat.dtype), ascending=True, index="int64")
    return along([flat], 0, line, [lambda i, _: i[0].astype("int64")])[0]


def topk(
    data: Tensor, *, k: Dim = 1, axis: int = -1, is_ascend: bool = False, dtype: str = "int64"
) -> list[Tensor]:  # fmt: skip
    """[values, indices] of the first k in descending (or ascending) order along an axis; equal elements in their order.

    A heap holds the first k so far, with the last of them on top, and most elements do not come before the top: usually
    n comparisons and k log k steps, at worst n log k. If k is symbolic, from 0 to the extent, all elements are sorted.
    """
    at = axis_of(axis, data.ndim)
    extent = dims(data)[at]
    if isinstance(k, int) and (k < 0 or (isinstance(extent, int) and k > extent)):
        raise InputError(f"topk: {k} of {extent} elements")
    check_counts("topk", dtype, extent)
    shape = [*dims(data)[:at], k, *dims(data)[at + 1 :]]
    if isinstance(k, int) and k == 0:
        return [full(shape=shape, fill_value=0, dtype=str(d)) for d in (data.dtype, dtype)]
    if isinstance(k, int) and (not isinstance(extent, int) or k * _FEW <= extent):
        line = _heap(extent_of(extent, "n"), k, str(data.dtype), is_ascend, dtype)
        return along([data], at, line, [lambda i, x: x[i], lambda i, _: i[at].astype(dtype)])
    order = argsort(data, axis=at, is_ascend=is_ascend, dtype=dtype)
    indices = te.compute(shape, lambda *i: order[i], name="T_topk_indices")
    values = te.compute(shape, lambda *i: data[(*i[:at], order[i], *i[at + 1 :])], name="T_topk_values")
    return [values, indices]


def strictly_before(ascending: bool) -> Any:
    """Whether an element comes before another, whatever their positions."""

    def greater(a: Expr, b: Expr) -> Expr:
        if not a.dtype.is_float:
            return a > b
        # NaN is greater than numbers: it is not less than or equal to any.
        return te.all(b == b, ~(a <= b))

    return (lambda a, b: greater(b, a)) if ascending else greater


def _merge_sort(total: Any, extent: Any, columns: int, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """Runs of 1, 2, 4, ... elements are merged in pairs, from `order`, which begins as 0, 1, ..., to another row.

    Elements are rows of so many columns: they are sorted by the last column first. Equal elements keep their order, so
    that each column outweighs those behind it.
    """
    from ..tir.script import builtins as T

    before = strictly_before(ascending)

    def clipped(place: Expr) -> Expr:
        return te.minimum(place, as_expr(extent).astype("int32") - 1)

    def row(place: Expr) -> Expr:
        return place * columns if columns > 1 else place

    @T.prim_func
    def merge_sort(
        x: T.Buffer((total,), dtype), order: T.Buffer((extent,), index), other: T.Buffer((extent,), index)
    ) -> None:
        width = T.alloc_buffer((1,), "int32", scope="local")
        left = T.alloc_buffer((1,), "int32", scope="local")
        right = T.alloc_buffer((1,), "int32", scope="local")
        middle = T.alloc_buffer((1,), "int32", scope="local")
        end = T.alloc_buffer((1,), "int32", scope="local")
        for j in range(extent):
            other[j] = T.Cast(index, j)
        for column in range(columns):
            width[0] = 1
            while width[0] < extent:
                left[0] = 0
                middle[0] = 0
                right[0] = 0
                end[0] = 0
                for j in range(extent):
                    if j == end[0]:
                        left[0] = j
                        middle[0] = T.min(j + width[0], extent)
                        right[0] = middle[0]
                        end[0] = T.min(middle[0] + width[0], extent)
                    if left[0] < middle[0] and (
                        right[0] >= end[0]
                        or not before(
                            x[row(order[clipped(right[0])]) + (columns - 1 - column)],
                            x[row(order[clipped(left[0])]) + (columns - 1 - column)],
                        )
                    ):
                        other[j] = order[left[0]]
                        left[0] = left[0] + 1
                    else:
                        other[j] = order[right[0]]
                        right[0] = right[0] + 1
                width[0] = width[0] * 2
                for j in range(extent):
                    order[j] = other[j]

    return merge_sort


def _heap(extent: Any, k: int, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """The first k so far as a heap in the results, the last of them on top; then the tops, from the last place on.

    The results begin as the first k elements and their indices.
    """
    from ..tir.script import builtins as T

    strictly = strictly_before(ascending)

    def before(a: Expr, i: Expr, b: Expr, j: Expr) -> Expr:
        return te.any(strictly(a, b), te.all(~strictly(b, a), i < j))

    def parent(place: Expr) -> Expr:
        return te.maximum(place - 1, 0) // 2

    @T.prim_func
    def top(x: T.Buffer((extent,), dtype), values: T.Buffer((k,), dtype), indices: T.Buffer((k,), index)) -> None:
        at = T.alloc_buffer((1,), "int32", scope="local")
        child = T.alloc_buffer((1,), "int32", scope="local")
        size = T.alloc_buffer((1,), "int32", scope="local")
        value = T.alloc_buffer((1,), dtype, scope="local")
        place = T.alloc_buffer((1,), index, scope="local")
        for j in range(1, k):
            at[0] = j
            # A later element comes after equal ones: it rises past all elements that come before it.
            while at[0] > 0 and not strictly(x[j], values[parent(at[0])]):
                values[at[0]] = values[parent(at[0])]
                indices[at[0]] = indices[parent(at[0])]
                at[0] = parent(at[0])
            values[at[0]] = x[j]
            indices[at[0]] = T.Cast(index, j)
        for j in range(extent - k):
            # Most elements do not come before the top.
            if strictly(x[j + k], values[0]):
                value[0] = x[j + k]
                place[0] = T.Cast(index, j + k)
                at[0] = 0
                child[0] = 1
                while child[0] < k:
                    if child[0] + 1 < k:
                        if before(values[child[0]], indices[child[0]], values[child[0] + 1], indices[child[0] + 1]):
                            child[0] = child[0] + 1
                    if before(value[0], place[0], values[child[0]], indices[child[0]]):
                        values[at[0]] = values[child[0]]
                        indices[at[0]] = indices[child[0]]
                        at[0] = child[0]
                        child[0] = 2 * child[0] + 1
                    else:
                        child[0] = k
                values[at[0]] = value[0]
                indices[at[0]] = place[0]
        # One place after the other, from the last on, gets the top.
        for j in range(k - 1):
            size[0] = k - 1 - j
            value[0] = values[size[0]]
            place[0] = indices[size[0]]
            values[size[0]] = values[0]
            indices[size[0]] = indices[0]
            at[0] = 0
            child[0] = 1
            while child[0] < size[0]:
                if child[0] + 1 < size[0]:
                    if before(values[child[0]], indices[child[0]], values[child[0] + 1], indices[child[0] + 1]):
                        child[0] = child[0] + 1
                if before(value[0], place[0], values[child[0]], indices[child[0]]):
                    values[at[0]] = values[child[0]]
                    indices[at[0]] = indices[child[0]]
                    at[0] = child[0]
                    child[0] = 2 * child[0] + 1
                else:
                    child[0] = size[0]
            values[at[0]] = value[0]
            indices[at[0]] = place[0]

    return top
