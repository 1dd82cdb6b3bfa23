"""Kernels of the tensor accelerator as text of its instruction set: micro-ops, loops, addresses, tokens.

A kernel is a sequence of instructions with constant places (`tir.transform.accelerator`). Each becomes one of the
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

from ..accel.assembler import assemble
from ..accel.config import AccelConfig, Scratchpad
from ..accel.disassembler import disassemble, instruction_text
from ..accel.encoding import encode
from ..accel.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MicroOp, Module, Program, Store
from ..accel.stream import Kernel, Stream
from ..errors import Unsupported, report
from ..expr import IntImm
from ..tir import nodes as t
from ..tir.analysis.scratchpads import (
    Strided,
    extents_of,
    is_scratchpad,
    planned,
    scalars_of,
    strided,
)
from ..tir.script.printer import script
from ..tir.tensor_intrin import TensorIntrin
from ..tir.tensor_intrin.accelerator import DIALECT, FINISH, operation_of, token_of
from ..tir.transform.accelerator.frames import Frame, frame_of

Loops = list[tuple[int, tuple[int, ...]]]  # extent, and the step of each operand


def generate(kernel: t.PrimFunc, target: Any) -> str:
    """The assembly of a kernel; raises `Unsupported` for what is no program of the machine."""
    config: AccelConfig = target.config
    steps = [str(step) for step in _trace(kernel)]
    lines = [f"; kernel {kernel.name}", *(f";   {step}" for step in steps)]
    return "\n".join(lines) + "\n" + disassemble(program_of(kernel, config), config)


def _trace(kernel: t.PrimFunc) -> Sequence[Any]:
    trace = kernel.attrs.get("schedule_trace", ())
    return trace.split("\n") if isinstance(trace, str) else list(trace)


def program_of(kernel: t.PrimFunc, config: AccelConfig) -> Program:
    """The program of a kernel."""
    return AccelEmitter(kernel, config).program()


class AccelEmitter:
    """Walks the instructions of a kernel and writes the machine's."""

    dialect = DIALECT

    def __init__(self, kernel: t.PrimFunc, config: AccelConfig) -> None:
        self.kernel, self.config = kernel, config
        self.stream = Stream(config, kernel.name)
        body: t.Stmt = kernel.body
        while isinstance(body, t.Allocate):
            body = body.body
        self.stmts: list[t.Instruction] = []
        for stmt in body.stmts if isinstance(body, t.Seq) else (body,):
            if not isinstance(stmt, t.Instruction):
                raise self.refused(
                    stmt, "instructions of the accelerator alone", f"a statement {type(stmt).__name__}",
                    "strategy.schedule(func, target), which tensorizes what the machine can do",
                )  # fmt: skip
            self.stmts.append(stmt)
        self.first = planned(kernel.body, config.depths(), config.elements())
        self.buffers = {p: self._in_dram(p) for p in kernel.params if isinstance(p, t.Buffer)}
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

    def spelled(self, stmt: t.Instruction) -> None:
        intrin = TensorIntrin.get(stmt.name, allow_missing=True)
        spell = None if intrin is None else intrin.spelling(self.dialect)
        if spell is None:
            raise self.refused(stmt, f"an instruction with a spelling in {self.dialect}", stmt.name)
        spell(self, stmt)

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

    def _in_dram(self, param: t.Buffer) -> Any:
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

    def place(self, stmt: t.Instruction, tile: t.Tile, pad: Scratchpad) -> Strided:
        """Where a tile lies: in its scratchpad, or in its buffer in DRAM, counted in elements from address 0."""
        found = strided(stmt, tile, self.config.shape(pad))
        if is_scratchpad(tile.buffer.scope):
            return replace(found, first=found.first + self.first[tile.buffer])
        buffer = self.buffers[tile.buffer]
        return replace(found, first=found.first + buffer.address // self.config.element_bytes(pad))

    def looped(self, extents: Sequence[int], operands: Sequence[Strided]) -> tuple[Kernel, Loops]:
        """Micro-ops and the two loops of the machine: those that together run longest, of whose steps fields hold."""
        loops = _joined([(n, tuple(s.strides[k] for s in operands)) for k, n in enumerate(extents) if n > 1])
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

    def refused(self, stmt: t.Stmt, wanted: str, found: str, *tries: str) -> Unsupported:
        """The error for a statement, with the program around it."""
        program = script(self.kernel, mark={stmt: "here"}, context=2)
        title = f"{self.kernel.name}: no program of {self.config.name}"
        return Unsupported(report(title, program=program, wanted=wanted, found=found, tries=tries))


def _joined(loops: Loops) -> Loops:
    """Loops of which the inner one runs on where the outer one's step ends are one."""
    joined: Loops = []
    for n, steps in reversed(loops):
        if joined:
            inner, inner_steps = joined[-1]
            if all(s == i * inner for s, i in zip(steps, inner_steps, strict=True)):
                joined[-1] = (n * inner, inner_steps)
                continue
        joined.append((n, steps))
    return joined[::-1]


def load(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Rows of DRAM into a scratchpad, with a frame where the elements of it are not there."""
    pad = Scratchpad[(operation_of(stmt.name) or "").split("_")[1].upper()]
    source, into = (emitter.place(stmt, tile, pad) for tile in stmt.tiles)
    frame = frame_of(stmt)
    rows, dense = _rows(emitter, stmt, source, into, frame)
    least = (operation_of(stmt.name) or "").endswith("least") and any(dense)
    emitter.add(Load(memory=pad, sram=into.first, **rows, pads=dense, pad_least=least))


def store(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Registers to rows of DRAM."""
    registers, into = stmt.tiles
    source = emitter.place(stmt, registers, Scratchpad.ACC)
    rows, _ = _rows(emitter, stmt, emitter.place(stmt, into, Scratchpad.OUT), source, None)
    emitter.add(Store(sram=source.first, **rows))


def _rows(
    emitter: AccelEmitter, stmt: t.Instruction, dram: Strided, sram: Strided, frame: Frame | None
) -> tuple[dict[str, Any], tuple[int, int, int, int]]:
    """(the fields of a transfer, its frame): two loops, of which the scratchpad takes all iterations densely."""
    loops: Loops = [
        (n, (d, s)) for n, d, s in zip(extents_of(stmt), dram.strides, sram.strides, strict=True) if n > 1 or frame
    ]
    loops = loops if frame else _joined(loops)
    *outer, (y, (down, sram_down)), (x, (across, sram_across)) = [(1, (0, 1)), (1, (1, 1)), *loops]
    if [n for n, _ in outer if n > 1] or (x > 1 and (across, sram_across) != (1, 1)) or (y > 1 and sram_down != x):
        if len(loops) == 1 and sram_across == 1:  # one column
            (y, (down, _)), (x, _) = loops[0], (1, (1, 1))
        else:
            raise emitter.refused(
                stmt, "rows of elements one behind the other, and a dense scratchpad", f"loops {loops}"
            )
    above, below, left, right = frame.pads if frame else (0, 0, 0, 0)
    first = dram.first + above * down + left * across
    fields: dict[str, Any] = {
        "dram": first,
        "y_size": y - above - below,
        "x_size": x - left - right,
        "x_stride": max(down, 1),
    }
    if fields["y_size"] == 1:
        fields["x_stride"] = max(fields["x_size"], 1)
    return fields, (above, below, left, right)


def reset(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Registers = 0."""
    where = emitter.place(stmt, stmt.tiles[0], Scratchpad.ACC)
    kernel, loops = emitter.looped(extents_of(stmt), [where])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst",)), reset=True))


def gemm(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Products of the array."""
    pads = (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)
    inp, wgt, acc = (emitter.place(stmt, tile, pad) for tile, pad in zip(stmt.tiles, pads, strict=True))
    kernel, loops = emitter.looped(extents_of(stmt), [acc, inp, wgt])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst", "src", "wgt"))))


def alu(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """An operation on registers, in place."""
    _, name, *immediate = (operation_of(stmt.name) or "").split("_")
    *others, into = (emitter.place(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
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


def _constant(emitter: AccelEmitter, stmt: t.Instruction, value: Any) -> int:
    """A number that fits the field of constants."""
    bits = emitter.config.widths.immediate
    if not isinstance(value, IntImm) or not -(1 << bits - 1) <= value.value < 1 << bits - 1:
        raise emitter.refused(stmt, f"a constant of {bits} bits", str(value))
    return value.value


def fill(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Registers = a constant."""
    (value,) = scalars_of(stmt)
    constant, where = _constant(emitter, stmt, value), emitter.place(stmt, stmt.tiles[0], Scratchpad.ACC)
    kernel, loops = emitter.looped(extents_of(stmt), [where])
    fields = _fields(kernel, loops, ("dst",))
    emitter.add(Gemm(**fields, reset=True))
    emitter.add(Alu(op=AluOp.ADD, immediate=constant, **fields))


def accumulate(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Registers = an operation of themselves and of other ones."""
    source, into = (emitter.place(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
    kernel, loops = emitter.looped(extents_of(stmt), [into, source])
    name = (operation_of(stmt.name) or "").split("_")[1]
    emitter.add(Alu(op=AluOp[name.upper()], **_fields(kernel, loops, ("dst", "src"))))


def copy(emitter: AccelEmitter, stmt: t.Instruction) -> None:
    """Registers = other ones."""
    source, into = (emitter.place(stmt, tile, Scratchpad.ACC) for tile in stmt.tiles)
    kernel, loops = emitter.looped(extents_of(stmt), [into, source])
    emitter.add(Gemm(**_fields(kernel, loops, ("dst",)), reset=True))
    emitter.add(Alu(op=AluOp.ADD, **_fields(kernel, loops, ("dst", "src"))))


def _fields(kernel: Kernel, loops: Loops, operands: Sequence[str]) -> dict[str, Any]:
    (outer, outer_steps), (inner, inner_steps) = loops
    factors = {f"{name}_factors": (outer_steps[k], inner_steps[k]) for k, name in enumerate(operands)}
    return {"uop_begin": kernel[0], "uop_end": kernel[1], "outer": outer, "inner": inner, **factors}


def assembly(source: str, entry: str, target: Any) -> str:
    """What the machine runs: the instructions in their 128 bits, hexadecimal, beside their text."""
    config: AccelConfig = target.config
    program = assemble(source, config, entry)
    rows = [
        f"{encode(one, config):032x}  {instruction_text(one, program.buffers, config)}" for one in program.instructions
    ]
    return "\n".join(rows) + "\n"
