"""Random correct programs of the accelerator: conflicting instructions always wait for each other.

    @given(accelerator_programs())
    def test(drawn):
        reference.accel.check(drawn.program, drawn.config, drawn.inputs)

A program is drawn instruction by instruction. Each instruction waits for the last instruction of each neighbour module
that accessed one of its elements, if one of the two writes it. Only written elements are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.machines.vta.config import AccelConfig, AluOptions, Dram, Scratchpad
from minitvm.machines.vta.isa import AluOp, MicroOp, Module, Program
from minitvm.machines.vta.stream import Handle, Kernel, Stream

# Small enough that instructions conflict, with all options of a machine.
TINY = AccelConfig(
    "tiny", block_in=2, block_out=2, uop_bytes=256, inp_bytes=16, wgt_bytes=16, acc_bytes=64,
    options=AluOptions(multiply_bits=8, pad_value=True, clip=True, widen=True),
    dram=Dram("tiny", burst=16, outstanding=2, latency=5),
)  # fmt: skip

LOADED = (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC, Scratchpad.ACC8)

Draw = Callable[[st.SearchStrategy[Any]], Any]
Element = tuple[Scratchpad, int]


@dataclass(frozen=True)
class DrawnProgram:
    """A program, its machine, and arrays for its inputs."""

    program: Program
    config: AccelConfig
    inputs: dict[str, np.ndarray[Any, Any]]

    def __repr__(self) -> str:
        lines = [*map(str, self.program.buffers), *map(str, self.program.instructions)]
        return "\n".join(["", *lines])


@dataclass
class _Writing:
    """A stream, and the instructions that last accessed each element."""

    stream: Stream
    draw: Draw
    wrote: dict[Element, Handle] = field(default_factory=dict)
    read: dict[Element, dict[Module, Handle]] = field(default_factory=dict)

    def depth(self, pad: Scratchpad) -> int:
        return self.stream.config.depth(pad)

    def written(self, pad: Scratchpad) -> list[int]:
        """Return the elements that may be read."""
        return sorted(at for p, at in self.wrote if p is pad)

    def before(self, module: Module, reads: set[Element], writes: set[Element]) -> list[Handle]:
        """Return the instructions of other modules that an instruction has to wait for."""
        handles: set[Handle] = {self.wrote[e] for e in reads | writes if e in self.wrote}
        for element in writes:
            handles |= set(self.read.get(element, {}).values())
        return [h for h in sorted(handles) if self.stream.instructions[h].module is not module]

    def note(self, handle: Handle, reads: set[Element], writes: set[Element]) -> None:
        module = self.stream.instructions[handle].module
        for element in reads:
            self.read.setdefault(element, {})[module] = handle
        for element in writes:
            self.wrote[element] = handle

    def run(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))


def _load(w: _Writing, buffers: dict[Scratchpad, Any]) -> None:
    pad = w.draw(st.sampled_from(LOADED))
    buffer, depth = buffers[pad], w.depth(pad)
    pads = w.draw(st.sampled_from([(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 0), (0, 0, 0, 1), (0, 0, 2, 1)]))
    rows = w.run(1, 2)
    above, below, left, right = pads
    most = depth // (rows + above + below) - left - right
    if most < 1:
        pads, above, below, left, right, most = (0, 0, 0, 0), 0, 0, 0, 0, depth // rows
    columns = w.run(1, min(most, 3))
    stride = w.run(0, 3)
    offset = w.run(0, buffer.count - (rows - 1) * stride - columns)
    size = (rows + above + below) * (columns + left + right)
    sram = w.run(0, depth - size)
    writes = {(pad.held, at) for at in range(sram, sram + size)}
    module = Module.COMPUTE if pad.held is Scratchpad.ACC else Module.LOAD
    handle = w.stream.load(
        pad, sram, buffer, offset, y_size=rows, x_size=columns, x_stride=stride, pads=pads,
        pad_least=any(pads) and w.draw(st.booleans()), after=w.before(module, set(), writes),
    )  # fmt: skip
    w.note(handle, set(), writes)


def _loops(w: _Writing, readable: dict[str, list[int]], loops: tuple[int, int]) -> tuple[list[MicroOp], Any]:
    """Draw micro-ops and factors whose indices stay within the readable elements; a part without a list is a
    register.
    """
    parts, factors = [], []
    count = w.run(1, 3)
    for name in ("dst", "src", "wgt"):
        allowed = readable[name]
        base = [int(w.draw(st.sampled_from(allowed))) for _ in range(count)]
        pair = (w.run(0, 2), w.run(0, 2))
        # Use no factor if it would leave the readable elements.
        reach = {b + i * pair[0] + j * pair[1] for b in base for i in range(loops[0]) for j in range(loops[1])}
        factors.append(pair if reach <= set(allowed) else (0, 0))
        parts.append(base)
    return [MicroOp(*indices) for indices in zip(*parts, strict=True)], factors


def _indices(base: list[int], factors: tuple[int, int], loops: tuple[int, int]) -> set[int]:
    return {b + i * factors[0] + j * factors[1] for b in base for i in range(loops[0]) for j in range(loops[1])}


def _compute(w: _Writing) -> None:
    registers, all_registers = w.written(Scratchpad.ACC), list(range(w.depth(Scratchpad.ACC)))
    inputs, weights = w.written(Scratchpad.INP), w.written(Scratchpad.WGT)
    kinds = ["reset"] + ["alu"] * bool(registers) + ["gemm"] * bool(registers and inputs and weights)
    kind = w.draw(st.sampled_from(kinds))
    loops = (w.run(1, 2), w.run(1, 3))
    readable = {
        "reset": {"dst": all_registers, "src": [0], "wgt": [0]},
        "alu": {"dst": registers, "src": registers, "wgt": [0]},
        "gemm": {"dst": registers, "src": inputs, "wgt": weights},
    }[kind]
    ops, (dst, src, wgt) = _loops(w, readable, loops)
    kernel: Kernel = w.stream.micro_ops(ops)
    writes = {(Scratchpad.ACC, at) for at in _indices([op.dst for op in ops], dst, loops)}
    sources, reads = _indices([op.src for op in ops], src, loops), set(writes)
    if kind == "gemm":
        reads |= {(Scratchpad.INP, at) for at in sources}
        reads |= {(Scratchpad.WGT, at) for at in _indices([op.wgt for op in ops], wgt, loops)}
    elif kind == "alu":
        reads |= {(Scratchpad.ACC, at) for at in sources}
    else:
        reads = set()
    after = w.before(Module.COMPUTE, reads, writes)
    if kind == "alu":
        op = w.draw(st.sampled_from(list(AluOp)))
        immediate = w.draw(st.one_of(st.none(), st.sampled_from([-128, -3, -1, 0, 1, 8, 127, 300])))
        handle = w.stream.alu(op, kernel, immediate=immediate, outer=loops[0], inner=loops[1], dst=dst, src=src,
                              after=after)  # fmt: skip
    else:
        handle = w.stream.gemm(kernel, outer=loops[0], inner=loops[1], dst=dst, src=src, wgt=wgt,
                               reset=kind == "reset", after=after)  # fmt: skip
    w.note(handle, reads, writes)


def _store(w: _Writing, output: Any) -> None:
    registers = w.written(Scratchpad.ACC)
    if not registers:
        return
    sram = int(w.draw(st.sampled_from(registers)))
    run = 1
    while sram + run in registers and run < 4:
        run += 1
    columns = w.run(1, run)
    rows = 2 if columns * 2 <= run and w.draw(st.booleans()) else 1
    stride = w.run(columns, columns + 2)
    offset = w.run(0, output.count - (rows - 1) * stride - columns)
    reads = {(Scratchpad.ACC, at) for at in range(sram, sram + rows * columns)}
    handle = w.stream.store(sram, output, offset, y_size=rows, x_size=columns, x_stride=stride,
                            after=w.before(Module.STORE, reads, set()))  # fmt: skip
    w.note(handle, reads, set())


def _store_all(w: _Writing, output: Any) -> None:
    """Store all written registers at the end, so that their values are checked."""
    registers = w.written(Scratchpad.ACC)
    for at in [r for r in registers if r - 1 not in registers]:
        end = next(r for r in range(at, at + w.depth(Scratchpad.ACC) + 1) if r not in registers)
        reads = {(Scratchpad.ACC, r) for r in range(at, end)}
        after = w.before(Module.STORE, reads, set())
        w.note(w.stream.store(at, output, at, x_size=end - at, x_stride=end - at, after=after), reads, set())


@st.composite
def accelerator_programs(draw: Draw, config: AccelConfig = TINY, most: int = 14) -> DrawnProgram:
    """Draw a program and arrays for its inputs. `most` limits its instructions, without loads of micro-ops and its
    end.
    """
    stream = Stream(config, "drawn")
    buffers = {pad: stream.buffer(pad.word, "input", pad, 12) for pad in LOADED}
    output = stream.buffer("result", "output", Scratchpad.OUT, 12)
    w = _Writing(stream, draw)
    for _ in range(draw(st.integers(1, most))):
        step = draw(st.sampled_from(["load", "load", "compute", "compute", "compute", "store"]))
        if step == "load":
            _load(w, buffers)
        elif step == "compute":
            _compute(w)
        else:
            _store(w, output)
    _store_all(w, output)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    arrays = {}
    for pad, buffer in buffers.items():
        limits = np.iinfo(config.dtype(pad))
        arrays[buffer.name] = rng.integers(
            limits.min, limits.max, (buffer.count, *config.shape(pad)), dtype=config.dtype(pad), endpoint=True
        )
    return DrawnProgram(stream.program(), config, arrays)
