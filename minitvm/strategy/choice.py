"""What was chosen for a function, over what, and what was refused: a record that a scheduled function carries along.

As an attribute it is plain data (`Choice.data`), so that it prints, reads back and passes between processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..expr import find
from ..tir.nodes import Block, PrimFunc
from .candidate import Cost, Knob, Option

CHOICE = "schedule_choice"  # the attribute of a scheduled function
ALGORITHMS = "algorithm"  # the annotation of a block whose algorithm was chosen before, in the graph
KEPT = 4  # how many of the candidates that were not refused a record keeps


@dataclass(frozen=True, slots=True)
class Weighed:
    """One option as it was weighed; `refused` says why it cannot be had, "" where it can, or was not tried."""

    rule: str
    knobs: Mapping[str, Knob]
    cost: Cost
    refused: str = ""

    @staticmethod
    def of(option: Option, refused: str = "") -> Weighed:
        """The record of an option."""
        return Weighed(option.rule, dict(option.knobs), option.cost, refused)

    @property
    def data(self) -> tuple[Any, ...]:
        """The record as plain data: rule, (name, value) of each knob, cycles of arithmetic and of memory, refusal."""
        cycles = (float(f"{part:.6g}") for part in (self.cost.compute, self.cost.memory))
        return (self.rule, tuple(self.knobs.items()), *cycles, self.refused)

    @staticmethod
    def from_data(data: Sequence[Any]) -> Weighed:
        """The inverse of `data`, up to the digits of costs."""
        rule, knobs, compute, memory, refused = data
        return Weighed(rule, dict(knobs), Cost(compute, memory), refused)


@dataclass(frozen=True, slots=True)
class Choice:
    """The rule that scheduled a function ("" where none did), and the cheapest of its `count` candidates, taken first.

    `refused` are the candidates that were tried before, those of rules that were given up included. `algorithms` are
    what the graph's passes had the choice of, the one taken first.
    """

    rule: str = ""
    weighed: tuple[Weighed, ...] = ()
    count: int = 0
    refused: tuple[Weighed, ...] = ()
    algorithms: tuple[Weighed, ...] = field(default=())

    @property
    def taken(self) -> Weighed | None:
        """The candidate that was taken."""
        return self.weighed[0] if self.weighed else None

    @property
    def data(self) -> dict[str, Any]:
        """The record as plain data."""
        lists = {"weighed": self.weighed, "refused": self.refused, "algorithms": self.algorithms}
        plain = {name: tuple(one.data for one in weighed) for name, weighed in lists.items()}
        return {"rule": self.rule, "count": self.count, **plain}


def choice_of(func: PrimFunc) -> Choice:
    """The record of a scheduled function; of another one what its blocks say of algorithms."""
    data = func.attrs.get(CHOICE)
    if data is None:
        return Choice(algorithms=algorithms_of(func))
    return Choice(
        data["rule"], _read(data["weighed"]), data["count"], _read(data["refused"]), _read(data["algorithms"])
    )


def algorithms_of(func: PrimFunc) -> tuple[Weighed, ...]:
    """What the blocks of a function that is not scheduled yet say of algorithms: the one taken, then the others."""
    weighed: list[Sequence[Any]] = []
    for block in find(func.body, Block):
        weighed += block.annotations.get(ALGORITHMS, ())
    return _read(weighed)


def records(options: Iterable[Option]) -> tuple[tuple[Any, ...], ...]:
    """Options as plain data, in their order."""
    return tuple(Weighed.of(option).data for option in options)


def _read(data: Sequence[Sequence[Any]]) -> tuple[Weighed, ...]:
    return tuple(map(Weighed.from_data, data))
