"""Which elements an instruction reads and writes, found without running it.

Micro-ops are constants of the program, and the compute module runs its instructions in their order, so what lies in the
memory of micro-ops is known at every instruction. Elements of DRAM are counted in grains: the largest number of bytes
that divides every element and every buffer's address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from .config import AccelConfig, Scratchpad
from .isa import Alu, Gemm, Instruction, Load, Loops, Program, Store, Transfer

Indices = np.ndarray[Any, np.dtype[np.int64]]
DRAM = "dram"


@dataclass(frozen=True, slots=True)
class InstructionTouch:
    """Elements of one memory that an instruction reads or writes; DRAM is counted in grains."""

    memory: Scratchpad | str
    writes: bool
    indices: Indices

    @property
    def name(self) -> str:
        return self.memory if isinstance(self.memory, str) else self.memory.word


@dataclass(frozen=True, slots=True)
class Triples:
    """The indices of all micro-ops that an instruction runs, in order; wgt only for GEMM."""

    dst: Indices
    src: Indices
    wgt: Indices


def grain(program: Program, config: AccelConfig) -> int:
    """The bytes in which DRAM is counted."""
    return gcd(*(config.element_bytes(pad) for pad in Scratchpad), *(b.address for b in program.buffers))


def span(first: int, shape: Sequence[int], steps: Sequence[int]) -> Indices:
    """first + i * steps[0] + j * steps[1] + ..., in row-major order."""
    indices = np.array([first], dtype=np.int64)
    for size, step in zip(shape, steps, strict=True):
        indices = (indices[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
    return indices


def in_dram(transfer: Transfer, config: AccelConfig, grain_bytes: int) -> Indices:
    """The grains of DRAM that a transfer reads or writes."""
    each = config.element_bytes(transfer.memory) // grain_bytes
    shape = (transfer.y_size, transfer.x_size * each)
    return span(transfer.dram * each, shape, (transfer.x_stride * each, 1))


def in_scratchpad(transfer: Transfer) -> Indices:
    """The elements of the scratchpad, the frame of a load included; none for a transfer that only passes tokens."""
    rows, columns = transfer.written_shape if isinstance(transfer, Load) else (transfer.y_size, transfer.x_size)
    return np.arange(transfer.sram, transfer.sram + rows * columns, dtype=np.int64)


class MicroOps:
    """The memory of micro-ops as it is at one instruction after another; rows of dst, src, wgt, -1 where nothing is."""

    def __init__(self, program: Program, config: AccelConfig) -> None:
        self.config = config
        self.held = np.full((config.depth(Scratchpad.UOP), 3), -1, dtype=np.int64)
        size = config.element_bytes(Scratchpad.UOP)
        self.constants = [
            (b.address // size, np.array([(u.dst, u.src, u.wgt) for u in b.uops], dtype=np.int64).reshape(-1, 3))
            for b in program.buffers
            if b.role == "constant" and b.address % size == 0
        ]

    def load(self, instruction: Load) -> None:
        """Note what a LOAD of micro-ops brings, as far as it is a constant and fits."""
        at = instruction.sram
        for first, count in instruction.rows():
            row = np.full((count, 3), -1, dtype=np.int64)
            for begin, uops in self.constants:
                low, high = max(first, begin), min(first + count, begin + len(uops))
                if low < high:
                    row[low - first : high - first] = uops[low - begin : high - begin]
            fitting = min(count, max(0, len(self.held) - at))
            self.held[at : at + fitting] = row[:fitting]
            at += count

    def triples(self, loops: Loops) -> Triples:
        """The indices of an instruction's micro-ops; those that were not loaded begin below zero."""
        wgt = loops.wgt_factors if isinstance(loops, Gemm) else (0, 0)
        table = self.held[loops.uop_begin : max(loops.uop_begin, loops.uop_end)]
        factors = (loops.dst_factors, loops.src_factors, wgt)
        i, j = (np.arange(n, dtype=np.int64)[:, None] for n in (loops.outer, loops.inner))
        columns = []
        for column, (outer, inner) in enumerate(factors):
            base = (i * outer + (j * inner).T).reshape(-1, 1)
            columns.append((base + table[:, column]).reshape(-1))
        return Triples(*columns)


def touched(
    instruction: Instruction, micro_ops: MicroOps, config: AccelConfig, grain_bytes: int
) -> Iterator[InstructionTouch]:
    """What one instruction reads, then what it writes. A LOAD of micro-ops is noted in `micro_ops`."""
    if isinstance(instruction, Load):
        yield InstructionTouch(DRAM, False, in_dram(instruction, config, grain_bytes))
        yield InstructionTouch(instruction.memory.held, True, in_scratchpad(instruction))
        if instruction.memory is Scratchpad.UOP:
            micro_ops.load(instruction)
    elif isinstance(instruction, Store):
        yield InstructionTouch(Scratchpad.ACC, False, in_scratchpad(instruction))
        yield InstructionTouch(DRAM, True, in_dram(instruction, config, grain_bytes))
    elif isinstance(instruction, Loops):
        triples = micro_ops.triples(instruction)
        if isinstance(instruction, Gemm) and not instruction.reset:
            yield InstructionTouch(Scratchpad.INP, False, triples.src)
            yield InstructionTouch(Scratchpad.WGT, False, triples.wgt)
        if isinstance(instruction, Alu) and instruction.immediate is None:
            yield InstructionTouch(Scratchpad.ACC, False, triples.src)
        if not (isinstance(instruction, Gemm) and instruction.reset):
            yield InstructionTouch(Scratchpad.ACC, False, triples.dst)
        yield InstructionTouch(Scratchpad.ACC, True, triples.dst)
