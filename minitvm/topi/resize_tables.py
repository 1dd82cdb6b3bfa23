"""The indices and weights of a resize along an axis of known sizes, as NumPy arrays.

An output is a sum of a few inputs times weights. Which inputs and which weights depends only on the output's index, so
they are computed here once, in float64, and `image.interpolate` reads them. If the sizes are symbolic, `resize`
computes the same at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .resize import coordinates

_ROUNDING: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
_REACH = {"linear": 1, "cubic": 2}


def positions(mode: str, extent: int, size: int, scale: float) -> np.ndarray:
    """Return the input position of each output, as an array [size]."""
    at: np.ndarray = coordinates(mode, extent, size, scale, (0.0, 1.0))(np.arange(size))
    return at


def nearest_places(at: np.ndarray, extent: int, rounding: str) -> np.ndarray:
    """Return the index of the input nearest to each position, as an array [size]."""
    return _inside(_ROUNDING[rounding](at), extent)


def tables(
    at: np.ndarray, extent: int, method: str, alpha: float = -0.75, exclude: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and weights, both [taps, size], of a linear or cubic filter (Keys, 1981) around positions.

    An index outside the input is replaced by the nearest index inside. With `exclude` its weight is 0, and the other
    weights are scaled up.
    """
    reach = _REACH[method]
    places = np.floor(at) - (reach - 1) + np.arange(2 * reach)[:, None]
    distance = np.abs(places - at)
    weights = np.maximum(1 - distance, 0) if method == "linear" else _cubic(distance, alpha)
    if exclude:
        weights = np.where((places >= 0) & (places < extent), weights, 0.0)
        weights = weights / weights.sum(axis=0)
    return _inside(places, extent), weights


def _inside(places: np.ndarray, extent: int) -> np.ndarray:
    return np.clip(places, 0, extent - 1).astype(np.int32)


def _cubic(distance: np.ndarray, alpha: float) -> np.ndarray:
    """Return Keys' cubic kernel at the distances in `distance`."""
    near = ((alpha + 2) * distance - (alpha + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
