"""What measurements say over predictions: log(measured / predicted) as a function of a candidate's features.

The formulas carry what can be known of extents, caches and registers; what is left is small and smooth, so that a few
points are enough for a linear model, and what was learned of one operator says something of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, log2
from typing import Any

import numpy as np

from ..strategy.candidate import Cost, Knob

FEWEST = 4  # points, below which nothing is learned
MANY = 200  # points from which trees are better than a plane
_PENALTY = 2.0
_FARTHEST = log(4)  # the largest correction: a plane through few points means nothing far from them

Features = dict[str, float]


def features(rule: str, knobs: Mapping[str, Knob], cost: Cost, figures: Mapping[str, float] | None = None) -> Features:
    """Named numbers of a candidate: its rule and knobs, predicted cycles, and of a lowered one what it does."""
    row: Features = {
        f"rule {rule}": 1.0,
        "log cycles": log(max(cost.cycles, 1.0)),
        "memory share": cost.memory / max(cost.cycles, 1.0),
    }
    for name, value in knobs.items():
        if isinstance(value, bool) or not isinstance(value, int):
            row[f"{rule}.{name}={value}"] = 1.0
        else:
            row[f"{rule}.{name}"] = log2(value)
            row[f"{rule}.{name} squared"] = log2(value) ** 2
    if figures and figures.get("slots"):
        for name in ("loads", "stores"):
            row[f"{name} a slot"] = log((1.0 + figures[name]) / figures["slots"])
    return row


class Residual:
    """Fitted to points by `fit`, and then asked by `predict`: the logarithm of measured over predicted."""

    def __init__(self) -> None:
        self.method = "none"
        self._names: dict[str, int] = {}
        self._ask: Any = None

    def fit(self, rows: Sequence[Features], ratios: Sequence[float]) -> None:
        """Learn from candidates that were measured: their features, and measured over predicted seconds."""
        self.method, self._ask = "none", None
        if len(rows) < FEWEST:
            return
        self._names = {name: column for column, name in enumerate(sorted({name for row in rows for name in row}))}
        x, y = self._matrix(rows), np.log(np.asarray(ratios, np.float64))
        trees = _trees(x, y) if len(rows) >= MANY else None
        self._ask, self.method = (trees, "LightGBM") if trees is not None else (_ridge(x, y), "ridge")

    def predict(self, rows: Sequence[Features]) -> np.ndarray[Any, Any]:
        """log(measured / predicted) of each; 0 where nothing was learned."""
        if self._ask is None or not rows:
            return np.zeros(len(rows))
        answer: np.ndarray[Any, Any] = self._ask(self._matrix(rows))
        return answer

    def _matrix(self, rows: Sequence[Features]) -> np.ndarray[Any, Any]:
        """A row each; features that were never seen are left out, those that a candidate lacks are 0."""
        x = np.zeros((len(rows), len(self._names)))
        for number, row in enumerate(rows):
            for name, value in row.items():
                if name in self._names:
                    x[number, self._names[name]] = value
        return x


def _ridge(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    """The plane w with the least |y - mean - x w|^2 + penalty |w|^2, x standardised; within _FARTHEST of the mean."""
    middle, spread, mean = x.mean(axis=0), x.std(axis=0), float(y.mean())
    spread[spread < 1e-9] = 1.0
    z = (x - middle) / spread
    # The dual form: as many equations as points, which are fewer than features.
    weights = z.T @ np.linalg.solve(z @ z.T + _PENALTY * np.eye(len(z)), y - mean)

    def ask(other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return mean + np.clip((other - middle) / spread @ weights, -_FARTHEST, _FARTHEST)

    return ask


def _trees(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    """Gradient boosting; None where LightGBM is not installed."""
    try:
        import lightgbm
    except ImportError:
        return None
    settings = {"objective": "l2", "num_leaves": 15, "learning_rate": 0.1, "verbose": -1, "num_threads": 1, "seed": 0}
    model = lightgbm.train(settings, lightgbm.Dataset(x, y), num_boost_round=100)
    return lambda other: np.asarray(model.predict(other, num_threads=1))
