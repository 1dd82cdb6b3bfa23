"""The instruction set of the accelerator, which is VTA's, and what a program is.

    program      ::= buffer* instruction*
    buffer       ::= a piece of DRAM: input, output, constant or temporary
    instruction  ::= Load | Store | Gemm | Alu | Finish, each with the tokens that it takes and gives
    micro-op     ::= dst, src, wgt: three indices of scratchpads

Three modules run at the same time, each through its own instructions in order: load (LOAD of inp and wgt), compute
(GEMM, ALU, FINISH, LOAD of uop and acc) and store (STORE). Only tokens order what different modules do: an instruction
*pops* a token from a neighbour before it begins and *pushes* one when it has ended. The neighbours of compute are load
(before it, "prev") and store (after it, "next"); each pair has a queue in both directions.

Nodes are plain values, compared by what they hold. `str(instruction)` is the text that the assembler reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar

from .config import Scratchpad


class Module(Enum):
    """The three that run at the same time, in the order in which data pass through them."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"

    @property
    def prev(self) -> Module | None:
        """The neighbour before."""
        return {Module.COMPUTE: Module.LOAD, Module.STORE: Module.COMPUTE}.get(self)

    @property
    def next(self) -> Module | None:
        """The neighbour behind."""
        return {Module.LOAD: Module.COMPUTE, Module.COMPUTE: Module.STORE}.get(self)


Queue = tuple[Module, Module]  # who pushes, who pops
QUEUES: tuple[Queue, ...] = (
    (Module.LOAD, Module.COMPUTE),
    (Module.COMPUTE, Module.LOAD),
    (Module.COMPUTE, Module.STORE),
    (Module.STORE, Module.COMPUTE),
)


class AluOp(IntEnum):
    """`acc[dst] = op(acc[dst], b)`, where b is a register or an immediate. All wrap.

    SHR shifts right arithmetically, a negative b to the left; MUL and CLIP are options of the configuration.
    """

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    CLIP = 5


@dataclass(frozen=True, slots=True)
class MicroOp:
    """Indices of acc, of inp (of acc, for ALU) and of wgt, to which the loops of an instruction add."""

    dst: int
    src: int
    wgt: int = 0

    def __str__(self) -> str:
        return f"{self.dst} {self.src} {self.wgt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What all instructions have: the tokens that they pop before, and push behind."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    opcode: ClassVar[int]

    @property
    def module(self) -> Module:
        """Who runs it."""
        return Module.COMPUTE

    @property
    def pops(self) -> tuple[Queue, ...]:
        """The queues from which it takes a token."""
        return tuple(
            (other, self.module)
            for wanted, other in ((self.pop_prev, self.module.prev), (self.pop_next, self.module.next))
            if wanted and other is not None
        )

    @property
    def pushes(self) -> tuple[Queue, ...]:
        """The queues into which it puts a token."""
        return tuple(
            (self.module, other)
            for wanted, other in ((self.push_prev, self.module.prev), (self.push_next, self.module.next))
            if wanted and other is not None
        )

    def tokens_text(self) -> str:
        """` pop(load) push(store)`; a neighbour that is not there is called by its side."""
        parts = ""
        for verb in ("pop", "push"):
            for side in ("prev", "next"):
                if getattr(self, f"{verb}_{side}"):
                    other: Module | None = getattr(self.module, side)
                    parts += f" {verb}({other.value if other else side})"
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Instruction):
    """Rows of elements between DRAM and a scratchpad: `y_size` rows of `x_size`, whose beginnings are `x_stride` apart.

    `sram` and `dram` count elements, `dram` from address 0. In the scratchpad the elements lie one behind the other.
    A transfer of no element only passes tokens.
    """

    memory: Scratchpad
    sram: int = 0
    dram: int = 0
    y_size: int = 1
    x_size: int = 1
    x_stride: int = 1

    def rows(self) -> Iterator[tuple[int, int]]:
        """(first element in DRAM, number of elements) of each row."""
        for y in range(self.y_size):
            yield self.dram + y * self.x_stride, self.x_size

    @property
    def elements(self) -> int:
        """How many elements come from DRAM or go there."""
        return self.y_size * self.x_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Transfer):
    """From DRAM; the loaded rows get a frame of zeros, or of the least value of the dtype (`pad_least`).

    `pads` are the rows above and below and the elements left and right. inp and wgt are loaded by the load module, uop,
    acc and acc8 by the compute module. acc8 are numbers of the dtype of results, extended into registers.
    """

    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_least: bool = False

    opcode: ClassVar[int] = 0

    @property
    def module(self) -> Module:
        return Module.LOAD if self.memory in (Scratchpad.INP, Scratchpad.WGT) else Module.COMPUTE

    @property
    def written_shape(self) -> tuple[int, int]:
        """Rows and columns in the scratchpad, the frame included."""
        above, below, left, right = self.pads
        return self.y_size + above + below, self.x_size + left + right

    def __str__(self) -> str:
        pads = f" pads={','.join(map(str, self.pads))}" if any(self.pads) else ""
        return f"load.{_transfer_text(self)}{pads}{' least' if self.pad_least else ''}{self.tokens_text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Transfer):
    """Registers to DRAM, each cut to the low bits of a result. `memory` is OUT."""

    memory: Scratchpad = Scratchpad.OUT

    opcode: ClassVar[int] = 1

    @property
    def module(self) -> Module:
        return Module.STORE

    def __str__(self) -> str:
        return f"store.{_transfer_text(self)}{self.tokens_text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops(Instruction):
    """Micro-ops in two loops: for i < outer, for j < inner, for k in [uop_begin, uop_end):

    dst = uop[k].dst + i * dst_factors[0] + j * dst_factors[1], and src, wgt alike
    """

    uop_begin: int = 0
    uop_end: int = 0
    outer: int = 1
    inner: int = 1
    dst_factors: tuple[int, int] = (0, 0)
    src_factors: tuple[int, int] = (0, 0)

    @property
    def count(self) -> int:
        """How many micro-ops run."""
        return self.outer * self.inner * max(0, self.uop_end - self.uop_begin)

    def loops_text(self) -> str:
        """The fields that GEMM and ALU share."""
        dst, src = (",".join(map(str, f)) for f in (self.dst_factors, self.src_factors))
        return f"uops={self.uop_begin}:{self.uop_end} loops={self.outer},{self.inner} dst={dst} src={src}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(Loops):
    """`acc[dst] += inp[src] @ wgt[w].T` for each micro-op, or `acc[dst] = 0` for a reset. Sums wrap."""

    reset: bool = False
    wgt_factors: tuple[int, int] = (0, 0)

    opcode: ClassVar[int] = 2

    def __str__(self) -> str:
        wgt = ",".join(map(str, self.wgt_factors))
        return f"gemm {self.loops_text()} wgt={wgt}{' reset' if self.reset else ''}{self.tokens_text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Instruction):
    """The end: the host may read the results when the compute module comes here."""

    opcode: ClassVar[int] = 3

    def __str__(self) -> str:
        return f"finish{self.tokens_text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(Loops):
    """`acc[dst] = op(acc[dst], acc[src])` for each micro-op, one after the other; or with `immediate` as second."""

    op: AluOp
    immediate: int | None = None

    opcode: ClassVar[int] = 4

    def __str__(self) -> str:
        second = "" if self.immediate is None else f" imm={self.immediate}"
        return f"alu.{self.op.name.lower()} {self.loops_text()}{second}{self.tokens_text()}"


def _transfer_text(t: Transfer) -> str:
    return f"{t.memory.word} sram={t.sram} dram={t.dram} y={t.y_size} x={t.x_size} stride={t.x_stride}"


ROLES = ("input", "output", "constant", "temporary")


@dataclass(frozen=True, slots=True)
class DramBuffer:
    """A piece of DRAM: `count` elements of the kind of a scratchpad, from byte `address` on.

    The host writes inputs and reads outputs. A constant is a list of micro-ops, which are a part of the program.
    """

    name: str
    role: str
    kind: Scratchpad
    address: int
    count: int
    uops: tuple[MicroOp, ...] = ()

    def __str__(self) -> str:
        return f".{self.role} {self.name} {self.kind.word} at {self.address} count {self.count}"


@dataclass(frozen=True, slots=True)
class Program:
    """Buffers in DRAM, and instructions in the order in which they are fetched."""

    buffers: tuple[DramBuffer, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    name: str = field(default="program", compare=False)

    def excerpt(self, spots: dict[int, str], around: int = 2) -> str:
        """The lines near some instructions, each spot underlined with its note."""
        near = sorted({i for at in spots for i in range(at - around, at + around + 1)})
        lines, before = [], None
        for i in near:
            if not 0 <= i < len(self.instructions):
                continue
            if before is not None and i > before + 1:
                lines.append("...")
            before, text = i, f"{i:>4}  {self.instructions[i]}"
            lines.append(text)
            if i in spots:
                lines.append(f"      {'^' * (len(text) - 6)} {spots[i]}".rstrip())
        return "\n".join(lines)
