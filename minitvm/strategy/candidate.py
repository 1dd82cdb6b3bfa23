"""What a rule yields: candidates, each with its decisions (knobs), a predicted cost, and the steps that carry it out.

A cost follows from extents and knobs by a formula, so that hundreds of candidates can be weighed and none is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

from ..errors import InputError, ScheduleError, nearest
from ..tir import Schedule
from ..tir.nodes import PrimFunc
from ..tir.schedule.shared_steps import SharedSteps

Knob = bool | int | str
Price = Callable[..., "Cost"]
Apply = Callable[..., None]
AnyOption = TypeVar("AnyOption", bound="Option")

_STEP = re.compile(r"\s+\[step \d+ of the trace\]$")


class Unfit(ScheduleError):
    """A function that a rule cannot schedule, whatever the knobs: no other candidate of the rule is tried."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cycles of one core: those of the arithmetic, and those in which it is held up by memory."""

    compute: float
    memory: float = 0.0

    @property
    def cycles(self) -> float:
        """The sum of the two."""
        return self.compute + self.memory

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.compute + other.compute, self.memory + other.memory)

    def __mul__(self, factor: float) -> Cost:
        return Cost(self.compute * factor, self.memory * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Named decisions with a predicted cost, `price(**knobs)`; `rule` is the family to which it belongs.

    A knob is a truth value, an integer of at least 1, or a name.
    """

    rule: str = ""
    knobs: Mapping[str, Knob]
    price: Price
    cost: Cost = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "knobs", MappingProxyType(dict(self.knobs)))
        object.__setattr__(self, "cost", self.price(**self.knobs))

    def with_knobs(self, **knobs: Knob) -> Self:
        """The same with other values for some knobs.

        Raises `InputError` for a knob that it does not have, and for a value of another type or below 1.
        """
        for name, value in knobs.items():
            self._check(name, value)
        return replace(self, knobs={**self.knobs, **knobs})

    def of_rule(self, rule: str) -> Self:
        """The same as an option of a rule; its cost is not computed again."""
        named = copy(self)
        object.__setattr__(named, "rule", rule)
        return named

    def _check(self, name: str, value: Any) -> None:
        owner = self.rule or "the rule"
        if name not in self.knobs:
            raise InputError(f"{owner} has no knob {name!r}: {nearest(name, list(self.knobs) or ['(none)'])}")
        kind = type(self.knobs[name])
        if type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
            expected = {bool: "True or False", int: "an integer of at least 1"}.get(kind, "a name")
            raise InputError(f"knob {name!r} of {owner}: wanted {expected}, found {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Option):
    """One way to schedule a function: `apply(sch, **knobs)` schedules in place.

    It raises `ScheduleError` where these knobs do not fit the function, `Unfit` where no others would. `formulas` are
    those of its cost by what they are, where the rule has them in closed form: objects that print.
    """

    apply: Apply
    formulas: Mapping[str, object] = field(default_factory=dict)

    def schedule(self, func: PrimFunc, steps: SharedSteps | None = None) -> Schedule:
        """A schedule of the function with these decisions; raises `ScheduleError` where they do not fit it.

        `steps` are those that it shares with other schedules of the function.
        """
        sch = Schedule(func) if steps is None else steps.schedule()
        self.apply(sch, **self.knobs)
        return sch


def cheapest_first(options: Iterable[AnyOption]) -> list[AnyOption]:
    """By predicted cycles, equal ones in the order in which they came."""
    return sorted(options, key=lambda option: option.cost.cycles)


def reason(error: ScheduleError) -> str:
    """Why a schedule was refused, on one line: what was called, what it wanted, what it found."""
    first, *others = [line.strip() for line in str(error).splitlines()] or [""]
    parts = [_STEP.sub("", first), *(line for line in others if line.startswith(("wanted:", "found:")))]
    return "; ".join(" ".join(part.split()) for part in parts)
