"""The accelerator once more, as slow and plain as can be: one number after the other, in the program's order.

It shares nothing with the interpreter but the nodes. It knows no tokens: for a program whose tokens are right, the
order of the program is one of those that the machine may take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.machines.vta.config import AccelConfig, Scratchpad
from minitvm.machines.vta.isa import Alu, AluOp, Gemm, Load, Loops, MicroOp, Program, Store


def wrap(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


class ScalarMachine:
    """Scratchpads are dictionaries from (element, row, column) to a number."""

    def __init__(self, program: Program, config: AccelConfig, inputs: dict[str, Any]) -> None:
        self.program, self.config = program, config
        self.pads: dict[Scratchpad, dict[Any, Any]] = {pad: {} for pad in Scratchpad}
        self.dram: dict[tuple[Scratchpad, int], Any] = {}
        for b in program.buffers:
            first = b.address // config.element_bytes(b.kind)
            values = b.uops if b.role == "constant" else inputs.get(b.name, ())
            for number in range(len(values)):
                self.dram[b.kind, first + number] = values[number]

    def run(self) -> dict[str, np.ndarray[Any, Any]]:
        for one in self.program.instructions:
            if isinstance(one, Load):
                self.load(one)
            elif isinstance(one, Store):
                for y in range(one.y_size):
                    for x in range(one.x_size):
                        element = self.pads[Scratchpad.ACC][one.sram + y * one.x_size + x]
                        cut = [[wrap(v, self.bits(Scratchpad.OUT)) for v in row] for row in element]
                        self.dram[Scratchpad.OUT, one.dram + y * one.x_stride + x] = cut
            elif isinstance(one, Loops):
                for i in range(one.outer):
                    for j in range(one.inner):
                        for k in range(one.uop_begin, one.uop_end):
                            self.micro_op(one, self.pads[Scratchpad.UOP][k], i, j)
        return {b.name: self.output(b) for b in self.program.buffers if b.role == "output"}

    def output(self, b: Any) -> np.ndarray[Any, Any]:
        first, shape = b.address // self.config.element_bytes(b.kind), self.config.shape(b.kind)
        zeros = np.zeros(shape, dtype=int)
        found = [self.dram.get((b.kind, first + n), zeros) for n in range(b.count)]
        return np.array(found).reshape(b.count, *shape).astype(self.config.dtype(b.kind))

    def bits(self, pad: Scratchpad) -> int:
        return self.config.dtype(pad).itemsize * 8

    def load(self, one: Load) -> None:
        above, below, left, right = one.pads
        fill = -(1 << (self.bits(one.memory) - 1)) if one.pad_least else 0
        at = one.sram
        for y in range(-above, one.y_size + below):
            for x in range(-left, one.x_size + right):
                inside = 0 <= y < one.y_size and 0 <= x < one.x_size
                if inside:
                    value = self.dram[one.memory, one.dram + y * one.x_stride + x]
                    if not isinstance(value, MicroOp):
                        value = [[int(v) for v in row] for row in value]
                else:
                    rows, columns = self.config.shape(one.memory)
                    value = [[fill] * columns for _ in range(rows)]
                self.pads[one.memory.held][at] = value
                at += 1

    def micro_op(self, one: Loops, op: MicroOp, i: int, j: int) -> None:
        acc = self.pads[Scratchpad.ACC]
        dst = op.dst + i * one.dst_factors[0] + j * one.dst_factors[1]
        src = op.src + i * one.src_factors[0] + j * one.src_factors[1]
        rows, columns = self.config.shape(Scratchpad.ACC)
        if isinstance(one, Gemm):
            if one.reset:
                acc[dst] = [[0] * columns for _ in range(rows)]
                return
            x = self.pads[Scratchpad.INP][src]
            w = self.pads[Scratchpad.WGT][op.wgt + i * one.wgt_factors[0] + j * one.wgt_factors[1]]
            acc[dst] = [
                [
                    wrap(acc[dst][b][o] + sum(x[b][k] * w[o][k] for k in range(self.config.block_in)), 32)
                    for o in range(columns)
                ]
                for b in range(rows)
            ]
        elif isinstance(one, Alu):
            second = acc[src] if one.immediate is None else [[one.immediate] * columns] * rows
            acc[dst] = [
                [self.operation(one.op, a, b) for a, b in zip(*pair, strict=True)]
                for pair in zip(acc[dst], second, strict=True)
            ]

    def operation(self, op: AluOp, a: int, b: int) -> int:
        if op is AluOp.MIN:
            return min(a, b)
        if op is AluOp.MAX:
            return max(a, b)
        if op is AluOp.ADD:
            return wrap(a + b, 32)
        if op is AluOp.SHR:
            return a >> min(b, 31) if b >= 0 else wrap(a << min(-b, 32), 32)
        if op is AluOp.CLIP:
            return wrap(max(min(a, b), -b), 32)
        bits = self.config.options.multiply_bits
        return wrap(wrap(a, bits) * wrap(b, bits), 32)
