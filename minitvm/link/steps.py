"""The steps of a program over slots, before values have places in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..executable import nodes as x
from ..expr import Expr, Var
from .slots import Slot


@dataclass(slots=True)
class Call:
    """A call of kernel number `kernel`. `first` says of each argument whether it is undefined before."""

    kernel: int
    args: list[Slot | Expr]
    parallel: bool
    operator: str
    grid: list[Expr]
    first: list[bool]


@dataclass(slots=True)
class Copy:
    dst: Slot
    src: Slot
    operator: str


@dataclass(slots=True)
class Bind:
    var: Var
    count: Slot
    most: x.Dim
    where: str
    operator: str
    reason: str


@dataclass(slots=True)
class Loop:
    """A loop whose body is the steps behind it, up to the number `end`."""

    number: Slot
    limit: Slot
    going: Slot | None
    most: x.Dim | None
    where: str
    operator: str
    end: int = 0


Step: TypeAlias = Call | Copy | Bind | Loop


def used(step: Step) -> Sequence[Slot | Expr]:
    """What a step touches, and its numbers."""
    if isinstance(step, Bind):
        return [step.count]
    if isinstance(step, Loop):
        return [step.number, step.limit] if step.going is None else [step.number, step.limit, step.going]
    return [step.dst, step.src] if isinstance(step, Copy) else step.args


def touched(step: Step, kernels: Sequence[x.Kernel]) -> Iterator[tuple[Slot, str, int]]:
    """The slots of a step, how each is accessed ("r", "w" or "rw"), and its place in `used(step)`.

    A copy and a loop read before they write: the loop its limit, before it counts.
    """
    if isinstance(step, Call):
        for place, (item, param) in enumerate(zip(step.args, kernels[step.kernel].params, strict=True)):
            if isinstance(item, Slot):
                yield item, param.access, place
        return
    slots = [item for item in used(step) if isinstance(item, Slot)]
    written = [0] if isinstance(step, Copy | Loop) else []  # what is copied to, the number that is counted
    for place in [*(place for place in range(len(slots)) if place not in written), *written]:
        yield slots[place], "w" if place in written else "r", place
