"""Choose the schedule of a function: rules for the kind of target yield candidates, and the cheapest legal one is
taken.

You can register a rule outside of the package in the same way:

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
from ..tir.analysis.by_hand import SCHEDULED
from ..tir.nodes import Block, PrimFunc
from ..tir.schedule.shared_steps import SharedSteps
from ..tir.transform.growth import TOO_MUCH
from . import candidate as strategy_candidates
from .blocks import blocks_of

Propose = Callable[[PrimFunc, Any], Iterable[strategy_candidates.Candidate]]
Matches = Callable[[PrimFunc], bool]

# A rule is given up after this many refusals: most often they have one reason, which no knob changes. (If the rule
# knows that, it raises `Unfit`.)
PATIENCE = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A scheduling rule. `propose(func, target)` yields candidates for each function for which `matches(func)` holds.

    A rule that is `for_tuning` schedules a function only according to a measured `Decision`. Its candidates with the
    same knobs differ only in the values of these knobs, so the first candidate gives all others through `with_knobs`. A
    `local` rule exists only in this process.
    """

    name: str
    matches: Matches
    propose: Propose
    fallback: bool = False
    for_tuning: bool = False
    local: bool = False

    def fits(self, func: PrimFunc) -> bool:
        """Return whether the rule can be used for a function.

        A function with a block that never runs is left to a `fallback` rule. No rule fits a function that has been
        scheduled already: its loops stay as they are.
        """
        if func.attrs.get(SCHEDULED):
            return False
        return self.matches(func) and (self.fallback or not any(map(_never_runs, blocks_of(func))))

    def candidates(
        self, func: PrimFunc, target: Target, knobs: Mapping[str, strategy_candidates.Knob] | None = None
    ) -> list[strategy_candidates.Candidate]:
        """Return the candidates of the rule, cheapest first. `knobs` fixes the values of some knobs.

        Raises `InputError` for an unknown knob, and for a value that the knob cannot have.
        """
        proposed = [one.of_rule(self.name) for one in self.propose(func, target)]
        if knobs:
            fixed = [one.with_knobs(**knobs) for one in proposed]
            proposed = list({tuple(one.knobs.items()): one for one in reversed(fixed)}.values())[::-1]
        return strategy_candidates.cheapest_first(proposed)


def _never_runs(block: Block) -> bool:
    """Return whether some axis of a block has no iterations."""
    return any(is_const(axis.dom.extent, 0) for axis in block.iter_vars)


RULES: dict[str, list[Rule]] = {}


@cache
def _load_own_rules() -> None:
    """Import the rules of the machines in this package, so that they come before rules registered from outside."""
    for backend in own():
        backend.part("rules")


def rules_of(kind: str) -> list[Rule]:
    """Return the rules for a kind of target, in the order in which they are tried."""
    _load_own_rules()
    return RULES.setdefault(kind, [])


def rule(
    kind: str, matches: Matches, first: bool = False, fallback: bool = False, for_tuning: bool = False
) -> Callable[[Propose], Propose]:
    """Return a decorator that registers a rule for a kind of target.

    The decorated function yields candidates for a function and a target. Rules are tried in order of registration;
    `first` puts a rule before all others, and a `fallback` comes after all rules that are not fallbacks. A rule
    `for_tuning` is not tried: a tuner measures its candidates.
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
    """A schedule and the record of how it was chosen: the rule, and the candidates that were compared or refused."""

    schedule: Schedule
    choice: strategy_candidates.Choice

    @property
    def rule(self) -> str:
        """The name of the rule that produced the schedule, or "" if no rule fits."""
        return self.choice.rule


def schedule(func: PrimFunc, target: Target, knobs: Mapping[str, strategy_candidates.Knob] | None = None) -> Schedule:
    """Return a schedule for a loop program: the cheapest legal candidate of the first rule that fits.

    If all candidates of a rule are refused, the next rule is tried. The result is always legal; in the worst case it is
    the loops as written. `knobs` fixes some decisions of the first rule that fits. In that case `InputError` is raised
    for a knob that the rule does not have, and `ScheduleError` if no candidate with these values is legal.
    """
    return chosen(func, target, knobs).schedule


def scheduled(
    func: PrimFunc,
    target: Target,
    knobs: Mapping[str, strategy_candidates.Knob] | None = None,
    decision: strategy_candidates.Decision | None = None,
) -> PrimFunc:
    """Return the function as scheduled by `schedule`. Its attributes hold the trace and the record of the choice.

    If a `decision` is given and still applies, the function is scheduled accordingly. Otherwise it is scheduled as if
    there were no decision, and the record lists the decision as refused, with the reason.
    """
    return with_record(chosen(func, target, knobs) if decision is None else decided_or_chosen(func, target, decision))


def simpler(func: PrimFunc, target: Target, refused: Sequence[strategy_candidates.Weighed]) -> PrimFunc:
    """Return the function with a simpler schedule than those in `refused`, which generated too much code.

    The schedule comes from a fallback rule that has not been refused yet, or else is the loops as written.
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


def has_fallback(target: Target) -> bool:
    """Return whether a rule of the target schedules every function.

    CPUs and GPUs have such a rule. An accelerator does not: it cannot run loops that no rule has tensorized.
    """
    return any(row.fallback for row in rules(target))


def made_too_much_code(func: PrimFunc) -> str:
    """Return a line that names the schedule that was abandoned because it generated too much code, or "" if there was
    none.
    """
    return next((one.refused for one in strategy_candidates.choice_of(func).refused if TOO_MUCH in one.refused), "")


def with_record(taken: Chosen) -> PrimFunc:
    """Return the scheduled function with the trace and the record of the choice in its attributes."""
    traced = taken.schedule.func.with_attr("schedule_trace", taken.schedule.trace.as_python())
    return traced.with_attr(strategy_candidates.CHOICE, taken.choice.data)


def rules(target: Target) -> Sequence[Rule]:
    """Return the rules for a target, in the order in which they are tried. Without a target, use this machine's CPU."""
    asked = Target("cpu") if target is None else target
    part = lookup(asked, "rules")
    return rules_of(asked.kind) if part is None else part(asked)


def candidates(func: PrimFunc, target: Target, for_tuning: bool = False) -> list[strategy_candidates.Candidate]:
    """Return all candidates of all rules that fit a function, rule by rule, each rule's cheapest first.

    With `for_tuning`, rules for tuning are included, and a rule that cannot handle the function adds nothing.
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
    """Return the candidate of a rule with the knobs of a decision, even if the rule itself would not yield it.

    Raises `ScheduleError` if the rule no longer exists, does not fit the function, or has other knobs.
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
    """Return the candidates that a rule yields, or, if `names` is given, only the first one with knobs of these names.

    A tuner calls this often, and a rule for tuning may have thousands of candidates. If none has these names, the first
    candidate is returned.
    """
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
    """Schedule a function as recorded in `decision`. Raises `ScheduleError` if the decision no longer applies.

    `steps` are steps that can be shared with other schedules of the function.
    """
    candidate = candidate_of(func, target, decision)
    try:
        result = candidate.schedule(func, steps)
    except (LookupError, ArithmeticError, ValueError, TypeError) as error:  # values that the rule does not allow
        raise ScheduleError(f"{decision}: {type(error).__name__}: {error}") from error
    return Chosen(
        result,
        strategy_candidates.Choice(
            decision.rule, (strategy_candidates.Weighed.of(candidate),), 1, (), strategy_candidates.algorithms_of(func)
        ),
    )


def decided_or_chosen(func: PrimFunc, target: Target, decision: strategy_candidates.Decision) -> Chosen:
    """Schedule a function as recorded in `decision`; if that fails, schedule it as if there were no decision.

    In the second case, the first refusal in the record gives the reason.
    """
    try:
        return decided(func, target, decision)
    except ScheduleError as error:
        usual = chosen(func, target)
        first = strategy_candidates.Weighed(
            decision.rule, dict(decision.knobs), strategy_candidates.Cost(0.0), strategy_candidates.reason(error)
        )
        return replace(usual, choice=replace(usual.choice, refused=(first, *usual.choice.refused)))


def not_carried_out(func: PrimFunc, decision: strategy_candidates.Decision) -> str:
    """Return a line that explains why a function was not scheduled as recorded in `decision`, or "" if it was."""
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
    """Choose a function's schedule, and return it with the record of the choice.

    Listeners are notified of each refusal.
    """
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
            if not proposed:  # then the rule does not fit, and the knobs belong to another rule
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
        if knobs and proposed:  # a rule that proposes nothing is not the rule of these knobs
            reasons = "; ".join(dict.fromkeys(one.refused for one in refused))
            raise ScheduleError(f"{row.name}: no candidate with {with_values(knobs)} is legal: {reasons}")
    if knobs:
        raise InputError(f"knobs are for functions that a rule schedules; none fits: {with_values(knobs)}")
    return Chosen(
        Schedule(func),
        strategy_candidates.Choice(refused=tuple(refused), algorithms=strategy_candidates.algorithms_of(func)),
    )


def report_refusals(func: PrimFunc) -> None:
    """Notify listeners of the refusals that are recorded in a function that another process or build scheduled."""
    report = heard(listening_now(), "refused")
    if report is not None:
        for one in strategy_candidates.choice_of(func).refused:
            report(Refusal(one.rule, one.knobs, one.refused))


def with_values(knobs: Mapping[str, strategy_candidates.Knob]) -> str:
    """Return knobs and their values as readable text."""
    return ", ".join(f"{name}={value}" for name, value in knobs.items())
