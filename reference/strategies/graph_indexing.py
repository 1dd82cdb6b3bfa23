"""Moves of `graphs` that read and write at positions given by data, with index dtypes of every width, axes longer than
the dtype can count, and indices that are negative or out of range if the operator defines them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import Value

from .graph_drawing import LARGEST, Drawing, fixed

INDEX_DTYPES = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
# One more than int8 and uint8 hold, and well beyond.
_LONG = (129, 300, 128, 256, 257, 127, 255)


def _indexed(d: Drawing) -> tuple[Value, int]:
    """Draw a value and an axis to index, sometimes an axis longer than a byte can count."""
    x = d.pick(lambda v: any(isinstance(dim, int) and dim > 0 for dim in v.shape))
    axes = [k for k, dim in enumerate(x.shape) if isinstance(dim, int) and dim > 0]
    if d.draw(st.integers(0, 2)) == 0 and axes and d.elements(x.shape) * 6 <= LARGEST:
        return x, d.one_of(axes)
    shape = [d.one_of([1, 2, 3]), d.one_of(_LONG)]
    axis = d.draw(st.integers(0, 1))
    dtype = d.one_of(["float32", "int32", "int8"])
    return d.fresh(shape if axis else shape[::-1], dtype, constant=False), axis


def _indices(d: Drawing, shape: list[Any], extent: int, beyond: bool = True) -> Value:
    """Draw indices of any dtype: inside the axis from either end, around its ends, and at the ends of the dtype."""
    narrow = [t for t in INDEX_DTYPES if np.iinfo(t).max < extent]
    dtype = np.dtype(d.one_of(narrow if narrow and d.draw(st.integers(0, 3)) else INDEX_DTYPES))
    limits = np.iinfo(dtype)
    ends = [0, -1, 1, extent - 1, -extent, extent // 2]
    if beyond:
        ends += [extent, -extent - 1, int(limits.min), int(limits.max), limits.max // 2 + 1]
    places = [v for v in ends if limits.min <= v <= limits.max]
    low, high = max(-extent, int(limits.min)), min(extent - 1, int(limits.max))
    count = prod(shape)
    inside = d.rng.integers(low, high + 1, count).tolist()
    planted = [places[k] for k in d.rng.integers(0, len(places), count)]
    elements = [a if keep else b for keep, a, b in zip(d.rng.integers(0, 2, count), inside, planted, strict=True)]
    return d.holding(np.array(elements, dtype=dtype).reshape(shape))


def _take(d: Drawing) -> None:
    x, axis = _indexed(d)
    extent = fixed(x.shape[axis])
    d.op("take", x, _indices(d, d.one_of([[], [1], [3], [2, 3]]), extent, beyond=False), peak=d.peak(x), axis=axis)


def _gather(d: Drawing) -> None:
    x, axis = _indexed(d)
    if not all(isinstance(dim, int) for dim in x.shape):
        return
    shape = [d.one_of([1, 3, 5]) if a == axis else dim for a, dim in enumerate(x.shape)]
    if d.elements(shape) <= LARGEST:
        d.op("gather", x, _indices(d, shape, fixed(x.shape[axis])), peak=d.peak(x), axis=axis)


def _gather_nd(d: Drawing) -> None:
    x, _ = _indexed(d)
    if not all(isinstance(dim, int) and dim > 0 for dim in x.shape):
        return
    size = d.draw(st.integers(1, x.ndim))
    shape = [*d.one_of([[2], [1, 2]]), size]
    if prod(shape[:-1]) * d.elements(x.shape[size:]) <= LARGEST:
        d.op("gather_nd", x, _indices(d, shape, fixed(d.one_of(x.shape[:size]))), peak=d.peak(x))


def _scatter(d: Drawing) -> None:
    """Add a scatter that writes each position at most once, because two writes have no meaning without a reduction."""
    x, axis = _indexed(d)
    if not all(isinstance(dim, int) and dim > 0 for dim in x.shape) or x.dtype.is_bool:
        return
    extent = fixed(x.shape[axis])
    reduction = d.one_of(["none", "max", "min"])
    count = 1 if reduction == "none" else d.one_of([1, 2, 3])
    if d.flag():
        shape = [count if a == axis else dim for a, dim in enumerate(x.shape)]
        updates = d.fresh(shape, str(x.dtype), constant=False)
        d.op("scatter_elements", x, _indices(d, shape, extent), updates, peak=d.peak(x, updates),
             axis=axis, reduction=reduction)  # fmt: skip
        return
    updates = d.fresh([count, *x.shape[1:]], str(x.dtype), constant=False)
    places = _indices(d, [count, 1], fixed(x.shape[0]))
    d.op("scatter_nd", x, places, updates, peak=d.peak(x, updates), reduction=reduction)


def _one_hot(d: Drawing) -> None:
    depth = d.one_of([3, 130, 260])
    indices = _indices(d, d.one_of([[3], [2, 2]]), depth)
    d.op("one_hot", indices, peak=1, depth=depth, axis=d.one_of([-1, 0]), dtype=d.one_of(["float32", "int8"]))


def _sorted(d: Drawing) -> None:
    """Add a sort of a new value: a rounded value differs between levels, and so would its order."""
    x = d.fresh([d.one_of([1, 2]), d.one_of([3, 16, 130])], d.one_of(["float32", "int8", "int32"]), constant=False)
    extent = fixed(x.shape[1])
    dtype = d.one_of([t for t in ("int64", "int32", "int16", "uint8", "int8") if np.iinfo(t).max >= extent - 1])
    ascending = d.flag()
    if d.flag():
        d.op("argsort", x, peak=extent, axis=1, is_ascend=ascending, dtype=dtype)
    else:
        k = d.draw(st.integers(1, min(extent, 4)))
        d.op("topk", x, peak=max(extent, d.peak(x)), k=k, axis=1, is_ascend=ascending, dtype=dtype)


def _caches(d: Drawing) -> None:
    """Add an update of a cache, and attention to the filled places, of entries that slots may choose."""
    batch, groups, places, rows = d.one_of([1, 2]), d.one_of([1, 2]), d.one_of([3, 17]), d.one_of([1, 2])
    width = d.one_of([3, 16])
    entries = d.one_of([batch, 3])
    stored = d.one_of(["float32", "float32", "float16"])
    cache = d.fresh([entries, groups, places, width], stored, constant=False)
    new = d.fresh([batch, groups, rows, width], stored, constant=False)
    dtype = d.one_of([np.int32, np.int64])
    position = d.holding(d.rng.integers(0, places - rows + 1, batch).astype(dtype))
    slots = [] if entries == batch else [d.holding(d.rng.integers(0, entries, batch).astype(np.int32))]
    filled = d.op("nn.cache_update", cache, new, position, *slots, peak=d.peak(cache, new))
    if d.flag():
        query = d.fresh([batch, groups * d.one_of([1, 2, 3]), rows, width], "float32", constant=False)
        d.op(
            "nn.cached_attention",
            query,
            filled,
            filled,
            position,
            *slots,
            peak=d.peak(filled),
            exact=False,
            scale=0.125,
        )


def _counted(d: Drawing) -> None:
    """Add an operator whose number of results depends on data: padded with zeros, or with exactly that many, then
    summed.
    """
    kind = d.one_of(["argwhere", "unique", "suppress"])
    if kind == "argwhere":
        x = d.fresh(d.one_of([[7], [2, 3], [1, 33]]), d.one_of(["float32", "int8", "bool"]), 0, 1, constant=False)
        results = d.op("argwhere", x, peak=d.elements(x.shape))
    elif kind == "unique":
        x = d.fresh(d.one_of([[9], [40], [6, 2]]), d.one_of(["float32", "int32", "uint8"]), 0, 2, constant=False)
        results = d.op("unique", x, peak=d.elements(x.shape), sorted=d.flag())
    else:
        boxes = d.fresh([1, 5, 4], "float32", 0, 4, constant=False)
        scores = d.fresh([1, 2, 5], "float32", 0, 3, constant=False)
        limits = np.array([d.one_of([0, 2, 9])]), np.array([0.25], np.float32), np.array([0.5], np.float32)
        form = d.one_of(["corner", "center"])
        most = d.one_of([1, 3, 5])
        results = d.op(
            "vision.all_class_non_max_suppression", boxes, scores, *limits, peak=10, most=most, box_format=form
        )
    places, count = results[0], results[-1]
    if d.flag():
        size, most = SizeVar("found"), fixed(places.shape[0])
        d.op("bind_size", count, peak=most, size=size, most=most)
        rows = d.b.op("leading", places, size=size)
        doubled = d.b.op("concatenate", rows, d.b.op("add", rows, 1), axis=0)
        d.op("sum", doubled, peak=4.0 * most * most, axis=(0,))


INDEXING: dict[str, Callable[[Drawing], None]] = {
    "take": _take, "gather": _gather, "gather_nd": _gather_nd, "scatter": _scatter, "one_hot": _one_hot,
    "sorted": _sorted, "caches": _caches, "counted": _counted,
}  # fmt: skip
