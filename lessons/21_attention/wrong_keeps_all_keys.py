"""The state is the list of all keys: right rows, but a state that grows."""

from __future__ import annotations

import numpy as np

State = tuple[int, list[float], list[np.ndarray]]


def start(width: int) -> State:
    """No keys."""
    return width, [], []


def add(state: State, scores: np.ndarray, values: np.ndarray) -> State:
    """The keys of both."""
    width, seen, rows = state
    return width, [*seen, *map(float, scores)], [*rows, *values]


def merge(a: State, b: State) -> State:
    """The keys of both."""
    return a[0], a[1] + b[1], a[2] + b[2]


def result(state: State) -> np.ndarray:
    """The row, of all keys at once."""
    width, scores, rows = state
    top = max([s for s in scores if s > -np.inf], default=0.0)
    weights = np.array([np.exp(s - top) for s in scores])
    if not weights.sum():
        return np.zeros(width)
    row: np.ndarray = weights @ np.array(rows) / weights.sum()
    return row
