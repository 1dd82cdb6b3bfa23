"""The rules of a program that a machine can run, as a table: a row is a name, the rule, and what finds breaches.

A rule yields `(instruction or None, description)` for each breach. Rules stand in the order in which they lean on each
other: the later ones take for granted what the earlier ones found to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import VerificationError, report
from .config import AccelConfig, Scratchpad
from .encoding import encode_micro_op, misfits
from .footprint import MicroOps, Triples
from .isa import QUEUES, Alu, AluOp, DramBuffer, Finish, Gemm, Instruction, Load, Loops, Program, Store, Transfer
from .ordering import Blocked, Ordering, conflicts, ordering, stores_after_finish, unwritten

Breach = tuple[int | None, str]


class CheckedProgram:
    """A program, its machine, and the order of its instructions, which is worked out when a rule asks for it."""

    def __init__(self, program: Program, config: AccelConfig) -> None:
        self.program, self.config = program, config
        self._order: Ordering | None = None

    @property
    def order(self) -> Ordering:
        if self._order is None:
            self._order = ordering(self.program, self.config)
        return self._order

    def each(self, *kinds: type[Instruction]) -> Iterator[tuple[int, Instruction]]:
        """The instructions of some kinds, with their numbers."""
        return ((i, one) for i, one in enumerate(self.program.instructions) if isinstance(one, kinds or Instruction))


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    says: str
    breaches: Callable[[CheckedProgram], Iterator[Breach]]


def _buffers(x: CheckedProgram) -> Iterator[Breach]:
    end = 0
    for buffer in sorted(x.program.buffers, key=lambda b: b.address):
        if buffer.address < end:
            yield None, f"{buffer.name} begins at {buffer.address}, before {end}, where another one ends"
        size = x.config.element_bytes(buffer.kind)
        if buffer.address % size:
            yield None, f"{buffer.name} begins at {buffer.address}, within an element of {size} bytes"
        end = max(end, buffer.address + buffer.count * size)
        if buffer.role == "constant":
            for op in buffer.uops:
                encode_micro_op(op, x.config)


def _fields(x: CheckedProgram) -> Iterator[Breach]:
    for i, one in x.each():
        for place, value in misfits(one, x.config):
            yield i, f"{place.path} is {value}; its {place.bits} bits hold {place.least} to {place.most}"


def _neighbours(x: CheckedProgram) -> Iterator[Breach]:
    for i, one in x.each():
        for side in ("prev", "next"):
            if (getattr(one, f"pop_{side}") or getattr(one, f"push_{side}")) and getattr(one.module, side) is None:
                yield i, f"{one.module.value} has no neighbour at its side {side!r}"


def _kinds(x: CheckedProgram) -> Iterator[Breach]:
    for i, one in x.each(Load):
        assert isinstance(one, Load)
        if one.memory is Scratchpad.OUT:
            yield i, "results are not loaded"
        elif one.memory is Scratchpad.UOP and (any(one.pads) or one.pad_least):
            yield i, "micro-ops have no frame"
    for i, one in x.each(Store):
        if isinstance(one, Store) and one.memory is not Scratchpad.OUT:
            yield i, f"only results are stored, not {one.memory.word}"


def _options(x: CheckedProgram) -> Iterator[Breach]:
    options = x.config.options
    for i, one in x.each(Load, Alu):
        if isinstance(one, Load) and one.pad_least and not options.pad_value:
            yield i, "this machine pads with zeros only"
        if isinstance(one, Load) and one.memory is Scratchpad.ACC8 and not options.widen:
            yield i, "this machine extends no numbers into registers"
        if isinstance(one, Alu) and one.op is AluOp.MUL and not options.multiply_bits:
            yield i, "this machine's ALU does not multiply"
        if isinstance(one, Alu) and one.op is AluOp.CLIP and not options.clip:
            yield i, "this machine's ALU does not clip"


def _dram(x: CheckedProgram) -> Iterator[Breach]:
    for i, one in x.each(Transfer):
        assert isinstance(one, Transfer)
        if one.elements == 0:
            continue
        size = x.config.element_bytes(one.memory)
        first = one.dram * size
        last = (one.dram + (one.y_size - 1) * one.x_stride + one.x_size) * size
        home = next((b for b in x.program.buffers if b.address <= first < _end(b, x.config)), None)
        if home is None:
            yield i, f"no buffer holds byte {first}"
        elif last > _end(home, x.config):
            yield i, f"{home.name} ends at byte {_end(home, x.config)}, the last row at {last}"
        elif isinstance(one, Store) and home.role not in ("output", "temporary"):
            yield i, f"{home.name} is an {home.role}, which nothing may overwrite"
        elif isinstance(one, Load) and (one.memory is Scratchpad.UOP) != (home.role == "constant"):
            yield i, f"{home.name} is an {home.role}; micro-ops, and nothing else, are constants"


def _end(buffer: DramBuffer, config: AccelConfig) -> int:
    return buffer.address + buffer.count * config.element_bytes(buffer.kind)


def _scratchpads(x: CheckedProgram) -> Iterator[Breach]:
    for i, one in x.each(Transfer):
        assert isinstance(one, Transfer)
        rows, columns = one.written_shape if isinstance(one, Load) else (one.y_size, one.x_size)
        depth = x.config.depth(one.memory)
        if rows * columns and one.sram + rows * columns > depth:
            yield i, f"elements {one.sram} to {one.sram + rows * columns - 1} of {one.memory.word}, which has {depth}"


def _micro_ops(x: CheckedProgram) -> Iterator[Breach]:
    held = MicroOps(x.program, x.config)
    depth = x.config.depth(Scratchpad.UOP)
    for i, one in x.each(Load, Loops):
        if isinstance(one, Load) and one.memory is Scratchpad.UOP:
            held.load(one)
        if not isinstance(one, Loops):
            continue
        if not 0 <= one.uop_begin <= one.uop_end <= depth:
            yield i, f"micro-ops {one.uop_begin} to {one.uop_end} of {depth}"
            continue
        empty = np.flatnonzero(held.held[one.uop_begin : one.uop_end, 0] < 0)
        if len(empty):
            yield i, f"micro-op {one.uop_begin + int(empty[0])} was not loaded"
            continue
        for memory, name in _indexed(one):
            at = getattr(held.triples(one), name)
            over = np.flatnonzero(at >= x.config.depth(memory))
            if len(over):
                triple = f"iteration {_iteration(one, int(over[0]))}"
                yield i, f"{name} is {at[over[0]]} in {triple}; {memory.word} has {x.config.depth(memory)} elements"


def _indexed(loops: Loops) -> Iterator[tuple[Scratchpad, str]]:
    """The memories that an instruction indexes, and by which part of its triples."""
    assert set(Triples.__slots__) == {"dst", "src", "wgt"}
    yield Scratchpad.ACC, "dst"
    if isinstance(loops, Gemm) and not loops.reset:
        yield Scratchpad.INP, "src"
        yield Scratchpad.WGT, "wgt"
    if isinstance(loops, Alu) and loops.immediate is None:
        yield Scratchpad.ACC, "src"


def _iteration(loops: Loops, number: int) -> str:
    """(outer, inner, micro-op) of the micro-op that runs as number `number`."""
    count = loops.uop_end - loops.uop_begin
    outer, inner = divmod(number // count, loops.inner)
    return f"({outer}, {inner}, {loops.uop_begin + number % count})"


def _finish(x: CheckedProgram) -> Iterator[Breach]:
    finishes = [i for i, _ in x.each(Finish)]
    last = len(x.program.instructions) - 1
    if finishes != [last]:
        yield (finishes[0] if finishes else None), f"FINISH is at {finishes}, wanted once, at the end ({last})"


def _balance(x: CheckedProgram) -> Iterator[Breach]:
    for queue in QUEUES:
        pushes = sum(queue in one.pushes for _, one in x.each())
        pops = sum(queue in one.pops for _, one in x.each())
        if pushes != pops:
            yield None, f"{queue[0].value} pushes {pushes} tokens to {queue[1].value}, which pops {pops}"


def deadlock_text(blocked: list[Blocked], program: Program) -> str:
    """Who waits for whom, a line for each."""
    lines = []
    for b in blocked:
        if b.instruction is None:
            lines.append(f"fetch waits for room among the commands of {b.module.value}: {b.why}")
        else:
            text = program.instructions[b.instruction]
            lines.append(f"{b.module.value} waits for {b.why}, at instruction {b.instruction}: {text}")
    return "\n".join(lines)


def _deadlock(x: CheckedProgram) -> Iterator[Breach]:
    if x.order.blocked:
        first = next((b.instruction for b in x.order.blocked if b.instruction is not None), None)
        yield first, deadlock_text(x.order.blocked, x.program)


def _ordered(x: CheckedProgram) -> Iterator[Breach]:
    for c in conflicts(x.program, x.config, x.order):
        did = [("wrote" if c.first_writes else "reads"), ("writes" if c.second_writes else "reads")]
        yield (
            c.second,
            (
                f"it {did[1]} {c.memory}[{c.element}], which instruction {c.first} {did[0]}, "
                f"and no tokens order the two:\n"
                f"{c.first}  {x.program.instructions[c.first]}"
            ),
        )


def _loaded(x: CheckedProgram) -> Iterator[Breach]:
    for i, memory, element in unwritten(x.program, x.config, x.order):
        yield i, f"{memory}[{element}] was never {'stored' if memory == 'dram' else 'written'}"


def _complete(x: CheckedProgram) -> Iterator[Breach]:
    for store, finish in stores_after_finish(x.program, x.order):
        yield finish, f"instruction {store} may still be storing: {x.program.instructions[store]}"


RULES: tuple[Rule, ...] = (
    Rule("buffers", "buffers begin at whole elements and do not overlap; micro-ops fit their fields", _buffers),
    Rule("fields", "every number fits its field", _fields),
    Rule("neighbours", "tokens go to a neighbour and come from one", _neighbours),
    Rule("kinds", "LOAD brings uop, wgt, inp, acc or acc8; STORE takes results; micro-ops have no frame", _kinds),
    Rule("options", "an option is used only where the machine has it", _options),
    Rule("dram bounds", "a transfer stays in one buffer, whose role allows it", _dram),
    Rule("scratchpad bounds", "a transfer stays in its scratchpad", _scratchpads),
    Rule("micro-ops", "micro-ops are loaded before, and their indices stay in the scratchpads", _micro_ops),
    Rule("finish", "FINISH occurs once, at the end", _finish),
    Rule("balance", "as many tokens are popped from a queue as are pushed into it", _balance),
    Rule("deadlock", "every instruction gets its tokens, and room for those that it pushes", _deadlock),
    Rule("order", "tokens order all instructions of different modules that touch an element, if one writes", _ordered),
    Rule("loaded", "what is read was written before", _loaded),
    Rule("complete", "all stores happen before FINISH", _complete),
)


def verify(program: Program, config: AccelConfig) -> None:
    """Raises VerificationError with the first rule that does not hold, and the instruction that breaks it."""
    checked = CheckedProgram(program, config)
    for rule in RULES:
        for index, text in rule.breaches(checked):
            raise VerificationError(
                report(
                    f"{program.name} breaks the rule {rule.name!r}"
                    + ("" if index is None else f" at instruction {index}"),
                    program=None if index is None else program.excerpt({index: ""}),
                    wanted=rule.says,
                    found=text,
                )
            )
