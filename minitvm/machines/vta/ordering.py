"""Which instructions tokens put in order, whatever the modules' speed.

Theorem. Each queue has one module that pushes and one that pops, and both go through their instructions in order. So
the k-th pop takes the token of the k-th push, in every run. *Happens-before* is the smallest order that holds

    an instruction of a module        before   the next one of that module
    the k-th push into a queue        before   the k-th pop out of it

and it is the same in every run. If every two instructions of different modules that touch an element, of which one
writes it, are in this order, then every run gives the same result: two neighbours in a run that are not in order touch
nothing in common, and changing their places changes nothing.

A clock says for each module how many of its instructions happen before; the instruction itself counts as its own
module's last. So `a` happens before `b` exactly if b's clock at a's module is at least a's number there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .config import AccelConfig, Scratchpad
from .footprint import DRAM, InstructionTouch, MicroOps, grain, touched
from .isa import QUEUES, Finish, Module, Program, Queue, Store

MODULES = tuple(Module)
Clock = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """A module that waits for ever: for which instruction, and for a token or for room in a queue."""

    module: Module
    instruction: int | None  # None: fetch waits for room among the commands of `module`
    why: str


@dataclass(slots=True)
class Ordering:
    """One order in which the instructions can run, their clocks, and who waits for ever at its end."""

    order_of: dict[int, int] = field(default_factory=dict)  # each instruction's place in this order
    clocks: dict[int, Clock] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # an instruction's number in its module, from 1
    blocked: list[Blocked] = field(default_factory=list)
    left: dict[Queue, int] = field(default_factory=dict)  # tokens in the queues at the end

    @property
    def order(self) -> list[int]:
        return list(self.order_of)

    def before(self, program: Program, first: int, second: int) -> bool:
        """Whether `first` happens before `second`."""
        module = MODULES.index(program.instructions[first].module)
        return first != second and self.clocks[second][module] >= self.numbers[first]


def ordering(program: Program, config: AccelConfig) -> Ordering:
    """Run the tokens alone, each module as far as it comes, with queues as deep as the machine's."""
    found = Ordering()
    queues: dict[Queue, deque[Clock]] = {queue: deque() for queue in QUEUES}
    commands: dict[Module, deque[int]] = {module: deque() for module in MODULES}
    now = {module: [0, 0, 0] for module in MODULES}
    fetched, total = 0, len(program.instructions)
    while True:
        progress = False
        while fetched < total:
            target = commands[program.instructions[fetched].module]
            if len(target) >= config.command_depth:
                break
            target.append(fetched)
            fetched += 1
            progress = True
        for module in MODULES:
            while commands[module]:
                index = commands[module][0]
                if _obstacle(program, index, index in found.order_of, queues, config):
                    break
                progress = True
                one = program.instructions[index]
                if index in found.order_of:  # it has ended, and there is room for what it pushes
                    for queue in one.pushes:
                        queues[queue].append(found.clocks[index])
                    commands[module].popleft()
                    continue
                clock = now[module]
                clock[MODULES.index(module)] += 1
                for queue in one.pops:
                    clock[:] = map(max, clock, queues[queue].popleft())
                found.order_of[index] = len(found.order_of)
                found.clocks[index] = tuple(clock)
                found.numbers[index] = clock[MODULES.index(module)]
        if not progress:
            break
    found.left = {queue: len(tokens) for queue, tokens in queues.items() if tokens}
    for module in MODULES:
        if commands[module]:
            index = commands[module][0]
            why = _obstacle(program, index, index in found.order_of, queues, config)
            found.blocked.append(Blocked(module, index, why))
    if fetched < total:
        module = program.instructions[fetched].module
        found.blocked.append(Blocked(module, None, f"{config.command_depth} commands wait there"))
    return found


def _obstacle(program: Program, index: int, ended: bool, queues: dict[Queue, deque[Clock]], config: AccelConfig) -> str:
    """Why an instruction cannot begin, or, when it has ended, cannot push its tokens; "" if it can."""
    one = program.instructions[index]
    if ended:
        full = [queue for queue in one.pushes if len(queues[queue]) >= config.token_depth]
        return f"room for a token to {full[0][1].value}" if full else ""
    missing = [queue for queue in one.pops if not queues[queue]]
    return f"a token of {missing[0][0].value}" if missing else ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two instructions that touch an element, of which one writes it, and that nothing orders."""

    first: int
    second: int
    memory: str
    element: int
    first_writes: bool
    second_writes: bool


class _Shadow:
    """Who touched each element of a memory last: who wrote it, and who of each module read it."""

    def __init__(self, depth: int) -> None:
        self.writer = np.zeros(depth, dtype=np.int8)
        self.written = np.zeros(depth, dtype=np.int32)  # the writer's number in its module, 0 for nobody
        self.read = np.zeros((len(MODULES), depth), dtype=np.int32)

    def unordered(self, touch: InstructionTouch, clock: np.ndarray[Any, Any]) -> tuple[int, int, int, bool] | None:
        """(element, module, number there, whether that one wrote) of an access that is not before this one."""
        at = touch.indices
        late = self.written[at] > clock[self.writer[at]]
        if late.any():
            element = int(at[np.argmax(late)])
            return element, int(self.writer[element]), int(self.written[element]), True
        if touch.writes:
            readers = self.read[:, at] > clock[:, None]
            if readers.any():
                module, place = np.unravel_index(int(np.argmax(readers)), readers.shape)
                return int(at[place]), int(module), int(self.read[module, at[place]]), False
        return None

    def note(self, touch: InstructionTouch, module: int, number: int) -> None:
        if touch.writes:
            self.writer[touch.indices] = module
            self.written[touch.indices] = number
        else:
            self.read[module, touch.indices] = number


Shadows = dict[Scratchpad | str, _Shadow]


def _walk(
    program: Program, config: AccelConfig, order: Ordering
) -> Iterator[tuple[int, list[InstructionTouch], Shadows]]:
    """Each instruction in order, what it touches, and who touched the memories before it."""
    size = grain(program, config)
    end = max((b.address + b.count * config.element_bytes(b.kind) for b in program.buffers), default=0)
    shadows: Shadows = {pad: _Shadow(config.depth(pad)) for pad in Scratchpad if pad is pad.held}
    shadows[DRAM] = _Shadow(end // size + 1)
    for b in program.buffers:
        if b.role in ("input", "constant"):  # written by the host, before all
            first = b.address // size
            shadows[DRAM].written[first : first + b.count * config.element_bytes(b.kind) // size] = -1
    micro_ops = MicroOps(program, config)
    for index in order.order:
        one = program.instructions[index]
        touches = list(touched(one, micro_ops, config, size))
        yield index, touches, shadows
        for touch in touches:
            shadows[touch.memory].note(touch, MODULES.index(one.module), order.numbers[index])


def conflicts(program: Program, config: AccelConfig, order: Ordering) -> Iterator[Conflict]:
    """The pairs of instructions that touch an element in no order; a pair is found at its second instruction."""
    by_number = {(program.instructions[i].module, n): i for i, n in order.numbers.items()}
    for index, touches, shadows in _walk(program, config, order):
        clock = np.array(order.clocks[index])
        for touch in touches:
            found = shadows[touch.memory].unordered(touch, clock)
            if found is not None:
                element, other, number, wrote = found
                first = by_number[MODULES[other], number]
                yield Conflict(first, index, touch.name, element, wrote, touch.writes)


def unwritten(program: Program, config: AccelConfig, order: Ordering) -> Iterator[tuple[int, str, int]]:
    """(instruction, memory, element) of reads of what nothing wrote. DRAM is counted in grains."""
    for index, touches, shadows in _walk(program, config, order):
        for touch in touches:
            never = shadows[touch.memory].written[touch.indices] == 0
            if not touch.writes and never.any():
                yield index, touch.name, int(touch.indices[np.argmax(never)])


def stores_after_finish(program: Program, order: Ordering) -> Iterator[tuple[int, int]]:
    """(store, finish) where the store may still run when the host is told that all is done."""
    for finish, one in enumerate(program.instructions):
        if isinstance(one, Finish) and finish in order.clocks:
            for index, other in enumerate(program.instructions):
                if isinstance(other, Store) and index in order.clocks and not order.before(program, index, finish):
                    yield index, finish
                    return
