"""A resize of known sizes becomes one interpolation for each axis, whose places and weights are constants.

Along an axis, an output is a sum of a few inputs times weights which depend on its index alone. Both are tables, which
are computed here once, in float64. Axes that shrink come first and those that grow last; of several that grow the last
one comes first, since its inputs do not lie together in memory: it has fewer elements then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...topi.resize import coordinates
from ..builder import GraphBuilder
from ..nodes import Graph, OpNode, Value
from .rebuild import with_replaced

_ROUNDING: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def split_resize(graph: Graph) -> Graph:
    """The graph with interpolations, or a `take`, an axis in place of resizes of known sizes."""
    return with_replaced(graph, _splits, lambda b, item, inputs: _along_the_axes(b, item, inputs[0]))


def _splits(item: OpNode) -> bool:
    """Whether tables can be computed for a resize, and are useful: an index that is just halved needs none."""
    if item.op not in ("image.resize", "image.resize2d") or not item.inputs[0].is_static or not item.output.is_static:
        return False
    if 0 in item.inputs[0].shape or 0 in item.output.shape:
        return False
    if item.attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        return False  # values outside the input are not sums of inputs
    if item.attrs["method"] == "nearest_neighbor":
        return any(size % extent for size, extent in _extents(item))
    return item.output.dtype.is_float


def _extents(item: OpNode) -> list[tuple[int, int]]:
    """(size, extent) of each axis."""
    return list(zip(item.output.shape, item.inputs[0].shape, strict=True))  # type: ignore[arg-type]


def _along_the_axes(b: GraphBuilder, item: OpNode, data: Value) -> Value:
    extents = _extents(item)
    fixed = item.attrs.get("scales")
    scales = [size / extent for size, extent in extents] if fixed is None else [float(s) for s in fixed]
    changed = [a for a, (size, extent) in enumerate(extents) if size != extent or scales[a] != 1.0]
    shrinking = [a for a in changed if extents[a][0] <= extents[a][1]]
    shrinking.sort(key=lambda a: extents[a][0] / extents[a][1])
    growing = [a for a in reversed(changed) if a not in shrinking]
    for axis in (*shrinking, *growing):
        size, extent = extents[axis]
        places, weights = _tables(item.attrs, size, extent, scales[axis])
        table = b.constant(np.clip(places, 0, extent - 1).astype(np.int32), "places")
        if weights is None:
            data = b.op("take", data, b.op("reshape", table, newshape=(size,)), axis=axis)
        else:
            shares = b.constant(weights.astype(item.output.dtype.numpy), "weights")
            data = b.op("image.interpolate", data, table, shares, axis=axis)
    return data if changed else b.op("copy", data)


def _tables(attrs: Mapping[str, Any], size: int, extent: int, scale: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Places and weights [taps, size] along an axis; no weights where there is one tap."""
    at = coordinates(attrs["coordinate_transformation_mode"], extent, size, scale, (0.0, 1.0))(np.arange(size))
    if attrs["method"] == "nearest_neighbor":
        return _ROUNDING[attrs["rounding_method"]](at)[None], None
    if attrs["method"] == "linear":
        low = np.floor(at)
        return np.stack([low, low + 1]), np.stack([1 - (at - low), at - low])
    places = np.floor(at) + np.arange(-1, 3)[:, None]
    weights = _cubic(np.abs(at - places), attrs["cubic_alpha"])
    if attrs["cubic_exclude"]:
        weights = np.where((places >= 0) & (places < extent), weights, 0.0)
        weights = weights / weights.sum(axis=0)
    return places, weights


def _cubic(distance: np.ndarray, alpha: float) -> np.ndarray:
    """Keys' cubic kernel at distances from 0 to 2."""
    near = ((alpha + 2) * distance - (alpha + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha
    return np.where(distance <= 1, near, far)
