"""The candidates of a task: those that the rules yield, and those that differ from one of them in a knob.

The values of a knob are the values in the rule's candidates. For an integer, also its neighbours, half and double are
tried. A space is the product of all values of all knobs, so it is not listed: `nearby` and `sample` create points when
the search needs them. Scheduling a point shows whether it is legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

import numpy as np

from ..errors import InputError
from ..strategy import Candidate, Decision, candidates
from ..strategy.candidate import Knob
from .task import Task


class Space:
    """The candidates of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @cached_property
    def yielded(self) -> list[Candidate]:
        """The candidates that the rules yield, each decision once, with the cheapest prediction first."""
        known = candidates(self.task.func, self.task.target, for_tuning=True)
        every = {Decision.of(one): one for one in known if not self.task.rules or one.rule in self.task.rules}
        return sorted(every.values(), key=lambda one: one.cost.cycles)

    @property
    def first(self) -> Decision | None:
        """The decision that is measured first, and that gains are relative to. None means the schedule of a build
        without records.
        """
        if self.task.beside_build or not (self.task.rules and self.yielded):
            return None
        return Decision.of(self.yielded[0])

    @property
    def cheapest(self) -> float:
        """The lowest predicted cycles among the candidates that a build may use; 0 if no rule fits."""
        own = self.task.rules and not self.task.beside_build
        offered = self.yielded if own else candidates(self.task.func, self.task.target)
        return min((one.cost.cycles for one in offered), default=0.0)

    @cached_property
    def values(self) -> dict[tuple[str, frozenset[str]], dict[str, list[Knob]]]:
        """The values of each knob, by rule and the names of its knobs."""
        found: dict[tuple[str, frozenset[str]], dict[str, set[Knob]]] = {}
        for one in self.yielded:
            knobs = found.setdefault(_family(one), {name: set() for name in one.knobs})
            for name, value in one.knobs.items():
                knobs[name].add(value)
        return {
            family: {name: sorted(values, key=lambda v: (isinstance(v, str), v)) for name, values in knobs.items()}
            for family, knobs in found.items()
        }

    @property
    def size(self) -> int:
        """The number of points in the product of the known values."""
        return sum(prod(len(values) for values in knobs.values()) for knobs in self.values.values())

    def nearby(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield candidates that differ in one knob: another value of the rule, or an integer's neighbour."""
        values = self.values.get(_family(candidate), {})
        for name, value in candidate.knobs.items():
            others: list[Knob] = [v for v in values.get(name, ()) if v != value]
            if isinstance(value, int) and not isinstance(value, bool) and len(values.get(name, ())) > 1:
                others += [v for v in (value - 1, value + 1, value // 2, value * 2) if v >= 1 and v not in others]
            for other in others:
                if other != value:
                    changed = _changed(candidate, name, other)
                    if changed is not None:
                        yield changed

    def sample(self, generator: np.random.Generator) -> Candidate | None:
        """Return a point of the product with random values for all knobs; None if that point has no cost."""
        if not self.yielded:
            return None
        candidate = self.yielded[int(generator.integers(len(self.yielded)))]
        for name, values in self.values[_family(candidate)].items():
            changed = _changed(candidate, name, values[int(generator.integers(len(values)))])
            if changed is None:
                return None
            candidate = changed
        return candidate


def _family(candidate: Candidate) -> tuple[str, frozenset[str]]:
    return candidate.rule, frozenset(candidate.knobs)


def _changed(candidate: Candidate, name: str, value: Knob) -> Candidate | None:
    """Return the candidate with another value of a knob; None if the rule's formula has no cost for it."""
    try:
        changed = candidate.with_knobs(**{name: value})
    except (InputError, ArithmeticError, LookupError, ValueError, TypeError):
        return None
    return changed if 0 <= changed.cost.cycles < float("inf") else None
