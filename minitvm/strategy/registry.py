"""Which schedule an operator gets: rules by target kind, the first that fits.

A rule is a function that schedules in place, registered with the kind of target and a test on the function. A rule
outside the package registers itself the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..backend import lookup
from ..errors import ScheduleError
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import PrimFunc

Apply = Callable[[Schedule, Any], Sequence[str] | None]
Matches = Callable[[PrimFunc], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """`apply(schedule, target)` for functions for which `matches(func)` holds.

    Where it weighs several tiles it may return what they are, in words, the one taken first.
    """

    name: str
    matches: Matches
    apply: Apply
    fallback: bool = False


RULES: dict[str, list[Rule]] = {}


def rule(kind: str, matches: Matches, first: bool = False, fallback: bool = False) -> Callable[[Apply], Apply]:
    """Register a schedule for a target kind.

    Rules are tried in order of registration; `first` puts one in front, a `fallback` comes behind all that are none.
    """

    def register(apply: Apply) -> Apply:
        rows = RULES.setdefault(kind, [])
        specific = sum(not row.fallback for row in rows)
        rows.insert(0 if first else len(rows) if fallback else specific, Rule(apply.__name__, matches, apply, fallback))
        return apply

    return register


def schedule(func: PrimFunc, target: Any) -> Schedule:
    """A schedule for a level-3 function by the first rule of the target's kind that fits.

    A rule whose steps are refused is given up for the next: the result is always legal, at worst the loops as written.
    """
    return chosen(func, target).schedule


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule, the name of the rule that made it ("" where none fits), and the tiles that it weighed."""

    rule: str
    schedule: Schedule
    weighed: tuple[str, ...] = ()


def rules(target: Any) -> Sequence[Rule]:
    """The rules for a target, in the order in which they are tried; without a target those of the machine at hand."""
    asked = Target("cpu") if target is None else target
    part = lookup(asked, "rules")
    return RULES.get(asked.kind, []) if part is None else part(asked)


def chosen(func: PrimFunc, target: Any) -> Chosen:
    """What `schedule` takes, and why."""
    for row in rules(target):
        if not row.matches(func):
            continue
        attempt = Schedule(func)
        try:
            weighed = row.apply(attempt, target)
        except ScheduleError:
            continue
        return Chosen(row.name, attempt, tuple(weighed or ()))
    return Chosen("", Schedule(func))
