"""Kernels of the tensor accelerator as text of its instruction set: micro-ops, loops, addresses, tokens.

A kernel is a sequence of instructions with constant places (`machines.scratchpad.transform`). Each becomes one of the
machine's:

- Of the loops of a product or an ALU operation two become the machine's; the others are written out as micro-ops, of
  which equal lists are kept once. All are loaded at the beginning.
- A copy of registers, and a constant in registers, are two: a reset and an addition.
- A transfer becomes rows; where a condition leaves a frame, the frame is the instruction's.
- A push is a bit of the instruction of its module before it, a pop of the one behind it.

Parameters of the kernel are buffers in DRAM, in their order, each at a multiple of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import Any

from ...errors import Unsupported
from ...expr import IntImm
from ...target import Target
from ...tir import nodes as tir
from ...tir.analysis.scratchpads import Strided, extents_of, scalars_of
from ..scratchpad.emitter import ElementEmitter, Loops, Rows, joined, trace_of
from ..scratchpad.instruction_set import DIALECT, FINISH, operation_of, token_of
from ..scratchpad.transform.frames import frame_of
from .assembler import assemble
from .config import AccelConfig, Scratchpad
from .disassembler import disassemble, instruction_text
from .encoding import encode
from .isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MicroOp, Module, Program, Store
from .stream import Kernel, Stream


def generate(kernel: tir.PrimFunc, target: Target) -> str:
    """The assembly of a kernel; raises `Unsupported` for what is no program of the machine."""
    config: AccelConfig = target.config
    lines = [f"; kernel {kernel.name}", *(f";   {step}" for step in trace_of(kernel))]
    return "\n".join(lines) + "\n" + disassemble(program_of(kernel, config), config)


def program_of(kernel: tir.PrimFunc, config: AccelConfig) -> Program:
    """The program of a kernel."""
    return AccelEmitter(kernel, config).program()


class AccelEmitter(ElementEmitter):
    """Writes the machine's instructions."""

    dialect = DIALECT
    config: AccelConfig

    def __init__(self, kernel: tir.PrimFunc, config: AccelConfig) -> None:
        super().__init__(kernel, config)
        self.stream = Stream(config, kernel.name)
        self.buffers = {p: self._in_dram(p) for p in kernel.params if isinstance(p, tir.Buffer)}
        self.popped: dict[Module, dict[str, bool]] = {module: {} for module in Module}  # for its next instruction
        self.last: dict[Module, int] = {}

    def program(self) -> Program:
        """The program; raises `Unsupported` and `InputError`."""
        for stmt in self.stmts:
            token = token_of(stmt.name)
            if token is not None:
                self.token(*token)
            elif stmt.name == FINISH:
                self.add(Finish())
            else:
                self.spelled(stmt)
        return self.stream.finished()

    # --- tokens -----------------------------------------------------------------------------------------------------

    def token(self, verb: str, source: str, target: str) -> None:
        """A push goes to the last instruction of `source`, a pop to the next one of `target`."""
        here, there = (Module(source), Module(target)) if verb == "push" else (Module(target), Module(source))
        side = "prev" if here.prev is there else "next"
        if verb == "pop":
            self.popped[here][f"pop_{side}"] = True
            return
        at = self.last[here]
        change: dict[str, Any] = {f"push_{side}": True}
        self.stream.instructions[at] = replace(self.stream.instructions[at], **change)

    def add(self, instruction: Instruction) -> None:
        """One more instruction, with the pops that wait for it."""
        module = instruction.module
        pops: dict[str, Any] = self.popped[module]
        self.stream.instructions.append(replace(instruction, **pops))
        self.popped[module] = {}
        self.last[module] = len(self.stream.instructions) - 1

    # --- operands ---------------------------------------------------------------------------------------------------

    def _in_dram(self, param: tir.Buffer) -> Any:
        """The buffer of a parameter: which kind of elements it holds follows from who touches it."""
        kinds: set[Scratchpad] = set()
        for stmt in self.stmts:
            if any(tile.buffer is param for tile in stmt.tiles):
                operation = operation_of(stmt.name) or ""
                kinds.add(Scratchpad.OUT if operation == "store" else Scratchpad[operation.split("_")[1].upper()])
        if len(kinds) != 1:
            found = " and ".join(sorted(kind.word for kind in kinds)) or "none"
            raise Unsupported(f"{self.kernel.name}: {param.name} is one kind of tensor, found elements of {found}")
        (kind,) = kinds
        (length,) = param.shape
        size = prod(self.config.shape(kind))
        if not isinstance(length, IntImm) or length.value % size or param.dtype != self.config.dtype(kind).name:
            shape = "x".join(map(str, self.config.shape(kind)))
            raise Unsupported(
                f"{self.kernel.name}: {param.name} is {param.dtype} of {length} numbers; wanted a constant number of "
                f"elements of {shape} {self.config.dtype(kind).name}"
            )
        role = "output" if kind is Scratchpad.OUT else "input"
        return self.stream.buffer(param.name, role, kind, length.value // size)

    def address(self, param: tir.Buffer) -> int:
        buffer = self.buffers[param]
        return int(buffer.address) // self.config.element_bytes(buffer.kind)

    def lies(self, stmt: tir.Instruction, tile: tir.Tile, pad: Scratchpad) -> Strided:
        """Where a tile of elements of a scratchpad's kind lies."""
        return self.place(stmt, tile, self.config.shape(pad))

    def looped(self, extents: Sequence[int], operands: Sequence[Strided]) -> tuple[Kernel, Loops]:
        """Micro-ops and the two loops of the machine: those that together run longest, of whose steps fields hold."""
        loops = joined([(n, tuple(s.strides[k] for s in operands)) for k, n in enumerate(extents) if n > 1])
        widths = self.config.widths
        most = [(1 << bits) - 1 for bits in (widths.acc, max(widths.inp, widths.acc), widths.wgt)]
        fitting = [k for k, (n, steps) in enumerate(loops)
                   if n < 1 << widths.loop and all(0 <= s <= m for s, m in zip(steps, most, strict=False))]  # fmt: skip
        pairs = [pair for count in (2, 1, 0) for pair in combinations(fitting, count)]
        chosen = max(pairs, key=lambda pair: prod(loops[k][0] for k in pair))
        rest = [loop for k, loop in enumerate(loops) if k not in chosen]
        ops = []
        for point in product(*(range(n) for n, _ in rest)):
            at = [s.first + sum(i * steps[o] for i, (_, steps) in zip(point, rest, strict=True))
                  for o, s in enumerate(operands)]  # fmt: skip
            ops.append(MicroOp(*at, *(0,) * (3 - len(at))))
        none: tuple[int, tuple[int, ...]] = (1, (0,) * len(operands))
        return self.stream.micro_ops(ops), ([none, none] + [loops[k] for k in chosen])[-2:]


def load(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Rows of DRAM into a scratchpad, with a frame where the elements of it are not there."""
    pad = Scratchpad[(operation_of(stmt.name) or "").split("_")[1].upper()]
    source, into = (emitter.lies(stmt, tile, pad) for tile in stmt.tiles)
    rows = emitter.rows(stmt, source, into, frame_of(stmt))
    least = (operation_of(stmt.name) or "").endswith("least") and any(rows.pads)
    emitter.add(Load(memory=pad, sram=into.first, **_transfer(rows), pads=rows.pads, pad_least=least))


def store(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Registers to rows of DRAM."""
    registers, into = stmt.tiles
    source = emitter.lies(stmt, registers, Scratchpad.ACC)
    rows = emitter.rows(stmt, emitter.lies(stmt, into, Scratchpad.OUT), source, None)
    emitter.add(Store(sram=source.first, **_transfer(rows)))


def _transfer(rows: Rows) -> dict[str, Any]:
    stride = max(rows.x, 1) if rows.y == 1 else rows.stride
    return {"dram": rows.first, "y_size": rows.y, "x_size": rows.x, "x_stride": stride}


def reset(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Registers = 0."""
    where = emitter.lies(stmt, stmt.tiles[0], Scratchpad.ACC)
    kernel, loops = emitter.looped(extents_of(stmt), [where])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst",)), reset=True))


def gemm(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Products of the array."""
    pads = (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)
    inp, wgt, acc = (emitter.lies(stmt, tile, pad) for tile, pad in zip(stmt.tiles, pads, strict=True))
    kernel, loops = emitter.looped(extents_of(stmt), [acc, inp, wgt])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst", "src", "wgt"))))


def alu(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """An operation on registers, in place."""
    _, name, *immediate = (operation_of(stmt.name) or "").split("_")
    *others, into = (emitter.lies(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
    if replace(others[0], buffer=into.buffer) != into:
        tiles = stmt.tiles
        raise emitter.refused(
            stmt, "a result in the registers of the first operand", f"{tiles[0].buffer.name} and {into.buffer.name}"
        )
    constant = None
    if immediate:
        constant, *limits = (_constant(emitter, stmt, value) for value in scalars_of(stmt))
        if limits and limits != [-constant]:
            wanted = f"limits of one size, {-constant} and {constant}"
            raise emitter.refused(stmt, wanted, f"{limits[0]} and {constant}")
        if name == "shl":
            name, constant = "shr", -constant
    operands = [into, into if immediate else others[1]]
    kernel, loops = emitter.looped(extents_of(stmt), operands)
    fields = _fields(kernel, loops, ("dst",) if immediate else ("dst", "src"))
    emitter.add(Alu(op=AluOp[name.upper()], immediate=constant, **fields))


def _constant(emitter: AccelEmitter, stmt: tir.Instruction, value: Any) -> int:
    """A number that fits the field of constants."""
    bits = emitter.config.widths.immediate
    if not isinstance(value, IntImm) or not -(1 << bits - 1) <= value.value < 1 << bits - 1:
        raise emitter.refused(stmt, f"a constant of {bits} bits", str(value))
    return value.value


def fill(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Registers = a constant."""
    (value,) = scalars_of(stmt)
    constant, where = _constant(emitter, stmt, value), emitter.lies(stmt, stmt.tiles[0], Scratchpad.ACC)
    kernel, loops = emitter.looped(extents_of(stmt), [where])
    fields = _fields(kernel, loops, ("dst",))
    emitter.add(Gemm(**fields, reset=True))
    emitter.add(Alu(op=AluOp.ADD, immediate=constant, **fields))


def accumulate(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Registers = an operation of themselves and of other ones."""
    source, into = (emitter.lies(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
    kernel, loops = emitter.looped(extents_of(stmt), [into, source])
    name = (operation_of(stmt.name) or "").split("_")[1]
    emitter.add(Alu(op=AluOp[name.upper()], **_fields(kernel, loops, ("dst", "src"))))


def copy(emitter: AccelEmitter, stmt: tir.Instruction) -> None:
    """Registers = other ones."""
    source, into = (emitter.lies(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
    kernel, loops = emitter.looped(extents_of(stmt), [into, source])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst",)), reset=True))
    emitter.add(Alu(op=AluOp.ADD, **_fields(kernel, loops, ("dst", "src"))))


def _fields(kernel: Kernel, loops: Loops, operands: Sequence[str]) -> dict[str, Any]:
    (outer, outer_steps), (inner, inner_steps) = loops
    factors = {f"{name}_factors": (outer_steps[k], inner_steps[k]) for k, name in enumerate(operands)}
    return {"uop_begin": kernel[0], "uop_end": kernel[1], "outer": outer, "inner": inner, **factors}


def assembly(source: str, entry: str, target: Target) -> str:
    """What the machine runs: the instructions in their 128 bits, hexadecimal, beside their text."""
    config: AccelConfig = target.config
    program = assemble(source, config, entry)
    rows = [
        f"{encode(one, config):032x}  {instruction_text(one, program.buffers, config)}" for one in program.instructions
    ]
    return "\n".join(rows) + "\n"
