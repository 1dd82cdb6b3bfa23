"""Sample an image at points given by a tensor, and round to narrow float formats."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np

from .table import operator


@operator("reinterpret")
def reinterpret(x: np.ndarray, dtype: str) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(x.shape)


@operator("round_to_format")
def round_to_format(x: np.ndarray, format: str, saturate: bool) -> np.ndarray:
    """Round to the dtype of ml_dtypes with this name, which does not saturate by itself."""
    kind = getattr(ml_dtypes, format)
    with np.errstate(all="ignore"):
        rounded = x.astype(kind).astype(np.float16)
        largest = np.float16(ml_dtypes.finfo(kind).max)
        over = saturate & ~np.isnan(x) & ~(np.abs(rounded) <= largest)
        return np.where(over, np.copysign(largest, x), rounded).astype(np.float16)


def _reflect(p: float, low: float, high: float) -> float:
    """Reflect a position at `low` and `high` until it is between them."""
    if high == low:
        return low
    while not low <= p <= high:
        p = 2 * low - p if p < low else 2 * high - p
    return p


def _cubic(d: float, a: float = -0.75) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _taps(p: float, method: str) -> list[tuple[int, float]]:
    if method == "nearest":
        return [(round(p), 1.0)]
    first = math.floor(p)
    if method == "linear":
        return [(first, 1 - (p - first)), (first + 1, p - first)]
    return [(first + k, _cubic(p - first - k)) for k in range(-1, 3)]


@operator("image.grid_sample")
def grid_sample(
    data: np.ndarray, grid: np.ndarray, method: str, padding_mode: str, align_corners: bool, in_elements: bool
) -> np.ndarray:
    """Sample at one point of the grid after the other."""
    extents = data.shape[2:]
    rank = len(extents)
    sampled = np.zeros((*data.shape[:2], *grid.shape[1:-1]), np.float64)
    edges = [(0.0, d - 1.0) if align_corners else (-0.5, d - 0.5) for d in extents]
    for n, *outs in itertools.product(range(data.shape[0]), *map(range, grid.shape[1:-1])):
        point = []
        for axis in range(rank):
            v, d = float(grid[(n, *outs, rank - 1 - axis)]), extents[axis]
            p = v if in_elements else (v + 1) / 2 * (d - 1) if align_corners else ((v + 1) * d - 1) / 2
            if method != "cubic" and padding_mode == "border":
                p = min(max(p, 0.0), d - 1.0)
            if method != "cubic" and padding_mode == "reflection":
                p = _reflect(p, *edges[axis])
            point.append(p)
        of_point: Any = (n, slice(None), *outs)
        if not all(map(math.isfinite, point)):  # nowhere: the nearest element is outside, a mean has no weights
            sampled[of_point] = 0.0 if method == "nearest" and padding_mode == "zeros" else math.nan
            continue
        total = np.zeros(data.shape[1])
        for taps in itertools.product(*(_taps(p, method) for p in point)):
            places = [place for place, _ in taps]
            if padding_mode == "reflection":
                places = [int(_reflect(float(p), *edges[a])) for a, p in enumerate(places)]
            if padding_mode == "zeros" and not all(0 <= p < d for p, d in zip(places, extents, strict=True)):
                continue
            inner = [min(max(p, 0), d - 1) for p, d in zip(places, extents, strict=True)]
            at: Any = (n, slice(None), *inner)
            total += data[at] * math.prod(w for _, w in taps)
        sampled[of_point] = total
    return sampled.astype(data.dtype)
