"""Candidates, which rules yield: each has its decisions (knobs), a predicted cost, and the schedule steps to apply.

The cost is computed from extents and knobs by a formula, so that hundreds of candidates can be compared without
building one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

from ..errors import InputError, ScheduleError, nearest
from ..expr import find
from ..tir import Schedule
from ..tir.nodes import Block, PrimFunc
from ..tir.schedule.shared_steps import SharedSteps

Knob = bool | int | str
Price = Callable[..., "Cost"]
Apply = Callable[..., None]
AnyOption = TypeVar("AnyOption", bound="Option")

_STEP = re.compile(r"\s+\[step \d+ of the trace\]$")


class Unfit(ScheduleError):
    """A rule cannot schedule a function, whatever its knobs. No other candidate of the rule is then tried."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The predicted cycles of one core: cycles for arithmetic, and cycles of waiting for memory."""

    compute: float
    memory: float = 0.0

    @property
    def cycles(self) -> float:
        """The sum of arithmetic and memory cycles."""
        return self.compute + self.memory

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.compute + other.compute, self.memory + other.memory)

    def __mul__(self, factor: float) -> Cost:
        return Cost(self.compute * factor, self.memory * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A set of named decisions (knobs) and their predicted cost, `price(**knobs)`. `rule` is the rule that they belong
    to.

    The value of a knob is a bool, an integer of at least 1, or a name.
    """

    rule: str = ""
    knobs: Mapping[str, Knob]
    price: Price
    cost: Cost = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "knobs", MappingProxyType(dict(self.knobs)))
        object.__setattr__(self, "cost", self.price(**self.knobs))

    def with_knobs(self, **knobs: Knob) -> Self:
        """Return a copy of this option with different values for some knobs.

        Raises `InputError` for an unknown knob, and for a value of the wrong type or below 1.
        """
        for name, value in knobs.items():
            self._check(name, value)
        return replace(self, knobs={**self.knobs, **knobs})

    def of_rule(self, rule: str) -> Self:
        """Return a copy of this option under the name of a rule, without computing its cost again."""
        named = copy(self)
        object.__setattr__(named, "rule", rule)
        return named

    def _check(self, name: str, value: Any) -> None:
        owner = self.rule or "the rule"
        if name not in self.knobs:
            raise InputError(f"{owner} has no knob {name!r}: {nearest(name, list(self.knobs))}")
        kind = type(self.knobs[name])
        if type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
            expected = {bool: "True or False", int: "an integer of at least 1"}.get(kind, "a name")
            raise InputError(f"knob {name!r} of {owner}: wanted {expected}, found {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Option):
    """A way to schedule a function. `apply(sch, **knobs)` changes the schedule in place.

    `apply` raises `ScheduleError` if these knobs do not fit the function, and `Unfit` if no other knobs would fit
    either. `formulas` maps the name of each part of the cost to its closed formula, which can be printed. It is empty
    if the rule has no closed formulas.
    """

    apply: Apply
    formulas: Mapping[str, object] = field(default_factory=dict)

    def schedule(self, func: PrimFunc, steps: SharedSteps | None = None) -> Schedule:
        """Schedule the function `func` with the decisions of this candidate. Raises `ScheduleError` if they do not fit
        it.

        `steps` are steps that can be shared with other schedules of the function.
        """
        sch = Schedule(func) if steps is None else steps.schedule()
        self.apply(sch, **self.knobs)
        return sch


def cheapest_first(options: Iterable[AnyOption]) -> list[AnyOption]:
    """Sort options by predicted cycles. Options with equal cycles keep their order."""
    return sorted(options, key=lambda option: option.cost.cycles)


def reason(error: ScheduleError) -> str:
    """Return, on one line, why a schedule was refused: the call, what was wanted, and what was found."""
    first, *others = [line.strip() for line in str(error).splitlines()] or [""]
    parts = [_STEP.sub("", first), *(line for line in others if line.startswith(("wanted:", "found:")))]
    return "; ".join(" ".join(part.split()) for part in parts)


# --- A decision: the rule and the knobs by which a function is scheduled. It is data that can be kept.
#
# decision = Decision("contraction", {"row": "i", "column": "j", "rows": 8, "vectors": 3, ...})
# scheduled(func, target, decision)


@dataclass(frozen=True, slots=True)
class Decision:
    """The name of a rule and a value for each of its knobs. Equal decisions are equal in every process."""

    rule: str
    knobs: Mapping[str, Knob]

    def __post_init__(self) -> None:
        object.__setattr__(self, "knobs", MappingProxyType(dict(sorted(self.knobs.items()))))

    def __hash__(self) -> int:
        return hash(self.to_json())

    @staticmethod
    def of(option: Option) -> Decision:
        """Return the decision that an option represents."""
        return Decision(option.rule, option.knobs)

    def to_json(self) -> str:
        """Return the decision as one line of JSON, which is the same for equal decisions."""
        return json.dumps({"rule": self.rule, "knobs": dict(self.knobs)}, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Decision:
        """Read a decision that `to_json` wrote. Raises `InputError` for any other text."""
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if not isinstance(data, dict) or set(data) != {"rule", "knobs"} or not isinstance(data["rule"], str):
            raise InputError(f'not a decision: wanted {{"rule": ..., "knobs": {{...}}}}, found {text[:60]!r}')
        return Decision(data["rule"], checked_knobs(data["knobs"]))

    def __str__(self) -> str:
        return f"{self.rule} {', '.join(f'{name}={value}' for name, value in self.knobs.items())}".rstrip()


def checked_knobs(knobs: Any) -> dict[str, Knob]:
    """Check knobs that come from outside and return them. Raises `InputError` if they cannot be knobs."""
    if not isinstance(knobs, dict) or not all(isinstance(v, bool | int | str) for v in knobs.values()):
        raise InputError(f"not knobs: wanted names with truth values, integers or names, found {str(knobs)[:60]!r}")
    return {str(name): value for name, value in knobs.items()}


# --- The choice for a function, the alternatives, and the refused candidates: a record in a scheduled function. As an
# attribute it is plain data (`Choice.data`), so that it can be printed, read back and passed between processes.


CHOICE = "schedule_choice"  # the attribute of a scheduled function
ALGORITHMS = "algorithm"  # the annotation of a block whose algorithm was chosen earlier, in the graph
KEPT = 4  # the number of candidates that a record keeps, without the refused ones


@dataclass(frozen=True, slots=True)
class Weighed:
    """The record of one option that was considered.

    `refused` is the reason why the option is impossible; it is "" if the option is possible or was not tried.
    """

    rule: str
    knobs: Mapping[str, Knob]
    cost: Cost
    refused: str = ""

    @staticmethod
    def of(option: Option, refused: str = "") -> Weighed:
        """Return the record of an option."""
        return Weighed(option.rule, dict(option.knobs), option.cost, refused)

    @property
    def data(self) -> tuple[Any, ...]:
        """The record as a plain tuple: the rule, (name, value) of each knob, arithmetic cycles, memory cycles, and
        the refusal.
        """
        cycles = (float(f"{part:.6g}") for part in (self.cost.compute, self.cost.memory))
        return (self.rule, tuple(self.knobs.items()), *cycles, self.refused)

    @staticmethod
    def from_data(data: Sequence[Any]) -> Weighed:
        """Rebuild a record from `data`. Costs have only the six significant digits that `data` stores."""
        rule, knobs, compute, memory, refused = data
        return Weighed(rule, dict(knobs), Cost(compute, memory), refused)


@dataclass(frozen=True, slots=True)
class Choice:
    """The record of a choice: the rule ("" if none scheduled the function), and the cheapest of its `count` candidates.

    The first entry of `weighed` is the selected candidate. `refused` lists the candidates that were tried before it,
    including those of abandoned rules. `algorithms` lists the algorithms that the graph passes could choose from; they
    chose the first one.
    """

    rule: str = ""
    weighed: tuple[Weighed, ...] = ()
    count: int = 0
    refused: tuple[Weighed, ...] = ()
    algorithms: tuple[Weighed, ...] = field(default=())

    @property
    def taken(self) -> Weighed | None:
        """The selected candidate, or None if no rule scheduled the function."""
        return self.weighed[0] if self.weighed else None

    @property
    def data(self) -> dict[str, Any]:
        """The record as plain data, in a dictionary."""
        lists = {"weighed": self.weighed, "refused": self.refused, "algorithms": self.algorithms}
        plain = {name: tuple(one.data for one in weighed) for name, weighed in lists.items()}
        return {"rule": self.rule, "count": self.count, **plain}


def choice_of(func: PrimFunc) -> Choice:
    """Return the record of a scheduled function. A function without a schedule has only the algorithms in its
    annotations.
    """
    data = func.attrs.get(CHOICE)
    if data is None:
        return Choice(algorithms=algorithms_of(func))
    return Choice(
        data["rule"], _read(data["weighed"]), data["count"], _read(data["refused"]), _read(data["algorithms"])
    )


def algorithms_of(func: PrimFunc) -> tuple[Weighed, ...]:
    """Return the algorithms in the annotations of an unscheduled function's blocks, starting with the selected one."""
    weighed: list[Sequence[Any]] = []
    for block in find(func.body, Block):
        weighed += block.annotations.get(ALGORITHMS, ())
    return _read(weighed)


def records(options: Iterable[Option]) -> tuple[tuple[Any, ...], ...]:
    """Return options as plain data, in their order."""
    return tuple(Weighed.of(option).data for option in options)


def _read(data: Sequence[Sequence[Any]]) -> tuple[Weighed, ...]:
    return tuple(map(Weighed.from_data, data))
