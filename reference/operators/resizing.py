"""Interpolation: along each axis, the output is a matrix of weights times the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from .table import operator


def _sources(mode: str, extent: int, size: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """Return the position in the input of each output element."""
    i = np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        # The resized length is exactly extent * scale, not rounded to an integer.
        length = size if abs(extent * scale - size) < 1e-6 else extent * scale
        return i * (extent - 1) / (length - 1) if size > 1 else np.zeros(size)
    if mode == "tf_crop_and_resize":
        start, end = roi
        if size == 1:
            return np.array([0.5 * (start + end) * (extent - 1)])
        return start * (extent - 1) + i * (end - start) * (extent - 1) / (size - 1)
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(1)
    if mode == "half_pixel_symmetric":
        # The output covers size / scale of the input; the rest is left out evenly on both sides.
        covered = size / scale
        return (extent - covered) / 2 + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - (0.0 if mode == "tf_half_pixel_for_nn" else 0.5)


def _nearest(at: np.ndarray, extent: int, rounding: str) -> np.ndarray:
    rounding_of: dict[str, Any] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    rounded = rounding_of[rounding](at)
    return np.eye(extent)[np.clip(rounded, 0, extent - 1).astype(np.int64)]


def _cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    """Return the weight at a distance by Keys' cubic kernel."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _interpolated(at: np.ndarray, extent: int, offsets: range, weight: Any, exclude: bool) -> np.ndarray:
    matrix = np.zeros((len(at), extent))
    rows = np.arange(len(at))
    for offset in offsets:
        place = np.floor(at) + offset
        share = weight(at - place)
        if exclude:
            share = np.where((place >= 0) & (place < extent), share, 0)
        np.add.at(matrix, (rows, np.clip(place, 0, extent - 1).astype(np.int64)), share)
    return matrix / matrix.sum(axis=1, keepdims=True) if exclude else matrix


@operator("image.resize")
def resize(
    data: np.ndarray, size: tuple[int, ...], scales: Any, roi: Any, method: str, coordinate_transformation_mode: str,
    rounding_method: str, cubic_alpha: float, cubic_exclude: bool, extrapolation_value: float,
) -> np.ndarray:  # fmt: skip
    """Resize by interpolation; integers are interpolated in float and truncated."""
    mode = coordinate_transformation_mode
    resized = data.astype(np.float64)
    for axis in range(data.ndim):
        extent, target = data.shape[axis], size[axis]
        scale = target / extent if scales is None else scales[axis]
        region = (0.0, 1.0) if roi is None else (roi[axis], roi[data.ndim + axis])
        if extent == target and scale == 1 and (mode != "tf_crop_and_resize" or region == (0.0, 1.0)):
            continue
        at = _sources(mode, extent, target, scale, region)
        if method == "nearest_neighbor":
            matrix = _nearest(at, extent, rounding_method)
        elif method == "linear":
            matrix = _interpolated(at, extent, range(2), lambda d: 1 - np.abs(d), False)
        else:
            matrix = _interpolated(at, extent, range(-1, 3), lambda d: _cubic_weight(d, cubic_alpha), cubic_exclude)
        resized = np.moveaxis(np.tensordot(matrix, resized, ([1], [axis])), 0, axis)
        if mode == "tf_crop_and_resize":
            shape = [1] * data.ndim
            shape[axis] = -1
            inside = ((at >= 0) & (at <= extent - 1)).reshape(shape)
            resized = np.where(inside, resized, extrapolation_value)
    if data.dtype.kind in "iu":  # toward zero, where rounding did not just miss an integer
        resized = np.trunc(resized + np.copysign(2.0**-10, resized))
    return resized.astype(data.dtype)


@operator("image.interpolate")
def interpolate(data: np.ndarray, places: np.ndarray, weights: np.ndarray, axis: int) -> np.ndarray:
    """Interpolate along an axis; a negative place counts from the end, and one out of range is the nearest end."""
    extent = data.shape[axis]
    wide = places.astype(np.int64)
    at = np.clip(np.where(wide < 0, wide + extent, wide), 0, extent - 1)
    matrix = np.zeros((places.shape[1], extent))
    for own, share in zip(at, weights.astype(np.float64), strict=False):
        np.add.at(matrix, (np.arange(len(own)), own), share)
    result = np.tensordot(matrix, data.astype(np.float64), ([1], [axis]))
    return np.moveaxis(result, 0, axis).astype(data.dtype)


@operator("image.resize2d")
def resize2d(
    data: np.ndarray, size: tuple[int, int], method: str, coordinate_transformation_mode: str, rounding_method: str,
    cubic_alpha: float, cubic_exclude: bool,
) -> np.ndarray:  # fmt: skip
    whole = (*data.shape[:2], *size)
    return resize(
        data, whole, None, None, method, coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude, 0
    )
