"""Wrong: the features after the rotated ones are rotated, too."""

from __future__ import annotations

import numpy as np


def rotate(x: np.ndarray, start: int, base: float, rotated: int, interleaved: bool) -> np.ndarray:
    """Turn each pair of features of x [heads, length, width] by the position of its row."""
    rotated = x.shape[2] // 2 * 2
    half = rotated // 2
    first = slice(0, rotated, 2) if interleaved else slice(0, half)
    second = slice(1, rotated, 2) if interleaved else slice(half, rotated)
    positions = start + np.arange(x.shape[1])
    angles = positions[:, None] * float(base) ** (-2 * np.arange(half) / rotated)
    cosine, sine = np.cos(angles), np.sin(angles)
    a, b = x[..., first].astype("float64"), x[..., second].astype("float64")
    result = x.copy()
    result[..., first] = a * cosine - b * sine
    result[..., second] = a * sine + b * cosine
    return result
