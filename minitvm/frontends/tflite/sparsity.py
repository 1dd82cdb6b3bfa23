"""Expand the contents of a sparse tensor (`SparsityParameters`), as `DENSIFY` does.

The dimensions of a tensor, and of the blocks into which it may be cut, are stored in `traversal_order`. A dimension is
dense, or compressed: then `array_segments` and `array_indices` list the indices that occur, as in CSR. For example, the
matrix [[0, 5], [7, 0]] with compressed columns has the segments [0, 1, 2], the indices [1, 0], and the values [5, 7].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_DENSE = 0
_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


def densified(sparsity: Any, values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the dense tensor [*shape] with these stored values. Raises `ValueError` for a contradiction."""
    order = [int(a) for a in sparsity.TraversalOrderAsNumpy()]
    blocked = [int(a) for a in sparsity.BlockMapAsNumpy()] if sparsity.BlockMapLength() else []
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or sparsity.DimMetadataLength() != len(order):
        raise ValueError(f"a sparse tensor has the order {order} of {rank} dimensions and {len(blocked)} blocks")
    # One row of coordinates per stored element: it grows by a column per level.
    positions, coordinates = np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
    extents = [0] * len(order)
    for level, axis in enumerate(order):
        meta = sparsity.DimMetadata(level)
        if meta.Format() == _DENSE:
            size = extents[axis] = meta.DenseSize()
            repeats = np.full(positions.size, size)
            indices = np.tile(np.arange(size), positions.size)
            positions = (positions[:, None] * size + np.arange(size)).reshape(-1)
        else:
            segments, listed = (_vector(meta, name) for name in ("ArraySegments", "ArrayIndices"))
            begin, end = segments[positions], segments[positions + 1]
            repeats = end - begin
            if repeats.size and repeats.min() < 0:
                raise ValueError("the segments of a sparse tensor decrease")
            starts = np.repeat(begin - np.concatenate([[0], np.cumsum(repeats)[:-1]]), repeats)
            positions = starts + np.arange(int(repeats.sum()))
            indices = listed[positions]
            if axis >= rank:
                raise ValueError("a block of a sparse tensor is compressed")
        coordinates = np.concatenate([np.repeat(coordinates, repeats, axis=0), indices[:, None]], axis=1)
    if positions.size > values.size:
        raise ValueError(f"a sparse tensor has {values.size} values for {positions.size} places")
    by_axis = np.empty((len(order), coordinates.shape[0]), np.int64)
    by_axis[order] = coordinates.T
    place = by_axis[:rank].copy()
    for k, axis in enumerate(blocked):
        place[axis] = place[axis] * extents[rank + k] + by_axis[rank + k]
    dense = np.zeros(tuple(shape), values.dtype)
    inside = np.all(place < np.array(shape)[:, None], axis=0) & np.all(place >= 0, axis=0)
    if not inside.all():
        raise ValueError("a sparse tensor has an element outside of its shape")
    dense[tuple(place)] = values[positions]
    return dense


def _vector(meta: Any, name: str) -> np.ndarray:
    """Return a vector of one of three integer types as int64."""
    import tflite

    kind, table = getattr(meta, f"{name}Type")(), getattr(meta, name)()
    vector = getattr(tflite, _VECTORS[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(vector.ValuesAsNumpy(), np.int64)
