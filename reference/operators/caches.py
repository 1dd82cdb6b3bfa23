"""Caches of keys and values, and attention to their filled part."""

from __future__ import annotations

import numpy as np

from minitvm.errors import InputError

from .table import operator, wide


@operator("nn.cache_update")
def cache_update(data: np.ndarray, update: np.ndarray, position: np.ndarray, axis: int, mode: str) -> np.ndarray:
    """Write row j of the update to place position + j. Beyond the last place it is dropped, or wraps around in a
    circular cache.
    """
    at = axis % data.ndim
    result = np.moveaxis(data.copy(), at, 1)
    rows = np.moveaxis(update, at, 1)
    for b, first in enumerate(position.tolist()):
        for j in range(rows.shape[1]):
            place = (first + j) % result.shape[1] if mode == "circular" else first + j
            if not 0 <= place < result.shape[1]:
                raise InputError(f"nn.cache_update: place {place} of {result.shape[1]}")
            result[b, place] = rows[b, j]
    return np.ascontiguousarray(np.moveaxis(result, 1, at))


@operator("nn.cached_attention")
def cached_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, position: np.ndarray, scale: float
) -> np.ndarray:
    """Attend from each query to the places 0 to position + its own number, with a softmax."""
    batch, heads, queries, _ = query.shape
    result = np.zeros((batch, heads, queries, value.shape[3]), query.dtype)
    for b, first in enumerate(position.tolist()):
        for i in range(queries):
            seen = first + i + 1
            if not 0 < seen <= key.shape[2]:
                raise InputError(f"nn.cached_attention: query {i} at place {seen - 1} of {key.shape[2]}")
            for h in range(heads):
                group = h * key.shape[1] // heads
                scores = scale * (wide(key[b, group, :seen]) @ wide(query[b, h, i]))
                weights = np.exp(scores - scores.max())
                result[b, h, i] = (weights / weights.sum()) @ wide(value[b, group, :seen])
    return result
