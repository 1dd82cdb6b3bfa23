"""Sorting along an axis.

Equal elements keep their order. NaN is greater than every number and equal to NaN, as in NumPy and ONNX. The sort is
selected by the known parts of the shape:

    many short lines      `sort_lanes.py`: a network, the same steps for each line
    the first few         insertion for many lines, the same steps for each; a heap if lines are long or few
    long lines            digits of the keys, one after the other
    rows of columns       a merge sort
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from .. import te
from ..expr import Expr, as_expr
from ..te import Tensor
from ..tir.nodes import PrimFunc
from .broadcast import full
from .indices import check_counts, nearest
from .lines import along, extent_of
from .registry import register
from .shapes import Dim, axis_of, dims, product, require_at_least
from .sort_keys import key_bits, key_dtype, unsigned_key
from .sort_lanes import LINES, LONGEST, MOST, exchanges, insertion, merge_exchange
from .transform import transpose

# If the heap has more than one eighth of the axis's elements, sorting all elements is faster.
_FEW = 8
# Nanoseconds per element. In lanes: to read it, for each place that it may take, and for each exchanged pair. With a
# heap: to compare it with the top, and to sink it. Measured on Emerald Rapids with lines of 256 to 50,000 elements.
_READ, _INSERTED, _EXCHANGED = 0.15, 0.14, 0.42
_COMPARED, _SUNK = 1.5, 45.0
_BUCKETS = 256  # one for each value of a digit of 8 bits
_LONG = 4096  # from this number of elements on, fewer digits with more bits are faster


@register("argsort")
def argsort(data: Tensor, *, axis: int = -1, is_ascend: bool = True, dtype: str = "int64") -> Tensor:
    """Return the indices that sort a tensor along `axis`. Equal elements keep their order."""
    at = axis_of(axis, data.ndim)
    extent = dims(data)[at]
    check_counts("argsort", dtype, extent)
    if isinstance(extent, int) and extent < 2:
        return full(shape=dims(data), fill_value=0, dtype=dtype)
    index = key_dtype(dtype)
    if _in_lanes(data, at):
        network = merge_exchange(extent, extent, str(data.dtype), is_ascend, index)
        return _as_dtype(along([data], at, network, in_step=True)[0], dtype)
    line = _by_digits(extent_of(extent, "n"), str(data.dtype), is_ascend, index)
    return _as_dtype(_along_last(data, at, lambda x: along([x], x.ndim - 1, line))[0], dtype)


def _as_dtype(indices: Tensor, dtype: str) -> Tensor:
    """Return the indices in `dtype`.

    The sorts themselves use int32 or int64: they also access memory at these indices, and minitvm can prove that an
    access is in bounds only for these dtypes.
    """
    if indices.dtype == dtype:
        return indices
    return te.compute(dims(indices), lambda *i: indices[i].astype(dtype), name="T_indices")


def order_of_rows(flat: Tensor, rows: Dim, columns: int) -> Tensor:
    """Return the indices that sort rows, which are stored one after the other, in lexicographic order."""
    if columns == 1:
        return argsort(flat)
    total = extent_of(dims(flat)[0], "n")
    extent = rows if isinstance(rows, int) else total // columns
    line = _merge_sort(total, extent, columns, str(flat.dtype))
    return along([flat], 0, line, [lambda i, _: i[0].astype("int64")])[0]


@register("topk")
def topk(
    data: Tensor, *, k: Dim = 1, axis: int = -1, is_ascend: bool = False, dtype: str = "int64"
) -> list[Tensor]:  # fmt: skip
    """Return [values, indices] of the first k elements along `axis` in descending (or, with `is_ascend`, ascending)
    order.

    Equal elements keep their order. k may be symbolic, from 0 to the extent; then all elements are sorted.
    """
    at = axis_of(axis, data.ndim)
    extent = dims(data)[at]
    require_at_least(k, 0, "entries to select")
    require_at_least(extent, k, f"entries along axis {at} to select from")
    check_counts("topk", dtype, extent)
    shape = [*dims(data)[:at], k, *dims(data)[at + 1 :]]
    if isinstance(k, int) and k == 0:
        return [full(shape=shape, fill_value=0, dtype=str(d)) for d in (data.dtype, dtype)]
    order = None
    if isinstance(k, int):
        index = key_dtype(dtype)
        line = extent_of(extent, "n"), k, str(data.dtype), is_ascend, index
        sort = _quickest(data, at, k)
        if sort == "insertion":
            values, indices = along([data], at, insertion(*line), in_step=True)
            return [values, _as_dtype(indices, dtype)]
        if sort == "heap":
            starts = [lambda i, x: x[i], lambda i, _: i[data.ndim - 1].astype(index)]
            values, indices = _along_last(data, at, lambda x: along([x], x.ndim - 1, _heap(*line), starts))
            return [values, _as_dtype(indices, dtype)]
        if sort == "network":
            order = along([data], at, merge_exchange(*line), in_step=True)[0]
    if order is None:
        order = argsort(data, axis=at, is_ascend=is_ascend, dtype=key_dtype(dtype))
    indices = te.compute(shape, lambda *i: order[i].astype(dtype), name="T_topk_indices")
    values = te.compute(shape, lambda *i: data[(*i[:at], order[i], *i[at + 1 :])], name="T_topk_values")
    return [values, indices]


def _in_lanes(data: Tensor, at: int) -> bool:
    """Return whether to sort the lines along an axis with a network.

    The lines must be short, and there must be enough of them to fill vector lanes. A few lines also qualify if they are
    so short that the network has no more exchanges than a radix sort has counters.
    """
    extent = dims(data)[at]
    if not isinstance(extent, int) or extent > LONGEST or data.dtype.bits > 32:
        return False
    counters = _digits(extent, str(data.dtype))[0] * (_BUCKETS + 2 * extent)
    return _fills_lanes(data, at) or exchanges(extent) <= counters


def _fills_lanes(data: Tensor, at: int) -> bool:
    lines = product([d for a, d in enumerate(dims(data)) if a != at])
    return data.dtype.bits <= 32 and (not isinstance(lines, int) or lines >= LINES)


def _quickest(data: Tensor, at: int, k: int) -> str:
    """Return the name of the sort that finds the first k elements of a line fastest, for elements in random order."""
    extent = dims(data)[at]
    few, n = (k * _FEW <= extent, extent) if isinstance(extent, int) else (True, _LONG)
    if not _fills_lanes(data, at):
        return "heap" if few else "network" if _in_lanes(data, at) else "digits"
    times: dict[str, float] = {}
    if k <= MOST:
        times["insertion"] = n * (_READ + _INSERTED * k)
    if few:  # the element at place j comes before the top with a chance of k / j
        times["heap"] = n * _COMPARED + _SUNK * k * (1 + log(n / k))
    if _in_lanes(data, at):
        times["network"] = _EXCHANGED * exchanges(n)
    return min(times, key=lambda sort: times[sort], default="digits")


def _along_last(data: Tensor, at: int, apply: Callable[[Tensor], list[Tensor]]) -> list[Tensor]:
    """Apply a function that works along the last axis to axis `at` of a tensor. If that is not the last axis, the
    tensor and the results are transposed.
    """
    if at == data.ndim - 1:
        return apply(data)
    turned = [*(a for a in range(data.ndim) if a != at), at]
    back = [turned.index(a) for a in range(data.ndim)]
    return [transpose(result, axes=back) for result in apply(transpose(data, axes=turned))]


def strictly_before(ascending: bool) -> Any:
    """Return a predicate that is true if its first element comes before its second, regardless of their positions."""

    def greater(a: Expr, b: Expr) -> Expr:
        if not a.dtype.is_float:
            return a > b
        # NaN is greater than numbers: it is not less than or equal to any.
        return te.all(b == b, ~(a <= b))

    return (lambda a, b: greater(b, a)) if ascending else greater


def _digits(extent: Any, dtype: str) -> tuple[int, int]:
    """Return the number of digits of a key for a radix sort of `extent` elements, and the number of bits of a digit."""
    width = 11 if isinstance(extent, int) and extent >= _LONG and key_bits(dtype) > 16 else 8
    return -(-key_bits(dtype) // width), width


def _by_digits(extent: Any, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """Return a function that sorts the indices of a line by radix sort: it distributes them by the last digit of their
    keys, then by the digit before, and so on.

    A digit that is the same in all keys is skipped. (Knuth, TAOCP 3, 5.2.5.)
    """
    from ..tir.script import builtins as T

    passes, width = _digits(extent, dtype)
    buckets = 1 << width

    def counter(value: Expr, digit: Expr) -> Expr:
        """Return the index of the counter for one digit of the key."""
        key = unsigned_key(value, ascending)
        shifted = key >> (as_expr(digit) * width).astype(key.dtype)
        return digit * buckets + (shifted & (buckets - 1)).astype("int32")

    @T.prim_func
    def by_digits(x: T.Buffer((extent,), dtype), order: T.Buffer((extent,), index)) -> None:
        places = T.alloc_buffer((2, extent), "int32")
        counts = T.alloc_buffer((passes * buckets,), "int32", scope="local")
        row = T.alloc_buffer((1,), "int32", scope="local")
        start = T.alloc_buffer((1,), "int32", scope="local")
        count = T.alloc_buffer((1,), "int32", scope="local")
        place = T.alloc_buffer((1,), "int32", scope="local")
        bucket = T.alloc_buffer((1,), "int32", scope="local")
        for b in range(passes * buckets):
            counts[b] = 0
        for j in range(extent):
            places[0, j] = T.Cast("int32", j)
            for digit in T.unroll(passes):
                counts[counter(x[j], digit)] = counts[counter(x[j], digit)] + 1
        row[0] = 0
        for digit in range(passes):
            if extent > 1 and counts[counter(x[0], digit)] < extent:
                start[0] = 0
                for b in range(buckets):
                    count[0] = counts[digit * buckets + b]
                    counts[digit * buckets + b] = start[0]
                    start[0] = start[0] + count[0]
                for j in range(extent):
                    place[0] = places[row[0], j]
                    bucket[0] = counter(x[place[0]], digit)
                    places[1 - row[0], nearest(counts[bucket[0]], extent)] = place[0]
                    counts[bucket[0]] = counts[bucket[0]] + 1
                row[0] = 1 - row[0]
        for j in range(extent):
            order[j] = T.Cast(index, places[row[0], j])

    return by_digits


def _merge_sort(total: Any, extent: Any, columns: int, dtype: str) -> PrimFunc:
    """Return a merge sort. It merges runs of 1, 2, 4, ... elements in pairs, from one row of indices to another.

    The first row, `order`, begins as 0, 1, .... Elements are rows of `columns` columns. They are sorted by the last
    column first (Knuth, TAOCP 3, 5.2.4). Equal elements keep their order, so that each column takes precedence over the
    columns after it.
    """
    from ..tir.script import builtins as T

    before = strictly_before(ascending=True)

    def clipped(place: Expr) -> Expr:
        return nearest(place, extent)

    @T.prim_func
    def merge_sort(
        x: T.Buffer((total,), dtype), order: T.Buffer((extent,), "int64"), other: T.Buffer((extent,), "int64")
    ) -> None:
        width = T.alloc_buffer((1,), "int32", scope="local")
        left = T.alloc_buffer((1,), "int32", scope="local")
        right = T.alloc_buffer((1,), "int32", scope="local")
        middle = T.alloc_buffer((1,), "int32", scope="local")
        end = T.alloc_buffer((1,), "int32", scope="local")
        for j in range(extent):
            other[j] = T.Cast("int64", j)
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
                            x[order[clipped(right[0])] * columns + (columns - 1 - column)],
                            x[order[clipped(left[0])] * columns + (columns - 1 - column)],
                        )
                    ):
                        other[j] = order[clipped(left[0])]
                        left[0] = left[0] + 1
                    else:
                        other[j] = order[clipped(right[0])]
                        right[0] = right[0] + 1
                width[0] = width[0] * 2
                for j in range(extent):
                    order[j] = other[j]

    return merge_sort


def _heap(extent: Any, k: int, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """Return a function that keeps the first k elements so far in a heap, whose memory is the results. The last of
    these elements is at the top.

    In the end, the tops are removed one by one and fill the results from the back. Most elements do not come before the
    top, so there are usually n comparisons and k log k steps, and n log k in the worst case. The results begin as the
    first k elements and their indices.
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
            # A later element comes after equal ones: it moves up past all elements that come before it.
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
        # The top goes to the last place, then to the one before it, and so on.
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
