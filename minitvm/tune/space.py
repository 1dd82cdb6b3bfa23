"""The candidates of a task: those that the rules yield, and those that differ from one in a knob.

A knob's values are those that the rule's candidates have; integers also have their neighbours, halves and doubles. So a
space is a product that nobody lists: `nearby` and `sample` make its points when they are asked for. That a point is
legal is found out by scheduling it.
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
        """What the rules yield, the cheapest by prediction first; each decision once."""
        known = candidates(self.task.func, self.task.target, for_tuning=True)
        every = {Decision.of(one): one for one in known if not self.task.rules or one.rule in self.task.rules}
        return sorted(every.values(), key=lambda one: one.cost.cycles)

    @property
    def first(self) -> Decision | None:
        """What is measured first, and what gains are of: None is what a build without records takes."""
        if self.task.beside_build or not (self.task.rules and self.yielded):
            return None
        return Decision.of(self.yielded[0])

    @property
    def cheapest(self) -> float:
        """The fewest predicted cycles of what a build may take; 0 where no rule fits."""
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
        """How many points the product of the known values has."""
        return sum(prod(len(values) for values in knobs.values()) for knobs in self.values.values())

    def nearby(self, candidate: Candidate) -> Iterator[Candidate]:
        """Candidates that differ in one knob: by each other value that the rule has, and by an integer's neighbours."""
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
        """A point of the product, all of its knobs drawn at random; None where that has no cost."""
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
    """The candidate with another value; None where the rule's formula has no cost for it."""
    try:
        changed = candidate.with_knobs(**{name: value})
    except (InputError, ArithmeticError, LookupError, ValueError, TypeError):
        return None
    return changed if 0 <= changed.cost.cycles < float("inf") else None
