"""Which schedule a function gets: rules by target kind yield candidates, and the cheapest legal one is taken.

A rule outside the package registers itself the same way.

    @rule("cpu", computes("my.operator"))
    def my_operator(func, target):
        def price(rows): ...                 # Cost(compute, memory), in cycles, from extents and knobs
        def apply(sch, rows): ...            # schedule primitives
        for rows in (1, 2, 4, 8):
            yield Candidate(knobs={"rows": rows}, price=price, apply=apply)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..backend import lookup
from ..errors import InputError, ScheduleError
from ..events import Listener, Refusal, heard, listening_now
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import PrimFunc
from .candidate import Candidate, Cost, Knob, Unfit, cheapest_first, reason
from .choice import CHOICE, KEPT, Choice, Weighed, algorithms_of, choice_of

Propose = Callable[[PrimFunc, Any], Iterable[Candidate]]
Matches = Callable[[PrimFunc], bool]

# A rule is given up after so many refusals: most often they have one reason, which no knob changes. (Where the rule
# knows that, it raises `Unfit`.)
PATIENCE = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """`propose(func, target)` yields candidates for functions for which `matches(func)` holds."""

    name: str
    matches: Matches
    propose: Propose
    fallback: bool = False

    def candidates(self, func: PrimFunc, target: Any, knobs: Mapping[str, Knob] | None = None) -> list[Candidate]:
        """Its candidates, the cheapest first; with `knobs` those that are left when all have these values.

        Raises `InputError` for a knob that they do not have, and for a value that it cannot have.
        """
        proposed = [replace(one, rule=self.name) for one in self.propose(func, target)]
        if knobs:
            fixed = [one.with_knobs(**knobs) for one in proposed]
            proposed = list({tuple(one.knobs.items()): one for one in reversed(fixed)}.values())[::-1]
        return cheapest_first(proposed)


RULES: dict[str, list[Rule]] = {}


def rule(kind: str, matches: Matches, first: bool = False, fallback: bool = False) -> Callable[[Propose], Propose]:
    """Register a rule for a target kind: a function from a function and a target to candidates.

    Rules are tried in order of registration; `first` puts one in front, a `fallback` comes behind all that are none.
    """

    def register(propose: Propose) -> Propose:
        rows = RULES.setdefault(kind, [])
        specific = sum(not row.fallback for row in rows)
        row = Rule(propose.__name__, matches, propose, fallback)
        rows.insert(0 if first else len(rows) if fallback else specific, row)
        return propose

    return register


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule, and why it is this one: the rule, what was weighed, what was refused."""

    schedule: Schedule
    choice: Choice

    @property
    def rule(self) -> str:
        """The name of the rule that made it; "" where none fits."""
        return self.choice.rule


def schedule(func: PrimFunc, target: Any, knobs: Mapping[str, Knob] | None = None) -> Schedule:
    """A schedule for a level-3 function: the cheapest legal candidate of the first rule that fits.

    A rule all of whose candidates are refused is given up for the next: the result is always legal, at worst the loops
    as written. `knobs` fixes some decisions of the first rule that fits: it raises `InputError` for a knob that the
    rule does not have, and `ScheduleError` if no candidate with these values is legal.
    """
    return chosen(func, target, knobs).schedule


def scheduled(func: PrimFunc, target: Any, knobs: Mapping[str, Knob] | None = None) -> PrimFunc:
    """The function that `schedule` makes; its attributes keep the trace and the record of the choice."""
    taken = chosen(func, target, knobs)
    traced = taken.schedule.func.with_attr("schedule_trace", taken.schedule.trace.as_python())
    return traced.with_attr(CHOICE, taken.choice.data)


def rules(target: Any) -> Sequence[Rule]:
    """The rules for a target, in the order in which they are tried; without a target those of the machine at hand."""
    asked = Target("cpu") if target is None else target
    part = lookup(asked, "rules")
    return RULES.get(asked.kind, []) if part is None else part(asked)


def candidates(func: PrimFunc, target: Any) -> list[Candidate]:
    """What may be chosen for a function: the candidates of the rules that fit, rule by rule, the cheapest first."""
    return [one for row in rules(target) if row.matches(func) for one in row.candidates(func, target)]


def chosen(
    func: PrimFunc, target: Any, knobs: Mapping[str, Knob] | None = None, listeners: Sequence[Listener] = ()
) -> Chosen:
    """What `schedule` takes, and why. Listeners hear of each refusal, as those of `events.listening` do."""
    report = heard((*listeners, *listening_now()), "refused")
    refused: list[Weighed] = []

    def refuse(row: Rule, error: ScheduleError, candidate: Candidate | None = None) -> None:
        why, values = reason(error), dict(candidate.knobs) if candidate else {}
        refused.append(Weighed(row.name, values, candidate.cost if candidate else Cost(0.0), why))
        if report is not None:
            report(Refusal(row.name, values, why))

    for row in (row for row in rules(target) if row.matches(func)):
        try:
            proposed = row.candidates(func, target, knobs)
            if not proposed:
                raise ScheduleError(f"{row.name}: no candidate for these extents")
        except ScheduleError as error:
            refuse(row, error)
            proposed = []
        for number, candidate in enumerate(proposed[:PATIENCE]):
            try:
                result = candidate.schedule(func)
            except Unfit as error:
                refuse(row, error)
                break
            except ScheduleError as error:
                refuse(row, error, candidate)
                continue
            weighed = tuple(map(Weighed.of, proposed[number : number + KEPT]))
            return Chosen(result, Choice(row.name, weighed, len(proposed), tuple(refused), algorithms_of(func)))
        if knobs:
            reasons = "; ".join(dict.fromkeys(one.refused for one in refused))
            raise ScheduleError(f"{row.name}: no candidate with {with_values(knobs)} is legal: {reasons}")
    if knobs:
        raise InputError(f"knobs are for functions that a rule schedules; none fits: {with_values(knobs)}")
    return Chosen(Schedule(func), Choice(refused=tuple(refused), algorithms=algorithms_of(func)))


def report_refusals(func: PrimFunc) -> None:
    """Report what was refused when a function was scheduled, in another process or another build."""
    report = heard(listening_now(), "refused")
    if report is not None:
        for one in choice_of(func).refused:
            report(Refusal(one.rule, one.knobs, one.refused))


def with_values(knobs: Mapping[str, Knob]) -> str:
    """Knobs with their values, as text."""
    return ", ".join(f"{name}={value}" for name, value in knobs.items())
