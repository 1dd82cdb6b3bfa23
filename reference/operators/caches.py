"""Caches of keys and values, and attention to their filled part."""

from __future__ import annotations

import numpy as np

from minitvm.errors import InputError

from .table import operator, wide


@operator("nn.cache_update")
def cache_update(
    data: np.ndarray, update: np.ndarray, position: np.ndarray, slots: np.ndarray | None = None, *, axis: int, mode: str
) -> np.ndarray:
    """Write row j of the update to place position + j. Beyond the last place it is dropped, or wraps around in a
    circular cache. Index b of the update's first axis belongs to entry slots[b] of the cache, or to entry b.
    """
    at = axis % data.ndim
    result = np.moveaxis(data.copy(), at, 1)
    rows = np.moveaxis(update, at, 1)
    for b, first in enumerate(position.tolist()):
        entry = _entry("nn.cache_update", slots, b, data)
        for j in range(rows.shape[1]):
            place = (first + j) % result.shape[1] if mode == "circular" else first + j
            if not 0 <= place < result.shape[1]:
                raise InputError(f"nn.cache_update: place {place} of {result.shape[1]}")
            result[entry, place] = rows[b, j]
    return np.ascontiguousarray(np.moveaxis(result, 1, at))


@operator("nn.cached_attention")
def cached_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, position: np.ndarray, slots: np.ndarray | None = None, *,
    scale: float,
) -> np.ndarray:  # fmt: skip
    """Attend from each query to the places 0 to position + its own number, with a softmax. Row b attends to entry
    slots[b] of the cache, or to entry b.
    """
    batch, heads, queries, _ = query.shape
    result = np.zeros((batch, heads, queries, value.shape[3]), query.dtype)
    for b, first in enumerate(position.tolist()):
        entry = _entry("nn.cached_attention", slots, b, key)
        for i in range(queries):
            seen = first + i + 1
            if not 0 < seen <= key.shape[2]:
                raise InputError(f"nn.cached_attention: query {i} at place {seen - 1} of {key.shape[2]}")
            for h in range(heads):
                group = h * key.shape[1] // heads
                scores = scale * (wide(key[entry, group, :seen]) @ wide(query[b, h, i]))
                weights = np.exp(scores - scores.max())
                result[b, h, i] = (weights / weights.sum()) @ wide(value[entry, group, :seen])
    return result


def _entry(op: str, slots: np.ndarray | None, row: int, cache: np.ndarray) -> int:
    """Return the entry of a cache that a row of the batch uses."""
    entry = row if slots is None else int(slots[row])
    if not 0 <= entry < len(cache):
        raise InputError(f"{op}: entry {entry} of {len(cache)}")
    return entry
