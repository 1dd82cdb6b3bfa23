"""Write kernels of machines with scratchpads as text: the walk over their instructions, and the addresses of operands.

A kernel is a sequence of instructions with constant places (`machines.scratchpad.transform`). A spelling writes each of
them as an instruction of the machine (`machines.scratchpad.instruction_set.InstructionSet`). It is a function of an
emitter, which derives from `ElementEmitter`, and a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import Unsupported, report
from ...tir import nodes as tir
from ...tir.analysis.scratchpads import Strided, extents_of, is_scratchpad, planned, strided
from ...tir.script.printer import script
from ...tir.tensor_intrin import TensorIntrin
from .transform.frames import Frame

Loops = list[tuple[int, tuple[int, ...]]]  # extent, and the step of each operand


def trace_of(kernel: tir.PrimFunc) -> Sequence[str]:
    """Return the steps of the schedule from which a kernel was lowered."""
    trace = kernel.attrs.get("schedule_trace", ())
    return trace.split("\n") if isinstance(trace, str) else [str(step) for step in trace]


@dataclass(frozen=True, slots=True)
class Rows:
    """A transfer in elements: `y` rows of `x` elements, `stride` apart in memory, starting at `first`; dense in the
    scratchpad.

    `pads` holds the numbers of rows above and below, and of columns left and right, that are zeros and not read.
    """

    first: int
    y: int
    x: int
    stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


class ElementEmitter:
    """Walks the instructions of a kernel. `config` has the attribute `name` and the methods `depths()` and
    `elements()`.

    A machine's emitter is a subclass that defines `dialect` and `address`.
    """

    dialect = ""

    def __init__(self, kernel: tir.PrimFunc, config: Any) -> None:
        self.kernel, self.config = kernel, config
        body: tir.Stmt = kernel.body
        while isinstance(body, tir.Allocate):
            body = body.body
        self.stmts: list[tir.Instruction] = []
        for stmt in body.stmts if isinstance(body, tir.Seq) else (body,):
            if not isinstance(stmt, tir.Instruction):
                raise self.refused(
                    stmt, "instructions of the accelerator alone", f"a statement {type(stmt).__name__}",
                    "strategy.schedule(func, target), which tensorizes what the machine can do",
                )  # fmt: skip
            self.stmts.append(stmt)
        self.first = planned(kernel.body, config.depths(), config.elements())

    def address(self, param: tir.Buffer) -> int:
        """Return the address at which a parameter begins in the machine's memory, counted in its elements."""
        raise NotImplementedError

    def spelled(self, stmt: tir.Instruction) -> None:
        """Write an instruction. Raises `Unsupported` if it has no spelling in this dialect."""
        intrin = TensorIntrin.get(stmt.name, allow_missing=True)
        spell = None if intrin is None else intrin.spelling(self.dialect)
        if spell is None:
            raise self.refused(stmt, f"an instruction with a spelling in {self.dialect}", stmt.name)
        spell(self, stmt)

    def place(self, stmt: tir.Instruction, tile: tir.Tile, shape: Sequence[int]) -> Strided:
        """Return the addresses of a tile of elements of this shape: in its scratchpad, or in memory."""
        lies = strided(stmt, tile, shape)
        first = self.first[tile.buffer] if is_scratchpad(tile.buffer.scope) else self.address(tile.buffer)
        return replace(lies, first=lies.first + first)

    def rows(self, stmt: tir.Instruction, dram: Strided, sram: Strided, frame: Frame | None) -> Rows:
        """Return a transfer as rows: two loops, whose iterations are dense in the scratchpad."""
        loops: Loops = [
            (n, (d, s)) for n, d, s in zip(extents_of(stmt), dram.strides, sram.strides, strict=True) if n > 1 or frame
        ]
        loops = loops if frame else joined(loops)
        *outer, (y, (down, sram_down)), (x, (across, sram_across)) = [(1, (0, 1)), (1, (1, 1)), *loops]
        if [n for n, _ in outer if n > 1] or (x > 1 and (across, sram_across) != (1, 1)) or (y > 1 and sram_down != x):
            if len(loops) == 1 and sram_across == 1:  # one column
                (y, (down, _)), (x, _) = loops[0], (1, (1, 1))
            else:
                raise self.refused(
                    stmt, "rows of elements one behind the other, and a dense scratchpad", f"loops {loops}"
                )
        pads = frame.pads if frame else (0, 0, 0, 0)
        above, below, left, right = pads
        rows, columns = y - above - below, x - left - right
        first = dram.first + above * down + left * across if rows and columns else 0  # nothing is read from anywhere
        return Rows(first, rows, columns, max(down, 1), pads)

    def refused(self, stmt: tir.Stmt, wanted: str, found: str, *tries: str) -> Unsupported:
        """Return the error for a statement, with the program around it."""
        program = script(self.kernel, mark={stmt: "here"}, context=2)
        title = f"{self.kernel.name}: no program of {self.config.name}"
        return Unsupported(report(title, program=program, wanted=wanted, found=found, tries=tries))


def joined(loops: Loops) -> Loops:
    """Join loops if each step of the outer loop continues where the inner loop ends."""
    merged: Loops = []
    for n, steps in reversed(loops):
        if merged:
            inner, inner_steps = merged[-1]
            if all(s == i * inner for s, i in zip(steps, inner_steps, strict=True)):
                merged[-1] = (n * inner, inner_steps)
                continue
        merged.append((n, steps))
    return merged[::-1]
