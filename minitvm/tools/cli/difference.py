"""The difference of two arrays, and the verdict on it as a line."""

from __future__ import annotations

import numpy as np

from ...expr.dtypes import is_floating

TOLERANCE = 1e-3  # of the largest value, on a whole model with its rounding
TOLERANCE_OF_INTEGERS = 1e-5  # of the largest value, on one function whose inputs are integers


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """max |actual - expected| / max |expected|; infinite where shapes, integers, NaNs or infinities do not agree."""
    if actual.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if not is_floating(expected.dtype):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    special = ~np.isfinite(expected)
    if not np.array_equal(actual[special], expected[special], equal_nan=True):
        return float("inf")
    a, b = actual[~special].astype(np.float64), expected[~special].astype(np.float64)
    if not b.size:
        return 0.0
    scale = float(np.abs(b).max()) or 1.0
    worst = float(np.abs(a - b).max()) / scale
    return worst if np.isfinite(worst) else float("inf")


def judged(worst: float, allowed: float) -> tuple[str, str]:
    """The verdict on a difference, and its text."""
    verdict = "equal" if worst == 0 else "ok" if worst <= allowed else "WRONG"
    return verdict, f"largest difference {worst:.1e} of the largest value"


def line(name: str, verdict: str, text: str, seconds: float) -> str:
    """A line for a check."""
    return f"{name:<10} {verdict:<6} {text + ', ' if text else ''}{seconds:.1f} s"


def indented(error: object) -> str:
    """Indents the lines after the first, for a text that begins in the middle of a line."""
    return str(error).replace("\n", "\n    ")
