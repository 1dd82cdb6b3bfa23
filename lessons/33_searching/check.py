"""Holds the learner's plane against all others: where the sum is the least, it is level in every direction."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

Points = list[tuple[list[int], int]]


def loss(x: np.ndarray, y: np.ndarray, penalty: float, constant: float, weights: np.ndarray) -> float:
    """What the plane should make small."""
    return float(((y - constant - x @ weights) ** 2).sum() + penalty * (weights**2).sum())


def downhill(x: np.ndarray, y: np.ndarray, penalty: float, constant: float, weights: np.ndarray) -> tuple[float, Any]:
    """The direction in which the loss falls: zeros where it is the least. It is a bowl, so there is one such place."""
    left = y - constant - x @ weights
    return float(left.sum()), x.T @ left - penalty * weights


def check(module: ModuleType) -> None:
    """Raises AssertionError with a few points through which a better plane goes."""
    small = st.integers(-4, 4)
    points = st.integers(1, 3).flatmap(
        lambda n: st.lists(st.tuples(st.lists(small, min_size=n, max_size=n), small), min_size=1, max_size=6)
    )

    @cases(200, points=points, penalty=st.sampled_from([0.5, 1e-4, 0.01, 1.0, 2.0, 8.0, 1000.0]))
    def finds_the_least(points: Points, penalty: float) -> None:
        x = np.array([row for row, _ in points], dtype=float)
        y = np.array([value for _, value in points], dtype=float)
        case = f"plane(np.array({x.tolist()}), np.array({y.tolist()}), {penalty})"
        found = attempt(case, module.plane, x.copy(), y.copy(), penalty)
        require(isinstance(found, tuple) and len(found) == 2, f"{case} returned {found!r}, wanted (constant, weights)")
        constant, weights = float(found[0]), np.asarray(found[1], dtype=float)
        require(weights.shape == x.shape[1:], f"{case}: weights of shape {weights.shape}, wanted {x.shape[1:]}")
        first, rest = downhill(x, y, penalty, constant, weights)
        steep = abs(first) + float(np.abs(rest).sum())
        if steep < 1e-6 * (1 + float(np.abs(y).sum())):
            return
        step = 1.0
        here = loss(x, y, penalty, constant, weights)
        while loss(x, y, penalty, constant + step * first, weights + step * rest) >= here:
            step /= 2  # it falls in this direction, if only the step is small
        better = constant + step * first, weights + step * rest
        answer = f"({constant:.6g}, {np.round(weights, 6).tolist()})"
        other = f"({better[0]:.6g}, {np.round(better[1], 6).tolist()})"
        there = loss(x, y, penalty, *better)
        require(False, f"{case} is {answer}: the sum is {here:.10g}\n{other} is better: {there:.10g}")
