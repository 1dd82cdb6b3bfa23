"""How far two arrays are apart, for a verdict on a line."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-3  # of the largest value, on a whole model with its rounding


def relative_difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """max |found - wanted| / max |wanted|; infinite where shapes, integers, NaNs or infinities do not agree."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    special = ~np.isfinite(wanted)
    if not np.array_equal(found[special], wanted[special], equal_nan=True):
        return float("inf")
    a, b = found[~special].astype(np.float64), wanted[~special].astype(np.float64)
    if not b.size:
        return 0.0
    scale = float(np.abs(b).max()) or 1.0
    worst = float(np.abs(a - b).max()) / scale
    return worst if np.isfinite(worst) else float("inf")
