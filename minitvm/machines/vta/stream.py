"""A program that is written instruction by instruction, where waiting for an instruction becomes tokens.

    s = Stream(config, "add")
    x = s.buffer("x", "input", Scratchpad.INP, 16)
    kernel = s.micro_ops([MicroOp(0, 0)])
    loaded = s.load(Scratchpad.INP, 0, x, x_size=16)
    s.gemm(kernel, outer=16, dst=(1, 0), src=(1, 0), after=[loaded])

`after` names instructions of other modules that must have ended. The instruction that is waited for gets a push, the
one that waits a pop; what is known already, by an earlier wait, costs nothing. Each pop takes the oldest token, so a
module waits for another one's instructions in their order. Loads and stores are not neighbours: who stores and is
waited for by a load is waited for by an instruction of compute in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import InputError
from . import isa
from .config import AccelConfig, Scratchpad

Handle = int
PAGE = 64  # buffers begin at multiples of so many bytes, and of their elements
Kernel = tuple[int, int]  # the first micro-op, and the one behind the last


class Stream:
    """Instructions in the order in which they are fetched, and the buffers that they use."""

    def __init__(self, config: AccelConfig, name: str) -> None:
        self.config, self.name = config, name
        self.buffers: list[isa.DramBuffer] = []
        self.instructions: list[isa.Instruction] = []
        self.uops: list[isa.MicroOp] = []
        self.kernels: dict[tuple[isa.MicroOp, ...], Kernel] = {}
        self.waited: dict[isa.Queue, Handle] = {}
        self.end = 0

    # --- buffers ----------------------------------------------------------------------------------------------------

    def buffer(self, name: str, role: str, kind: Scratchpad, count: int) -> isa.DramBuffer:
        """A new piece of DRAM, behind those that are there."""
        size = self.config.element_bytes(kind)
        unit = max(PAGE, size)
        while unit % size:
            unit += PAGE
        address = -(-self.end // unit) * unit
        made = isa.DramBuffer(name, role, kind, address, count)
        self.buffers.append(made)
        self.end = address + count * size
        return made

    def micro_ops(self, ops: Sequence[isa.MicroOp]) -> Kernel:
        """Where these micro-ops lie; equal lists are kept once. All are loaded at the beginning of the program.

        Raises InputError if there is no room for them.
        """
        key = tuple(ops)
        if key not in self.kernels:
            begin = len(self.uops)
            self.uops += key
            if len(self.uops) > self.config.depth(Scratchpad.UOP):
                raise InputError(f"{self.name}: {len(self.uops)} micro-ops; there is room for "
                                 f"{self.config.depth(Scratchpad.UOP)}")  # fmt: skip
            self.kernels[key] = (begin, len(self.uops))
        return self.kernels[key]

    # --- instructions -----------------------------------------------------------------------------------------------

    def load(
        self, memory: Scratchpad, sram: int, source: isa.DramBuffer, offset: int = 0, *, y_size: int = 1,
        x_size: int = 1,
        x_stride: int = 1, pads: tuple[int, int, int, int] = (0, 0, 0, 0), pad_least: bool = False,
        after: Iterable[Handle] = (),
    ) -> Handle:  # fmt: skip
        """Rows of a buffer into a scratchpad; `offset` counts elements from the buffer's beginning."""
        dram = source.address // self.config.element_bytes(memory) + offset
        return self._add(isa.Load(memory=memory, sram=sram, dram=dram, y_size=y_size, x_size=x_size, x_stride=x_stride,
                              pads=pads, pad_least=pad_least), after)  # fmt: skip

    def store(
        self, sram: int, target: isa.DramBuffer, offset: int = 0, *, y_size: int = 1, x_size: int = 1,
        x_stride: int = 1,
        after: Iterable[Handle] = (),
    ) -> Handle:  # fmt: skip
        """Registers into rows of a buffer."""
        dram = target.address // self.config.element_bytes(Scratchpad.OUT) + offset
        return self._add(isa.Store(sram=sram, dram=dram, y_size=y_size, x_size=x_size, x_stride=x_stride), after)

    def gemm(
        self, kernel: Kernel, *, outer: int = 1, inner: int = 1, dst: tuple[int, int] = (0, 0),
        src: tuple[int, int] = (0, 0), wgt: tuple[int, int] = (0, 0), reset: bool = False, after: Iterable[Handle] = (),
    ) -> Handle:  # fmt: skip
        """Products of the array in two loops, or registers set to zero."""
        return self._add(isa.Gemm(uop_begin=kernel[0], uop_end=kernel[1], outer=outer, inner=inner, dst_factors=dst,
                              src_factors=src, wgt_factors=wgt, reset=reset), after)  # fmt: skip

    def alu(
        self, op: isa.AluOp, kernel: Kernel, *, immediate: int | None = None, outer: int = 1, inner: int = 1,
        dst: tuple[int, int] = (0, 0), src: tuple[int, int] = (0, 0), after: Iterable[Handle] = (),
    ) -> Handle:  # fmt: skip
        """An operation on registers in two loops."""
        return self._add(isa.Alu(op=op, uop_begin=kernel[0], uop_end=kernel[1], outer=outer, inner=inner,
        dst_factors=dst,
                             src_factors=src, immediate=immediate), after)  # fmt: skip

    def program(self) -> isa.Program:
        """The program: the micro-ops are loaded first, and FINISH waits for the last store."""
        stores = [i for i, one in enumerate(self.instructions) if isinstance(one, isa.Store)]
        self._add(isa.Finish(), stores[-1:])
        return self.finished()

    def finished(self) -> isa.Program:
        """The program of the instructions as they are, FINISH among them: the micro-ops are loaded first."""
        buffers, instructions = tuple(self.buffers), tuple(self.instructions)
        if self.uops:
            table = replace(self.buffer("micro_ops", "constant", Scratchpad.UOP, len(self.uops)), uops=tuple(self.uops))
            first = table.address // self.config.element_bytes(Scratchpad.UOP)
            load = isa.Load(memory=Scratchpad.UOP, dram=first, x_size=len(self.uops), x_stride=len(self.uops))
            buffers, instructions = (*buffers, table), (load, *instructions)
        return isa.Program(buffers, instructions, self.name)

    def _add(self, instruction: isa.Instruction, after: Iterable[Handle]) -> Handle:
        module = instruction.module
        latest: dict[isa.Module, Handle] = {}  # a module's instructions end in their order, so the last one is enough
        for handle in after:
            other = self.instructions[handle].module
            latest[other] = max(handle, latest.get(other, -1))
        pops: dict[str, Any] = {}
        for other, handle in latest.items():
            if other is module or self.waited.get((other, module), -1) >= handle:
                continue
            side = next((s for s in ("prev", "next") if getattr(module, s) is other), None)
            if side is None:
                raise InputError(f"{module.value} cannot wait for {other.value}: they are not neighbours")
            pops[f"pop_{side}"] = True
            self._push(handle, module)
            self.waited[other, module] = handle
        self.instructions.append(replace(instruction, **pops))
        return len(self.instructions) - 1

    def _push(self, handle: Handle, module: isa.Module) -> None:
        """Let an instruction push a token to a neighbour."""
        one = self.instructions[handle]
        side = "prev" if one.module.prev is module else "next"
        changes: dict[str, Any] = {f"push_{side}": True}
        self.instructions[handle] = replace(one, **changes)
