"""Which tokens of a program matter: what would be in no order without one of them.

Theorem. Take the push and the pop of one token, from instruction i to instruction j, out of a program. Then i and j are
in no order. For a path from i to j would pass from i's module to j's. Modules are a chain (load, compute, store), so it
passes the queue between the two, by a token that was pushed at i or later and popped before j. But tokens are taken in
order, and those that were popped before j were pushed before i.

- If i and j touch an element, and one writes it, or j is the end of the program and i a store, a rule of the verifier
  is broken without the token: it matters.
- What is left are tokens that order other instructions only. The verifier decides on the program without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import VerificationError
from .config import AccelConfig
from .footprint import InstructionTouch, MicroOps, grain, touched
from .isa import QUEUES, Finish, Program, Queue, Store
from .verifier import verify


@dataclass(frozen=True, slots=True)
class Token:
    """A token from instruction `push` to instruction `pop`; `needed` is what breaks without it, "" for nothing."""

    queue: Queue
    push: int
    pop: int
    needed: str


def tokens(program: Program, config: AccelConfig) -> list[Token]:
    """The tokens of a program that the verifier accepts, queue by queue, each with why it is needed."""
    touches, found = _touches(program, config), []
    for queue, push, pop in pairs(program):
        why = _meeting(touches[push], touches[pop])
        if isinstance(program.instructions[pop], Finish) and isinstance(program.instructions[push], Store):
            why = "the host would read before the store"
        found.append(Token(queue, push, pop, why or _refused(program, config, queue, push, pop)))
    return found


def pairs(program: Program) -> Iterator[tuple[Queue, int, int]]:
    """(queue, who pushes, who pops) of each token: the k-th pop takes the k-th push."""
    for queue in QUEUES:
        pushers = [i for i, one in enumerate(program.instructions) if queue in one.pushes]
        poppers = [i for i, one in enumerate(program.instructions) if queue in one.pops]
        yield from ((queue, push, pop) for push, pop in zip(pushers, poppers, strict=True))


def without(program: Program, queue: Queue, push: int, pop: int) -> Program:
    """The program without one token."""
    pusher, popper = queue
    sides = {
        push: f"push_{'prev' if pusher.prev is popper else 'next'}",
        pop: f"pop_{'prev' if popper.prev is pusher else 'next'}",
    }
    instructions = list(program.instructions)
    for index, side in sides.items():
        changes: dict[str, Any] = {side: False}
        instructions[index] = replace(instructions[index], **changes)
    return replace(program, instructions=tuple(instructions))


def _touches(program: Program, config: AccelConfig) -> list[list[InstructionTouch]]:
    size, micro_ops = grain(program, config), MicroOps(program, config)
    return [list(touched(one, micro_ops, config, size)) for one in program.instructions]


def _meeting(first: list[InstructionTouch], second: list[InstructionTouch]) -> str:
    """An element that two instructions touch, and one writes; "" for none."""
    for a in first:
        for b in second:
            if a.memory == b.memory and (a.writes or b.writes):
                shared = np.intersect1d(a.indices, b.indices)
                if len(shared):
                    return f"both touch {a.name} {shared[0]}, and {'the first' if a.writes else 'the second'} writes it"
    return ""


def _refused(program: Program, config: AccelConfig, queue: Queue, push: int, pop: int) -> str:
    """What the verifier says of the program without a token; "" if it accepts that."""
    try:
        verify(without(program, queue, push, pop), config)
    except VerificationError as error:
        return str(error).splitlines()[0]
    return ""
