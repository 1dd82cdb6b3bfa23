"""Wrong: a score below -1000000 weighs nothing, even if its key is alone."""

from __future__ import annotations

import numpy as np

State = tuple[float, float, np.ndarray]  # the largest score, the sum of weights, the weighted row

LOWEST = -1e6  # finite: -inf - LOWEST is -inf, and weighs nothing


def start(width: int) -> State:
    """The state before any key."""
    return LOWEST, 0.0, np.zeros(width)


def add(state: State, scores: np.ndarray, values: np.ndarray) -> State:
    """The state with a part more: that of the part, in passes, merged."""
    top = max([LOWEST, *scores])
    weights = np.exp(scores - top)
    return merge(state, (top, float(weights.sum()), weights @ values))


def merge(a: State, b: State) -> State:
    """The state of all keys of a and b."""
    top = max(a[0], b[0])
    old, new = np.exp(a[0] - top), np.exp(b[0] - top)
    return top, float(a[1] * old + b[1] * new), a[2] * old + b[2] * new


def result(state: State) -> np.ndarray:
    """The row."""
    _, total, row = state
    return row / total if total > 0 else np.zeros_like(row)
