"""Templates: schedules written by a user in which some decisions are open, for the tuner to find.

    def rows_and_columns(sch, unroll):                     # a knob of the user's own
        i, j, k = sch.get_loops("C")
        i_outer, i_inner = sch.split(i, sch.sample_perfect_tile(i, 2))
        ...

    best = tune.tune_func(func, schedule=rows_and_columns, knobs={"unroll": [1, 2, 4]})

The idea is from AutoTVM (Chen et al., "Learning to optimize tensor programs", NeurIPS 2018), whose templates declare
knobs, and from MetaSchedule, whose traces have samples. Here both are knobs of one `strategy.Rule`, so templates are
searched, recorded and measured like the package's own rules.

A template runs only in this process, and other processes get the scheduled function. So it may be a lambda or a
function in a notebook, or use anything that this process has registered.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..errors import InputError, ScheduleError
from ..strategy.candidate import Candidate, Cost, Knob
from ..strategy.registry import Rule, rules_of
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import PrimFunc
from ..tir.schedule.registry import Primitive
from ..tir.schedule.trace import Trace
from .task import Task, function_task

DRAWN = 128  # runs of a template that samples, each with decisions of its own
_IDLE = 16  # of them in succession that bring no decisions that are new: there are hardly any others
LISTED = 4096  # combinations of knobs that are listed; of more, as many are drawn
_UNKNOWN = Cost(1.0)  # no formula prices a template: the residual learns the time itself

Function = Callable[..., Any]


@dataclass(slots=True)
class _Asked:
    """Answers the sampling calls of one run from `knobs`, or samples at random, and keeps a name for each decision."""

    knobs: Mapping[str, Knob] | None = None
    names: list[tuple[str, Primitive, Mapping[str, Any]]] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)  # of loops that are tiled, by the names of the tiles
    answered: set[str] = field(default_factory=set)

    def __call__(self, sch: Schedule, primitive: Primitive, arguments: Mapping[str, Any]) -> Any:
        name = self._named(sch, arguments)
        self.names.append((name, primitive, arguments))
        if "loop" in arguments:
            self.extents[name] = int(sch.get(arguments["loop"]).extent.value)
        return None if self.knobs is None else self._decision(name, primitive, arguments, self.knobs)

    def _named(self, sch: Schedule, arguments: Mapping[str, Any]) -> str:
        """Return a name for a decision, after its loop or block; later decisions with the same name get a number."""
        if "loop" in arguments:
            base = f"tile_{sch.get(arguments['loop']).var.name}"
        elif "block" in arguments:
            base = f"place_{sch.get(arguments['block']).name}"
        else:
            base = "choice"
        before = sum(name.rpartition("#")[0] == base or name == base for name, _, _ in self.names)
        return f"{base}#{before + 1}" if before else base

    def _decision(
        self, name: str, primitive: Primitive, arguments: Mapping[str, Any], knobs: Mapping[str, Knob]
    ) -> Any:
        """Return the decision that the knobs give for this name; raises `ScheduleError` if they do not."""
        if name in self.extents:
            count = int(arguments["n"])
            parts = [f"{name}_{part}" for part in range(1, count)]
            inner = [int(self._value(part, knobs)) for part in parts]
            outer, rest = divmod(self.extents[name], prod(inner))
            if rest:
                raise ScheduleError(f"{name}: {' * '.join(map(str, inner))} does not divide {self.extents[name]}")
            return [outer, *inner]
        text = str(self._value(name, knobs))
        if primitive.name == "sample_categorical":
            values = [str(value) for value in arguments["candidates"]]
            if text not in values:
                raise ScheduleError(f"{name}: wanted one of {', '.join(values)}, found {text}")
            return values.index(text)
        return int(text)

    def _value(self, name: str, knobs: Mapping[str, Knob]) -> Knob:
        if name not in knobs:
            raise ScheduleError(f"{name}: these decisions have no value for it")
        self.answered.add(name)
        return knobs[name]

    def taken(self, trace: Trace) -> dict[str, Knob]:
        """Return the decisions of a run as knobs. For a tiling, these are all factors but the outermost, which follows
        from them.
        """
        knobs: dict[str, Knob] = {}
        decisions = [inst.decision for inst in trace.insts if inst.primitive.decides]
        for (name, primitive, arguments), decision in zip(self.names, decisions, strict=True):
            if isinstance(decision, Sequence):
                knobs.update({f"{name}_{part}": int(f) for part, f in enumerate(decision) if part})
            elif primitive.name == "sample_categorical":
                knobs[name] = str(arguments["candidates"][decision])
            else:
                knobs[name] = str(decision)
        return knobs


class Template:
    """Candidates for one function: the runs of `schedule(sch, **knobs)`, one for each set of decisions.

    `schedule` is a function of a `Schedule`, or a `Trace` with sampled decisions, or a `Schedule` that has such a
    trace. `knobs` are the possible values of the function's further parameters, by name. Raises `InputError` if these
    do not fit the function, or if no decision is open.
    """

    def __init__(
        self, func: PrimFunc, schedule: Function | Trace | Schedule, knobs: Mapping[str, Sequence[Knob]] | None = None
    ) -> None:
        self.func = func
        self.knobs = {name: tuple(values) for name, values in (knobs or {}).items()}
        self.name, self._function, self._text = _function_of(schedule, self.knobs)
        self._extents: dict[str, int] = {}

    @cached_property
    def rule(self) -> Rule:
        """Return a rule that only the tuner uses, for exactly this function."""
        return Rule(self.name, lambda func: func is self.func, self._candidates, for_tuning=True, local=True)

    def task(self, target: str | Target) -> Task:
        """Return the task of tuning this template; its candidates run in turn with the schedule of an ordinary build.

        Its key differs from the function's key, so builds do not use its records. The key depends on the template's
        source, so an edited template does not use old records.
        """
        plain = function_task(self.func, target, rules=(self.name,))
        key = hashlib.sha256(f"{plain.key}\0{self._text}\0{sorted(self.knobs.items())}".encode()).hexdigest()
        return replace(plain, key=key, beside_build=True)

    @contextmanager
    def registered(self, kind: str) -> Iterator[None]:
        """Register the rule for a kind of target during a `with` block. Raises `InputError` if another rule has its
        name.
        """
        rows, row = rules_of(kind), self.rule
        if any(other.name == row.name for other in rows):
            raise InputError(f"tune_func: {row.name} is the name of a rule for {kind}; give the schedule another name")
        rows.append(row)
        try:
            yield
        finally:
            rows.remove(row)

    def apply(self, sch: Schedule, **knobs: Knob) -> None:
        """Schedule with these decisions; raises `ScheduleError` if one is missing, or is not asked for."""
        asked = _Asked(knobs)
        with sch.deciding(asked):
            self._function(sch, **{name: knobs[name] for name in self.knobs})
        idle = sorted(knobs.keys() - self.knobs.keys() - asked.answered)
        if idle:
            raise ScheduleError(f"{self.name}: {', '.join(idle)} decides nothing here")

    def price(self, **knobs: Knob) -> Cost:
        """Return the same cost for all decisions; raises `LookupError` for tiles that do not divide their loop, and for
        unknown values.
        """
        for name, values in self.knobs.items():
            if knobs[name] not in values:
                raise LookupError(name)
        for name, extent in self._extents.items():
            inner = [int(value) for knob, value in knobs.items() if knob.rpartition("_")[0] == name]
            if extent % prod(inner):
                raise LookupError(name)
        return _UNKNOWN

    def _candidates(self, func: PrimFunc, target: Target) -> Iterator[Candidate]:  # noqa: ARG002 (a rule's arguments)
        for knobs in self._drawn:
            yield Candidate(knobs=dict(knobs), price=self.price, apply=self.apply)

    @cached_property
    def _drawn(self) -> list[tuple[tuple[str, Knob], ...]]:
        """Return the distinct decisions of many random runs. This is cached, because it takes seconds."""
        generator = np.random.default_rng(0)
        drawn: dict[tuple[tuple[str, Knob], ...], None] = {}
        refused: ScheduleError | None = None
        idle = 0
        for _ in range(DRAWN):
            own = {name: values[int(generator.integers(len(values)))] for name, values in self.knobs.items()}
            try:
                sampled = self._draw(own, int(generator.integers(1, 1 << 31)))
            except ScheduleError as error:
                refused = refused or error
                continue
            if not sampled:
                drawn = dict.fromkeys(tuple(knobs.items()) for knobs in self._listed(generator))
                break
            knobs = tuple({**own, **sampled}.items())
            idle = idle + 1 if knobs in drawn else 0
            drawn[knobs] = None
            if idle == _IDLE:
                break
        if not drawn:
            raise InputError(f"{self.name}: no decisions give a legal schedule\n{refused}")
        if drawn.keys() == {()}:
            raise InputError(
                f"{self.name} leaves nothing open, so there is nothing to tune\n"
                "  try:    sch.sample_perfect_tile(loop, n) for factors, or knobs={'name': [values]} for its parameters"
            )
        return list(drawn)

    def _draw(self, own: Mapping[str, Knob], seed: int) -> dict[str, Knob]:
        """Run the template once with random samples, and return the decisions."""
        sch, asked = Schedule(self.func, seed=seed), _Asked()
        with sch.deciding(asked):
            self._function(sch, **own)
        self._extents.update(asked.extents)
        return asked.taken(sch.trace)

    def _listed(self, generator: np.random.Generator) -> Iterator[dict[str, Knob]]:
        """Yield all combinations of the user's knobs, or LISTED random ones if there are more."""
        names, values = list(self.knobs), list(self.knobs.values())
        if prod(map(len, values)) <= LISTED:
            yield from (dict(zip(names, point, strict=True)) for point in product(*values))
            return
        for _ in range(LISTED):
            yield {name: own[int(generator.integers(len(own)))] for name, own in self.knobs.items()}


def _function_of(
    schedule: Function | Trace | Schedule, knobs: Mapping[str, Sequence[Knob]]
) -> tuple[str, Function, str]:
    """Return the name of a template, the function that schedules, and the text that identifies its records."""
    for name, values in knobs.items():
        good = values and all(isinstance(v, bool | str) or (isinstance(v, int) and v >= 1) for v in values)
        if not good or len({type(v) for v in values}) > 1:
            raise InputError(
                f"knobs: {name}={list(values)!r}: wanted truth values, integers from 1 on, or names,"
                " of one kind and at least one"
            )
    if isinstance(schedule, Schedule):
        schedule = schedule.trace
    if isinstance(schedule, Trace):
        if knobs:
            raise InputError("knobs are parameters of a schedule function; a trace has none")
        trace = schedule
        return "trace", lambda sch: trace.apply_to_schedule(sch, decision_provider=_leave_open), str(trace)
    if not callable(schedule):
        raise InputError(
            f"schedule: wanted a function that takes a Schedule, a Trace or a Schedule, found {type(schedule).__name__}"
        )
    try:
        inspect.signature(schedule).bind(None, **knobs)
    except TypeError as error:
        raise InputError(
            f"schedule: {_name(schedule)}{inspect.signature(schedule)} is called with a Schedule and the knobs"
            f" {', '.join(knobs) or '(none)'}: {error}"
        ) from None
    return _name(schedule), schedule, _text(schedule)


def _leave_open(*_: Any) -> None:
    """Return None, so that a replay samples again instead of using the trace's decision."""


def _name(function: Function) -> str:
    return str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "lambda")


def _text(function: Function) -> str:
    """Return the source of a function with the values that it closes over; its bytecode if there is no source."""
    cells = getattr(function, "__closure__", None) or ()
    known = [repr(cell.cell_contents) for cell in cells if _is_plain(cell.cell_contents)]
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = repr((code.co_code, code.co_consts)) if code is not None else repr(type(function))
    return "\0".join([source, *known])


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | tuple | None)
