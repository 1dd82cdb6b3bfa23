"""Kernels as text of the machine's instructions.

- A product becomes PRELOADs, one for each element of weights, and behind each the COMPUTEs of all rows that it is for.
- RESET is no instruction of the machine. Rows that are to be zero are remembered: the first COMPUTE that covers them
  overwrites, and where something else comes first, rows of zeros are moved in.
- Images begin at the scratchpad's first row, weights end at its last one.
- At the end, instructions are put into the order in which the units could begin them (`timing.by_start`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...errors import InputError, Unsupported, report
from ...expr import IntImm
from ...target import Target
from ...tir import nodes as tir
from ...tir.analysis.scratchpads import Strided, allocations, extents_of, scalars_of
from ..scratchpad.emitter import ElementEmitter, Loops, Rows, joined, trace_of
from ..scratchpad.instruction_set import FINISH, operation_of
from ..scratchpad.transform.frames import frame_of
from . import isa
from .config import Gemmini
from .instructions import SET
from .timing import by_start


def generate(kernel: tir.PrimFunc, target: Target) -> str:
    """The part "generate" of the back end; raises `Unsupported` for what is no program of the machine."""
    lines = [f"; kernel {kernel.name}", *(f";   {step}" for step in trace_of(kernel))]
    return "\n".join(lines) + "\n" + str(program_of(kernel, target.config))


def program_of(kernel: tir.PrimFunc, config: Gemmini) -> isa.Program:
    """The program of a kernel."""
    return by_start(GemminiEmitter(kernel, config).program(), config)


class GemminiEmitter(ElementEmitter):
    """Writes the machine's instructions."""

    dialect = SET.dialect
    config: Gemmini

    def __init__(self, kernel: tir.PrimFunc, config: Gemmini) -> None:
        super().__init__(kernel, config)
        self.instructions: list[isa.Instruction] = []
        self.set: dict[type, isa.Instruction] = {}  # the last CONFIG of each kind
        self.zero = np.zeros(config.accumulator_rows, bool)  # rows that are to be zero, and are not yet
        self.weights_from = config.scratchpad_rows - config.side * self.held("wgt")
        if self.held("inp") > self.weights_from:
            raise InputError(
                report(
                    f"{kernel.name}: the scratchpad is too small",
                    wanted=f"at most {config.scratchpad_rows} rows of images and weights",
                    found=f"{self.held('inp')} rows of images, {self.held('wgt')} times {config.side} of weights",
                    tries=("smaller tiles", "one context instead of two"),
                )
            )

    def held(self, scope: str) -> int:
        """How many elements of a scope the kernel keeps."""
        size = int(np.prod(self.config.elements()[scope]))
        lengths = [a.buffer.shape[0] for a in allocations(self.kernel.body) if a.buffer.scope == scope]
        return sum(-(-length.value // size) for length in lengths if isinstance(length, IntImm))

    def address(self, param: tir.Buffer) -> int:  # noqa: ARG002 (places count from the beginning of each buffer)
        return 0

    def program(self) -> isa.Program:
        """The program, in the order of the kernel."""
        for stmt in self.stmts:
            if stmt.name != FINISH:
                self.spelled(stmt)
        stored = {stmt.tiles[-1].buffer for stmt in self.stmts if operation_of(stmt.name) == "store"}
        buffers = []
        for param in self.kernel.params:
            if not isinstance(param, tir.Buffer) or not isinstance(length := param.shape[0], IntImm):
                raise Unsupported(f"{self.kernel.name}: {param} is no buffer of a constant size")
            role = "output" if param in stored else "input"
            buffers.append(isa.ProgramBuffer(param.name, role, length.value * param.dtype.bytes))
        return isa.Program(tuple(buffers), (*self.instructions, isa.Fence()), self.kernel.name)

    def add(self, *instructions: isa.Instruction) -> None:
        """Instructions; a CONFIG that changes nothing is left out."""
        for one in instructions:
            if isinstance(one, isa.ConfigEx | isa.ConfigLd | isa.ConfigSt):
                if self.set.get(type(one)) == one:
                    continue
                self.set[type(one)] = one
            self.instructions.append(one)

    def lies(self, stmt: tir.Instruction, tile: tir.Tile, scope: str) -> Strided:
        """Where a tile lies, in elements of a scope."""
        return self.place(stmt, tile, self.config.elements()[scope])

    def zeros(self, rows: np.ndarray[Any, Any]) -> None:
        """Move zeros into those of some rows of the accumulator that are to be zero."""
        for row in rows[self.zero[rows]]:
            self.add(isa.Mvin(isa.ZERO, acc=int(row)))
        self.zero[rows] = False


def loops_of(stmt: tir.Instruction, *operands: Strided) -> Loops:
    """The loops of an instruction, with the step of each operand; loops that are one for all of them are joined."""
    extents = extents_of(stmt)
    return joined([(n, tuple(s.strides[k] for s in operands)) for k, n in enumerate(extents) if n > 1])


def points(loops: Loops, operands: int) -> Iterator[tuple[int, ...]]:
    """How far each operand is from its first place, for each iteration."""
    for at in product(*(range(n) for n, _ in loops)):
        yield tuple(sum(i * steps[k] for i, (_, steps) in zip(at, loops, strict=True)) for k in range(operands))


def load(emitter: GemminiEmitter, stmt: tir.Instruction) -> None:
    """Elements of memory into the scratchpad, with zeros around them."""
    side = emitter.config.side
    scope = "wgt" if operation_of(stmt.name) == "load_wgt" else "inp"
    source, into = (emitter.lies(stmt, tile, scope) for tile in stmt.tiles)
    rows = emitter.rows(stmt, source, into, frame_of(stmt))
    each = side if scope == "wgt" else 1  # rows of an element
    first = into.first * each + (emitter.weights_from if scope == "wgt" else 0)
    above, _, left, right = rows.pads
    width = left + rows.x + right
    name = stmt.tiles[0].buffer.name
    inside = first + (above * width + left) * each
    if rows.x and rows.y:
        step = (rows.stride * each * side, width * each) if rows.y > 1 else (0, 0)
        place = isa.BufferPlace(name, rows.first * each * side)
        emitter.add(isa.ConfigLd(side), isa.Mvin(place, sp=inside, rows=rows.x * each, lines=rows.y, step=step))
    for at, count, lines in _frame(rows, width):
        step = (0, width) if lines > 1 else (0, 0)
        emitter.add(isa.Mvin(isa.ZERO, sp=first + at, rows=count, lines=lines, step=step))


def _frame(rows: Rows, width: int) -> Iterator[tuple[int, int, int]]:
    """(first row, how many, lines) of the zeros around a transfer."""
    above, below, left, right = rows.pads
    if above:
        yield 0, above * width, 1
    if below:
        yield (above + rows.y) * width, below * width, 1
    if left and rows.y:
        yield above * width, left, rows.y
    if right and rows.y:
        yield above * width + left + rows.x, right, rows.y


def reset(emitter: GemminiEmitter, stmt: tir.Instruction) -> None:
    """Sums are to be zero."""
    where = emitter.lies(stmt, stmt.tiles[0], "acc")
    emitter.zero[where.indices(extents_of(stmt)).reshape(-1)] = True


def gemm(emitter: GemminiEmitter, stmt: tir.Instruction) -> None:
    """Products: for each element of weights, all rows that are multiplied by it."""
    image, weights, sums = (
        emitter.lies(stmt, tile, scope) for tile, scope in zip(stmt.tiles, ("inp", "wgt", "acc"), strict=True)
    )
    extents = extents_of(stmt)
    mine = [(n, tuple(s.strides[k] for s in (image, weights, sums))) for k, n in enumerate(extents) if n > 1]
    rows = joined([(n, (a, c)) for n, (a, b, c) in mine if not b])
    outside = [loop for loop in mine if loop[1][1]]
    inner: tuple[int, tuple[int, int]] = (1, (1, 1))
    if rows and rows[-1][1][1] == 1 and rows[-1][1][0] >= 1:
        inner = rows.pop()  # type: ignore[assignment]
    lines: tuple[int, tuple[int, ...]] = rows.pop() if rows else (1, (0, 0))
    count, (apart, _) = inner
    emitter.add(isa.ConfigEx(apart))
    for moved, at, into in points(outside, 3):
        emitter.add(isa.Preload(emitter.weights_from + (weights.first + at) * emitter.config.side))
        for more, further in points(rows, 2):
            one = isa.Compute(image.first + moved + more, sums.first + into + further, count, *_lines(lines))
            written = (one.acc + np.arange(one.lines)[:, None] * one.step[1] + np.arange(count)).reshape(-1)
            fresh = bool(emitter.zero[written].all()) and len(np.unique(written)) == len(written)
            if not fresh:
                emitter.zeros(written)
            emitter.zero[written] = False
            emitter.add(isa.Compute(one.sp, one.acc, one.rows, one.lines, one.step, not fresh))


def _lines(loop: tuple[int, tuple[int, ...]]) -> tuple[int, tuple[int, int]]:
    count, (a, b) = loop
    return count, (a, b) if count > 1 else (0, 0)


def alu(emitter: GemminiEmitter, stmt: tir.Instruction) -> None:
    """Sums += rows of memory, in place."""
    source, other, into = (emitter.lies(stmt, tile, "acc") for tile in stmt.tiles)
    if source != into:
        raise emitter.refused(
            stmt, "a result where the first operand lay", f"{source.buffer.name} and {into.buffer.name}"
        )
    row = 4 * emitter.config.side
    loops = loops_of(stmt, other, into)
    inner: tuple[int, tuple[int, ...]] = loops.pop() if loops and loops[-1][1][1] == 1 else (1, (0, 1))
    emitter.add(isa.ConfigLd(inner[1][0] * row))
    for moved, at in points(loops, 2):
        first = into.first + at
        emitter.zeros(np.arange(first, first + inner[0]))
        place = isa.BufferPlace(stmt.tiles[1].buffer.name, (other.first + moved) * row)
        emitter.add(isa.Mvin(place, acc=first, rows=inner[0], add=True))


def store(emitter: GemminiEmitter, stmt: tir.Instruction) -> None:
    """Sums, shifted and cut, to memory."""
    shift, least = scalars_of(stmt)
    if not isinstance(shift, IntImm) or not 0 <= shift.value < 32 or not isinstance(least, IntImm):
        raise emitter.refused(stmt, "a constant shift of 0 to 31, and a constant limit", f"{shift} and {least}")
    registers, into = stmt.tiles
    source, to = emitter.lies(stmt, registers, "acc"), emitter.lies(stmt, into, "acc")
    emitter.zeros(source.indices(extents_of(stmt)).reshape(-1))
    rows = emitter.rows(stmt, to, source, None)
    side = emitter.config.side
    step = (rows.stride * side, rows.x) if rows.y > 1 else (0, 0)
    emitter.add(isa.ConfigSt(shift.value, least.value))
    emitter.add(isa.Mvout(isa.BufferPlace(into.buffer.name, rows.first * side), source.first, rows.x, rows.y, step))
