"""Gather and scatter at indices given by a tensor. A negative index counts from the end; one out of range reads the
nearest end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .table import operator


def _from_front(indices: np.ndarray, extent: int) -> np.ndarray:
    """Return indices counted from the front, in int64. Numbers too large for int64 become its largest value."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    index = indices.astype(np.int64)
    return np.where(index < 0, index + extent, index)


def _inside(indices: np.ndarray, extent: int) -> np.ndarray:
    return np.clip(_from_front(np.asarray(indices), extent), 0, extent - 1)


@operator("take")
def take(data: np.ndarray, indices: np.ndarray, axis: int | None) -> np.ndarray:
    if axis is None:
        return np.take(data.reshape(-1), _inside(indices, data.size))
    return np.take(data, _inside(indices, data.shape[axis]), axis)


@operator("gather")
def gather(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Gather along an axis. The other axes of the indices may be shorter than those of the data."""
    at = axis % data.ndim
    cut = data[tuple(slice(None) if a == at else slice(0, d) for a, d in enumerate(indices.shape))]
    return np.take_along_axis(cut, _inside(indices, data.shape[at]), at)


@operator("gather_nd")
def gather_nd(data: np.ndarray, indices: np.ndarray, batch_dims: int) -> np.ndarray:
    size = indices.shape[-1]
    shape = indices.shape[:-1] + data.shape[batch_dims + size :]
    gathered = np.empty(shape, data.dtype)
    for place in itertools.product(*map(range, indices.shape[:-1])):
        point = tuple(
            int(_inside(i, d)) for i, d in zip(indices[place], data.shape[batch_dims : batch_dims + size], strict=True)
        )
        gathered[place] = data[(*place[:batch_dims], *point)]
    return gathered


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@operator("scatter_elements")
def scatter_elements(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str
) -> np.ndarray:
    """Apply one update after the other; an update out of range is dropped."""
    result = data.copy()
    at = axis % data.ndim
    extent = data.shape[at]
    for place in itertools.product(*map(range, indices.shape)):
        index = int(indices[place])
        index = index + extent if index < 0 else index
        if 0 <= index < extent:
            point = (*place[:at], index, *place[at + 1 :])
            result[point] = _COMBINE[reduction](result[point], updates[place])
    return result


@operator("scatter_nd")
def scatter_nd(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    result = data.copy()
    for place in itertools.product(*map(range, indices.shape[:-1])):
        point = [int(i) + d if i < 0 else int(i) for i, d in zip(indices[place], data.shape, strict=False)]
        if all(0 <= p < d for p, d in zip(point, data.shape, strict=False)):
            result[tuple(point)] = _COMBINE[reduction](result[tuple(point)], updates[place])
    return result


def _sorted_places(data: np.ndarray, axis: int, ascending: bool) -> np.ndarray:
    """Return the indices that sort the data; equal elements keep their order."""
    if ascending:
        return np.argsort(data, axis, kind="stable")
    # Reversing before and after a stable sort keeps equal elements in their order.
    turned = np.argsort(np.flip(data, axis), axis, kind="stable")
    return np.flip(data.shape[axis] - 1 - turned, axis)


@operator("argsort")
def argsort(data: np.ndarray, axis: int, is_ascend: bool, dtype: str) -> np.ndarray:
    return _sorted_places(data, axis, is_ascend).astype(dtype)


@operator("topk")
def topk(data: np.ndarray, k: int, axis: int, is_ascend: bool, dtype: str) -> list[np.ndarray]:
    places = np.take(_sorted_places(data, axis, is_ascend), np.arange(k), axis)
    return [np.take_along_axis(data, places, axis), places.astype(dtype)]


@operator("one_hot")
def one_hot(indices: np.ndarray, depth: int, on_value: float, off_value: float, axis: int, dtype: str) -> np.ndarray:
    hit = _from_front(indices, depth)[..., None] == np.arange(depth)
    hot = np.where(hit, np.asarray(on_value).astype(dtype), np.asarray(off_value).astype(dtype))
    return np.moveaxis(hot, -1, axis)
