"""Learn log(measured / predicted), the logarithm of measured over predicted time, from similar candidates.

This is a Gaussian process (Rasmussen and Williams, 2006, algorithm 2.1 and section 2.7). It models the logarithm as a
sum of a constant for all candidates and of terms that similar candidates share. VARIANCES has the variance of each
term.

    target      all on one target
    rule        all of one rule
    task        all for one operator
    pair        all of one rule for one operator
    near        candidates of one rule, the more similar their knobs, cycles and share of memory, the more
    own         the same for one operator
    noise       each has its own

So a single record of an operator changes the predictions for all its candidates, and slightly those for candidates of
the same rule in other operators. The variances and scales were fitted to 760 records of a CPU and a GPU; predictions
hardly change if they are doubled or halved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, log2
from typing import Any

import numpy as np

from ..strategy.candidate import Cost, Knob

MOST = 1000  # points that are learned from, the last ones: the time grows as their cube, 0.1 s for so many
VARIANCES = {"target": 1.0, "rule": 1.0, "task": 0.3, "pair": 0.3, "near": 0.3, "own": 0.1}
NOISE = 0.01
BOLD = 1.0  # standard deviations by which a candidate may be faster than predicted
_OCTAVES = 2.0  # by which a knob differs until candidates are hardly alike any more
_CYCLES = 2.0  # the same for the logarithm of cycles
_SHARE = 0.3  # and for the part of them that memory takes

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class MeasuredCandidate:
    """A candidate as a data point: its rule and knobs, its predicted cycles, its task and its target."""

    rule: str
    knobs: Mapping[str, Knob]
    cost: Cost
    task: str = ""
    target: str = ""

    @property
    def place(self) -> dict[str, float]:
        """Return the candidate's coordinates by name; similar candidates are close together."""
        cycles = max(self.cost.cycles, 1.0)
        named = {"cycles": log(cycles) / _CYCLES, "memory": self.cost.memory / cycles / _SHARE}
        for name, value in self.knobs.items():
            if isinstance(value, bool) or not isinstance(value, int):
                named[f"{self.rule}.{name}={value}"] = 1.0 / _OCTAVES
            else:
                named[f"{self.rule}.{name}"] = log2(value) / _OCTAVES
        return named


class Residual:
    """A model of log(measured / predicted): `fit` it to measured candidates, then ask it with `predict`."""

    def __init__(self) -> None:
        self._points: Sequence[MeasuredCandidate] = ()
        self._mean = 0.0
        self._weights: Matrix = np.zeros(0)
        self._inverse: Matrix = np.zeros((0, 0))  # of what the points have in common, and their noise

    def fit(self, points: Sequence[MeasuredCandidate], ratios: Sequence[float]) -> None:
        """Learn from measured candidates; `ratios` has measured over predicted seconds of each."""
        self._points = points[-MOST:]
        if not points:
            return
        logs, self._inverse = _logs(ratios), np.linalg.inv(_noisy(self._points))
        # The mean has no prior: it is the value that makes the remaining differences the most likely.
        self._mean = float((self._inverse @ logs).sum() / self._inverse.sum())
        self._weights = self._inverse @ (logs - self._mean)

    def predict(self, points: Sequence[MeasuredCandidate]) -> Matrix:
        """Return the expected log(measured / predicted) of each candidate; 0 if nothing was learned."""
        if not self._points or not points:
            return np.zeros(len(points))
        answer: Matrix = self._mean + _covariance(points, self._points) @ self._weights
        return answer

    def uncertainty(self, points: Sequence[MeasuredCandidate]) -> Matrix:
        """Return the covariance matrix of the errors of `predict` for these candidates."""
        common = _covariance(points, points)
        if not self._points:
            return common
        shared = _covariance(points, self._points)
        unknown: Matrix = common - shared @ self._inverse @ shared.T
        return unknown


def boldest(logs: Matrix, unknown: Matrix, count: int) -> list[int]:
    """Return the numbers of `count` candidates to measure.

    Each choice takes the candidate for which the prediction minus BOLD standard deviations is the lowest, and then
    treats this candidate as measured; so of similar candidates only one is chosen. `logs` are logarithms of predicted
    times, and `unknown` is their `uncertainty`. This follows the batches of Desautels, Krause and Burdick (JMLR 2014).
    """
    unknown, taken = unknown.copy(), list[int]()
    bounds = np.array(logs, np.float64)
    for _ in range(min(count, len(bounds))):
        may_be = bounds - BOLD * np.sqrt(np.maximum(np.diag(unknown), 0.0))
        may_be[taken] = np.inf
        one = int(np.argmin(may_be))
        taken.append(one)
        row = unknown[one].copy()
        unknown -= np.outer(row, row) / (row[one] + NOISE)
    return taken


def left_out(points: Sequence[MeasuredCandidate], ratios: Sequence[float]) -> Matrix:
    """Return log(measured / predicted) of each candidate, as predicted from all the others (at least two in total).

    The closed form is in section 5.4.2 of the same book.
    """
    logs, inverse = _logs(ratios), np.linalg.inv(_noisy(points[-MOST:]))
    ones = inverse.sum(1)
    inverse -= np.outer(ones, ones) / ones.sum()  # the mean is learned from the others, too
    left: Matrix = inverse @ logs / np.diag(inverse)
    return left


def _logs(ratios: Sequence[float]) -> Matrix:
    return np.log(np.asarray(ratios[-MOST:], np.float64))


def _noisy(points: Sequence[MeasuredCandidate]) -> Matrix:
    return _covariance(points, points) + NOISE * np.eye(len(points))


def _covariance(points: Sequence[MeasuredCandidate], others: Sequence[MeasuredCandidate]) -> Matrix:
    """Return the covariance of each candidate with each of the others: the sum of the variances of the terms they
    share.
    """

    def shared(what: str) -> Matrix:
        numbers: dict[str, int] = {}
        named = ([getattr(one, what) for one in some] for some in (points, others))
        here, there = ([numbers.setdefault(name, len(numbers)) for name in names] for names in named)
        same: Matrix = np.equal.outer(np.array(here), np.array(there))
        return same

    target, rule, task = shared("target"), shared("rule"), shared("task")
    near = rule * np.exp(-0.5 * _squares([one.place for one in points], [one.place for one in others]))
    parts = {"target": target, "rule": rule, "task": task, "pair": rule & task, "near": near, "own": near * task}
    total: Matrix = sum((VARIANCES[name] * part for name, part in parts.items()), np.zeros(near.shape))
    return total


def _squares(places: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]) -> Matrix:
    """Return the squared distance of each place from each of the others; a missing coordinate counts as 0."""
    columns: dict[str, int] = {}
    for place in (*places, *others):
        for name in place:
            columns.setdefault(name, len(columns))
    here, there = (np.zeros((len(some), len(columns))) for some in (places, others))
    for matrix, some in ((here, places), (there, others)):
        for row, place in zip(matrix, some, strict=True):
            for name, value in place.items():
                row[columns[name]] = value
    squares: Matrix = (here**2).sum(1)[:, None] + (there**2).sum(1) - 2 * here @ there.T
    return np.maximum(squares, 0.0)
