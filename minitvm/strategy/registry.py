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
from functools import cache, lru_cache
from typing import Any

from ..backend import lookup, own
from ..errors import InputError, ScheduleError
from ..events import Listener, Refusal, heard, listening_now
from ..expr.conditions import is_const
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import Block, PrimFunc
from ..tir.schedule.shared_steps import SharedSteps
from ..tir.transform.growth import TOO_MUCH
from . import candidate as strategy_candidates
from .blocks import blocks_of

Propose = Callable[[PrimFunc, Any], Iterable[strategy_candidates.Candidate]]
Matches = Callable[[PrimFunc], bool]

# A rule is given up after so many refusals: most often they have one reason, which no knob changes. (Where the rule
# knows that, it raises `Unfit`.)
PATIENCE = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """`propose(func, target)` yields candidates for functions for which `matches(func)` holds.

    One that is `for_tuning` schedules a function only by a `Decision`, which somebody measured. Of its candidates those
    with the same knobs differ in their values alone, so that the first one has all others by `with_knobs`. One that is
    `local` is known to this process alone.
    """

    name: str
    matches: Matches
    propose: Propose
    fallback: bool = False
    for_tuning: bool = False
    local: bool = False

    def fits(self, func: PrimFunc) -> bool:
        """Whether it is for the function; one with a block that never runs, at no cost, is for a `fallback`."""
        return self.matches(func) and (self.fallback or not any(map(_never_runs, blocks_of(func))))

    def candidates(
        self, func: PrimFunc, target: Target, knobs: Mapping[str, strategy_candidates.Knob] | None = None
    ) -> list[strategy_candidates.Candidate]:
        """Its candidates, the cheapest first; with `knobs` those that are left when all have these values.

        Raises `InputError` for a knob that they do not have, and for a value that it cannot have.
        """
        proposed = [one.of_rule(self.name) for one in self.propose(func, target)]
        if knobs:
            fixed = [one.with_knobs(**knobs) for one in proposed]
            proposed = list({tuple(one.knobs.items()): one for one in reversed(fixed)}.values())[::-1]
        return strategy_candidates.cheapest_first(proposed)


def _never_runs(block: Block) -> bool:
    """Whether an axis of a block has no iterations."""
    return any(is_const(axis.dom.extent, 0) for axis in block.iter_vars)


RULES: dict[str, list[Rule]] = {}


@cache
def _load_own_rules() -> None:
    """Import the rules of the package's machines: they come before those that somebody else registers."""
    for backend in own():
        backend.part("rules")


def rules_of(kind: str) -> list[Rule]:
    """The rules that are registered for a kind of target, in the order in which they are tried."""
    _load_own_rules()
    return RULES.setdefault(kind, [])


def rule(
    kind: str, matches: Matches, first: bool = False, fallback: bool = False, for_tuning: bool = False
) -> Callable[[Propose], Propose]:
    """Register a rule for a target kind: a function from a function and a target to candidates.

    Rules are tried in order of registration; `first` puts one in front, a `fallback` comes behind all that are none.
    One `for_tuning` is not tried: a tuner measures its candidates.
    """

    def register(propose: Propose) -> Propose:
        ours = propose.__module__.partition(".")[0] == __name__.partition(".")[0]
        rows = RULES.setdefault(kind, []) if ours else rules_of(kind)
        specific = sum(not row.fallback and not row.for_tuning for row in rows)
        row = Rule(propose.__name__, matches, propose, fallback, for_tuning)
        rows.insert(0 if first else len(rows) if fallback or for_tuning else specific, row)
        return propose

    return register


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule, and why it is this one: the rule, what was weighed, what was refused."""

    schedule: Schedule
    choice: strategy_candidates.Choice

    @property
    def rule(self) -> str:
        """The name of the rule that made it; "" where none fits."""
        return self.choice.rule


def schedule(func: PrimFunc, target: Target, knobs: Mapping[str, strategy_candidates.Knob] | None = None) -> Schedule:
    """A schedule for a level-3 function: the cheapest legal candidate of the first rule that fits.

    A rule all of whose candidates are refused is given up for the next: the result is always legal, at worst the loops
    as written. `knobs` fixes some decisions of the first rule that fits: it raises `InputError` for a knob that the
    rule does not have, and `ScheduleError` if no candidate with these values is legal.
    """
    return chosen(func, target, knobs).schedule


def scheduled(
    func: PrimFunc,
    target: Target,
    knobs: Mapping[str, strategy_candidates.Knob] | None = None,
    decision: strategy_candidates.Decision | None = None,
) -> PrimFunc:
    """The function that `schedule` makes; its attributes keep the trace and the record of the choice.

    It is scheduled by a `decision` where that can be carried out. Where not, it is scheduled as without one, and the
    reason is among what the record says was refused.
    """
    return with_record(chosen(func, target, knobs) if decision is None else decided_or_chosen(func, target, decision))


def simpler(func: PrimFunc, target: Target, refused: Sequence[strategy_candidates.Weighed]) -> PrimFunc:
    """The function with a simpler schedule than those that were `refused` when they were lowered.

    That of a rule for all functions, if none is refused yet, else the loops as written.
    """
    tried = {one.rule for one in refused}
    for row in rules(target):
        if row.fallback and row.fits(func) and row.name not in tried:
            for candidate in row.candidates(func, target)[:1]:
                weighed = (strategy_candidates.Weighed.of(candidate),)
                choice = strategy_candidates.Choice(
                    row.name, weighed, 1, tuple(refused), strategy_candidates.algorithms_of(func)
                )
                return with_record(Chosen(candidate.schedule(func), choice))
    return with_record(
        Chosen(
            Schedule(func),
            strategy_candidates.Choice(refused=tuple(refused), algorithms=strategy_candidates.algorithms_of(func)),
        )
    )


def made_too_much_code(func: PrimFunc) -> str:
    """Which schedule of a function was given up because it made too much code, on one line; "" if none was."""
    return next((one.refused for one in strategy_candidates.choice_of(func).refused if TOO_MUCH in one.refused), "")


def with_record(taken: Chosen) -> PrimFunc:
    """A scheduled function whose attributes keep the trace and the record of the choice."""
    traced = taken.schedule.func.with_attr("schedule_trace", taken.schedule.trace.as_python())
    return traced.with_attr(strategy_candidates.CHOICE, taken.choice.data)


def rules(target: Target) -> Sequence[Rule]:
    """The rules for a target, in the order in which they are tried; without a target those of the machine at hand."""
    asked = Target("cpu") if target is None else target
    part = lookup(asked, "rules")
    return rules_of(asked.kind) if part is None else part(asked)


def candidates(func: PrimFunc, target: Target, for_tuning: bool = False) -> list[strategy_candidates.Candidate]:
    """What may be chosen for a function: the candidates of the rules that fit, rule by rule, the cheapest first.

    With `for_tuning` also those of rules that only a tuner asks; a rule that cannot look at the function has none.
    """
    every: list[strategy_candidates.Candidate] = []
    for row in rules(target):
        if (row.for_tuning and not for_tuning) or not row.fits(func):
            continue
        try:
            every += row.candidates(func, target)
        except ScheduleError:
            if not for_tuning:
                raise
    return every


def candidate_of(
    func: PrimFunc, target: Target, decision: strategy_candidates.Decision
) -> strategy_candidates.Candidate:
    """The candidate of a rule that has these knobs, whether the rule would yield it or not.

    Raises `ScheduleError` if the rule is not there any more, does not fit the function, or has other knobs.
    """
    row = next((row for row in rules(target) if row.name == decision.rule), None)
    if row is None:
        raise ScheduleError(f"{decision.rule}: no rule of that name for {getattr(target, 'kind', 'cpu')}")
    names = frozenset(decision.knobs)
    proposed = _proposed(row, func, target, names if row.for_tuning else None) if row.fits(func) else []
    if not proposed:
        raise ScheduleError(f"{decision.rule}: not a rule for this function")
    alike = [one for one in proposed if set(one.knobs) == names]
    if not alike:
        known = ", ".join(proposed[0].knobs) or "none"
        raise ScheduleError(f"{decision.rule}: other knobs than {', '.join(sorted(names)) or 'none'}; it has {known}")
    exact = next((one for one in alike if dict(one.knobs) == dict(decision.knobs)), None)
    try:
        return exact if exact is not None else alike[0].with_knobs(**decision.knobs)
    except (InputError, LookupError, ArithmeticError) as error:
        raise ScheduleError(f"{decision.rule}: {error}") from error


@lru_cache(maxsize=8)
def _proposed(
    row: Rule, func: PrimFunc, target: Target, names: frozenset[str] | None
) -> list[strategy_candidates.Candidate]:
    """What a rule yields; a tuner asks again and again, and there may be thousands: of one for tuning the first with
    knobs of these names, or the first of all."""
    if names is None:
        return row.candidates(func, target)
    first = None
    for one in row.propose(func, target):
        first = first or one
        if one.knobs.keys() == names:
            return [one.of_rule(row.name)]
    return [] if first is None else [first.of_rule(row.name)]


def decided(
    func: PrimFunc, target: Target, decision: strategy_candidates.Decision, steps: SharedSteps | None = None
) -> Chosen:
    """The function scheduled by a decision; raises `ScheduleError` if that cannot be carried out (any more).

    `steps` are those that are shared with other schedules of the function.
    """
    candidate = candidate_of(func, target, decision)
    try:
        result = candidate.schedule(func, steps)
    except (LookupError, ArithmeticError, ValueError, TypeError) as error:  # values that the rule never meant
        raise ScheduleError(f"{decision}: {type(error).__name__}: {error}") from error
    return Chosen(
        result,
        strategy_candidates.Choice(
            decision.rule, (strategy_candidates.Weighed.of(candidate),), 1, (), strategy_candidates.algorithms_of(func)
        ),
    )


def decided_or_chosen(func: PrimFunc, target: Target, decision: strategy_candidates.Decision) -> Chosen:
    """The function scheduled by a decision, else as without one; then the first refusal of the record says why."""
    try:
        return decided(func, target, decision)
    except ScheduleError as error:
        usual = chosen(func, target)
        first = strategy_candidates.Weighed(
            decision.rule, dict(decision.knobs), strategy_candidates.Cost(0.0), strategy_candidates.reason(error)
        )
        return replace(usual, choice=replace(usual.choice, refused=(first, *usual.choice.refused)))


def not_carried_out(func: PrimFunc, decision: strategy_candidates.Decision) -> str:
    """Why a function that should be scheduled by a decision was not, on one line; "" where it was."""
    choice = strategy_candidates.choice_of(func)
    if choice.taken is not None and strategy_candidates.Decision(choice.rule, choice.taken.knobs) == decision:
        return ""
    refusals = (one.refused for one in choice.refused if strategy_candidates.Decision(one.rule, one.knobs) == decision)
    return next(refusals, f"{decision}: another schedule was taken")


def chosen(
    func: PrimFunc,
    target: Target,
    knobs: Mapping[str, strategy_candidates.Knob] | None = None,
    listeners: Sequence[Listener] = (),
) -> Chosen:
    """What `schedule` takes, and why. Listeners hear of each refusal, as those of `events.listening` do."""
    report = heard((*listeners, *listening_now()), "refused")
    refused: list[strategy_candidates.Weighed] = []

    def refuse(row: Rule, error: ScheduleError, candidate: strategy_candidates.Candidate | None = None) -> None:
        why, values = strategy_candidates.reason(error), dict(candidate.knobs) if candidate else {}
        refused.append(
            strategy_candidates.Weighed(
                row.name, values, candidate.cost if candidate else strategy_candidates.Cost(0.0), why
            )
        )
        if report is not None:
            report(Refusal(row.name, values, why))

    for row in (row for row in rules(target) if not row.for_tuning and row.fits(func)):
        try:
            proposed = row.candidates(func, target, knobs)
        except ScheduleError as error:
            refuse(row, error)
            proposed = []
        else:
            if not proposed:  # then the rule does not fit, and the knobs are those of another one
                refuse(row, ScheduleError(f"{row.name}: no candidate for these extents"))
                continue
        for number, candidate in enumerate(proposed[:PATIENCE]):
            try:
                result = candidate.schedule(func)
            except strategy_candidates.Unfit as error:
                refuse(row, error)
                break
            except ScheduleError as error:
                refuse(row, error, candidate)
                continue
            weighed = tuple(map(strategy_candidates.Weighed.of, proposed[number : number + strategy_candidates.KEPT]))
            return Chosen(
                result,
                strategy_candidates.Choice(
                    row.name, weighed, len(proposed), tuple(refused), strategy_candidates.algorithms_of(func)
                ),
            )
        if knobs and proposed:  # a rule that proposes nothing is not the one whose knobs these are
            reasons = "; ".join(dict.fromkeys(one.refused for one in refused))
            raise ScheduleError(f"{row.name}: no candidate with {with_values(knobs)} is legal: {reasons}")
    if knobs:
        raise InputError(f"knobs are for functions that a rule schedules; none fits: {with_values(knobs)}")
    return Chosen(
        Schedule(func),
        strategy_candidates.Choice(refused=tuple(refused), algorithms=strategy_candidates.algorithms_of(func)),
    )


def report_refusals(func: PrimFunc) -> None:
    """Report what was refused when a function was scheduled, in another process or another build."""
    report = heard(listening_now(), "refused")
    if report is not None:
        for one in strategy_candidates.choice_of(func).refused:
            report(Refusal(one.rule, one.knobs, one.refused))


def with_values(knobs: Mapping[str, strategy_candidates.Knob]) -> str:
    """Knobs with their values, as text."""
    return ", ".join(f"{name}={value}" for name, value in knobs.items())
