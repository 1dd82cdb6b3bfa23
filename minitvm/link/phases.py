"""Barriers where steps depend on one another, and nowhere else.

The steps between two barriers are a *phase*. What runs on all threads depends on nothing else of its phase, so its
threads need not wait for each other before they go on with the next step. What runs on thread 0 alone is in order with
the rest of thread 0's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..executable import nodes as x
from .slots import Slot
from .steps import Bind, Call, Loop, Step, touched


@dataclass(frozen=True, slots=True)
class Touch:
    """The bytes of `memory` from `first` up to `last` (None: its end), which a step reads, or writes as well."""

    memory: Hashable
    first: int
    last: int | None
    writes: bool

    def meets(self, other: Touch) -> bool:
        """Whether both touch some bytes, and one writes them."""
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        return (other.last is None or self.first < other.last) and (self.last is None or other.first < self.last)


def team_waits(parallel: Sequence[bool], touches: Sequence[Sequence[Touch]]) -> list[bool]:
    """The steps before which all threads must wait, if `parallel` steps run on all threads and the others on thread 0.

    `touches` is what each step touches. No thread waits between steps that do not depend on one another.
    """
    waits: list[bool] = []
    phase: list[tuple[bool, Sequence[Touch]]] = []
    for everyone, mine in zip(parallel, touches, strict=True):
        wait = any(a.meets(b) for other, theirs in phase if everyone or other for a in theirs for b in mine)
        if wait:
            phase = []
        phase.append((everyone, mine))
        waits.append(wait)
    return waits


def touches_of(step: Step, kernels: Sequence[x.Kernel]) -> list[Touch]:
    """What a step touches."""
    return [_touch(slot, "w" in mode) for slot, mode, _ in touched(step, kernels)]


def _touch(slot: Slot, writes: bool) -> Touch:
    home, offset = slot.storage()
    last = offset + slot.nbytes if isinstance(slot.nbytes, int) else None
    return Touch(id(home) if home.location is None else home.location, offset, last, writes)


def edges_of(steps: Sequence[Step]) -> list[int]:
    """The positions where stretches begin: the begin and the end of a loop, of its body, and a size that is bound.

    Threads wait there in any case.
    """
    loops = {edge for k, step in enumerate(steps) if isinstance(step, Loop) for edge in (k, k + 1, step.end)}
    binds = {edge for k, step in enumerate(steps) if isinstance(step, Bind) for edge in (k, k + 1)}
    return sorted({0, len(steps), *loops, *binds})


def phases(edges: Sequence[int], waits: Sequence[bool]) -> Iterator[range]:
    """The positions of the steps of each phase, where stretches begin at `edges`."""
    begins = sorted({*edges, *(k for k, wait in enumerate(waits) if wait)})
    yield from (range(a, b) for a, b in pairwise(begins))


def is_parallel(step: Step) -> bool:
    """Whether all threads run a step."""
    return isinstance(step, Call) and step.parallel
