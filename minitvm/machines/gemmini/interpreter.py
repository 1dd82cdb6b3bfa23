"""What programs mean: instructions in the order in which the host sends them, on NumPy memories.

The hardware keeps that order wherever it matters, so it is the meaning; `timing` says which instructions overlap.
`order` runs them in another one, such as that of a timeline, to see that the hazards are tracked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ExecutionError, InputError, report
from . import isa
from .config import Gemmini

Array = np.ndarray[Any, Any]


def run(
    program: isa.Program, config: Gemmini, inputs: Mapping[str, Array], order: Sequence[int] | None = None
) -> dict[str, Array]:
    """Run a program on the bytes of its inputs; returns the bytes of its outputs, zeros where nothing was stored.

    Raises `InputError` for arrays that are missing or do not fit, `ExecutionError` for a place outside of a memory, a
    read of what was never written, and a program that does not end with FENCE.
    """
    machine = _Machine(program, config, inputs)
    for number in range(len(program.instructions)) if order is None else order:
        machine.step(number)
    if not program.instructions or not isinstance(program.instructions[-1], isa.Fence):
        raise ExecutionError(f"{program.name} does not end with a fence: the host would read too early")
    return {b.name: machine.memory[b.name].copy() for b in program.buffers if b.role == "output"}


class _Machine:
    """The memories, and what the CONFIGs set."""

    def __init__(self, program: isa.Program, config: Gemmini, inputs: Mapping[str, Array]) -> None:
        self.program, self.config, side = program, config, config.side
        self.memory: dict[str, Array] = {}
        for buffer in program.buffers:
            if buffer.role == "output":
                self.memory[buffer.name] = np.zeros(buffer.nbytes, np.uint8)
                continue
            if buffer.name not in inputs:
                names = ", ".join(inputs) or "nothing"
                raise InputError(report(f"{program.name}: no array for an input", wanted=buffer.name, found=names))
            data = np.ascontiguousarray(inputs[buffer.name]).reshape(-1).view(np.uint8)
            if data.nbytes != buffer.nbytes:
                raise InputError(f"{buffer.name} has {buffer.nbytes} bytes, found {data.nbytes}")
            self.memory[buffer.name] = data
        self.pads: dict[str, Array] = {
            "sp": np.zeros((config.scratchpad_rows, side), np.int8),
            "acc": np.zeros((config.accumulator_rows, side), np.int32),
        }
        self.written: dict[str, Array] = {name: np.zeros(len(pad), np.bool_) for name, pad in self.pads.items()}
        self.weights: Array | None = None
        self.ex, self.ld, self.st = isa.ConfigEx(), isa.ConfigLd(), isa.ConfigSt()
        self.number, self.one = -1, isa.Instruction()

    def step(self, number: int) -> None:
        """Run one instruction."""
        self.number, self.one = number, self.program.instructions[number]
        one = self.one
        if isinstance(one, isa.ConfigEx):
            self.ex = one
        elif isinstance(one, isa.ConfigLd):
            self.ld = one
        elif isinstance(one, isa.ConfigSt):
            self.st = one
        elif isinstance(one, isa.Mvin):
            self.mvin(one)
        elif isinstance(one, isa.Preload):
            self.weights = self.read("sp", one.sp + np.arange(self.config.side)).astype(np.int32)
        elif isinstance(one, isa.Compute):
            self.compute(one)
        elif isinstance(one, isa.Mvout):
            sums = self.read("acc", _lines(one.acc, one, one.step[1], 1)) >> self.st.shift
            stored = np.minimum(np.maximum(sums, self.st.least), 127).astype(np.int8)
            at = self.bytes_at(one.source, one, self.config.side, self.config.side)
            self.memory[one.source.buffer][at] = stored.view(np.uint8)

    def mvin(self, one: isa.Mvin) -> None:
        """Rows into the scratchpad or the accumulator."""
        if (one.sp is None) == (one.acc is None):
            raise self.error("one of sp and acc", f"{one}")
        name, first = ("acc", one.acc) if one.acc is not None else ("sp", one.sp)
        assert first is not None
        dtype = self.pads[name].dtype
        if isinstance(one.source, isa.BufferPlace):
            nbytes = self.config.side * dtype.itemsize
            taken = self.memory_of(one.source)[self.bytes_at(one.source, one, self.ld.stride, nbytes)]
            rows = np.ascontiguousarray(taken).view(dtype)
        else:
            assert one.source == isa.ZERO
            rows = np.zeros((one.rows * one.lines, self.config.side), dtype)
        self.write(name, _lines(first, one, one.step[1], 1), rows, one.add)

    def compute(self, one: isa.Compute) -> None:
        """Products of all rows with the weights that are in the array."""
        if self.weights is None:
            raise self.error("weights in the array: a preload before", "none")
        image = self.read("sp", _lines(one.sp, one, one.step[0], self.ex.stride)).astype(np.int32)
        self.write("acc", _lines(one.acc, one, one.step[1], 1), image @ self.weights.T, one.add)

    def read(self, name: str, rows: Array) -> Array:
        """Rows of a memory that were all written."""
        self.check(name, rows)
        missing = rows[~self.written[name][rows]]
        if len(missing):
            raise self.error("rows that were written before", f"row {missing[0]} of {name} was not")
        return self.pads[name][rows]

    def write(self, name: str, rows: Array, values: Array, add: bool) -> None:
        """Rows of a memory, or sums on top of what they hold."""
        if add:
            values = self.read(name, rows) + values
        self.check(name, rows)
        self.pads[name][rows] = values
        self.written[name][rows] = True

    def check(self, name: str, rows: Array) -> None:
        if rows.min() < 0 or rows.max() >= len(self.pads[name]):
            raise self.error(f"rows 0 to {len(self.pads[name]) - 1} of {name}", f"{rows.min()} to {rows.max()}")

    def memory_of(self, place: isa.BufferPlace) -> Array:
        if place.buffer not in self.memory:
            raise self.error(f"a buffer: {', '.join(self.memory)}", place.buffer)
        return self.memory[place.buffer]

    def bytes_at(self, place: isa.BufferPlace, one: isa.Mvin | isa.Mvout, stride: int, nbytes: int) -> Array:
        """The bytes of each row, in memory."""
        first = _lines(place.offset, one, one.step[0], stride)
        size = len(self.memory_of(place))
        if first.min() < 0 or first.max() + nbytes > size:
            raise self.error(f"bytes 0 to {size - 1} of {place.buffer}", f"{first.min()} to {first.max() + nbytes - 1}")
        return first[:, None] + np.arange(nbytes)

    def error(self, wanted: str, found: str) -> ExecutionError:
        return ExecutionError(
            report(f"{self.program.name}: instruction {self.number}, {self.one}", wanted=wanted, found=found)
        )


def _lines(first: int, one: isa.Mvin | isa.Compute | isa.Mvout, step: int, stride: int) -> Array:
    """Where each row is: `lines` lines, `step` apart, of `rows` rows, `stride` apart."""
    return (first + np.arange(one.lines)[:, None] * step + np.arange(one.rows) * stride).reshape(-1)
