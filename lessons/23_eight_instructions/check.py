"""Runs random programs on the learner's machine, and on the reference interpreter with an array of one number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.machines.vta.config import AccelConfig, Scratchpad
from minitvm.machines.vta.isa import AluOp, MicroOp
from minitvm.machines.vta.stream import Stream

SIZE = 6  # numbers of each scratchpad, and of each part of DRAM
PARTS = ("inp", "wgt", "acc")  # of DRAM, in their order; the results follow
ONE = AccelConfig("one", block_in=1, block_out=1, inp_bytes=SIZE, wgt_bytes=SIZE, acc_bytes=4 * SIZE, uop_bytes=1024)


@dataclass(frozen=True)
class Case:
    """A program between loads of everything and a store of everything, and the numbers in DRAM."""

    middle: tuple[tuple[Any, ...], ...]
    numbers: tuple[int, ...]  # what the parts of DRAM hold

    @property
    def program(self) -> list[tuple[Any, ...]]:
        loads = [("load", pad, 0, n * SIZE, 1, SIZE, SIZE) for n, pad in enumerate(PARTS)]
        return [*loads, *self.middle, ("store", 0, 3 * SIZE, 1, SIZE, SIZE), ("finish",)]

    def memory(self) -> dict[str, list[int]]:
        return {"dram": [*self.numbers, *[0] * SIZE], **{pad: [0] * SIZE for pad in PARTS}}

    def expected(self) -> list[int]:
        """The results, by the reference interpreter."""
        stream = Stream(ONE, "exercise")
        buffers = {name: stream.buffer(name, "input", Scratchpad[name.upper()], SIZE) for name in PARTS}
        results = stream.buffer("results", "output", Scratchpad.OUT, SIZE)
        for one in self.program[:-1]:
            add(stream, buffers, results, one)
        inputs = {
            name: np.array(self.numbers[n * SIZE : (n + 1) * SIZE]).astype(ONE.dtype(Scratchpad[name.upper()]))
            for n, name in enumerate(PARTS)
        }
        found = reference.accel.run(stream.program(), ONE, inputs)["results"]
        return [int(number) for number in found.ravel()]

    def __str__(self) -> str:
        dram = "\n".join(f"    dram[{n * SIZE}:]  {list(self.numbers[n * SIZE : (n + 1) * SIZE])}" for n in range(3))
        return "\n".join([dram, *(f"    {one}" for one in self.program)])


def add(stream: Stream, buffers: dict[str, Any], results: Any, one: tuple[Any, ...]) -> None:
    """One instruction, after all that came before it: whatever can, waits for its neighbours' last instructions."""
    name, *rest = one
    last: dict[Any, int] = {earlier.module: n for n, earlier in enumerate(stream.instructions)}

    def neighbours(module: str) -> list[int]:
        near = {"load": ["compute"], "compute": ["load", "store"], "store": ["compute"]}[module]
        return [n for other, n in last.items() if other.value in near]

    if name == "load":
        pad, at, place, rows, columns, stride = rest
        module = "compute" if pad == "acc" else "load"
        stream.load(Scratchpad[pad.upper()], at, buffers[pad], place - PARTS.index(pad) * SIZE, y_size=rows,
                    x_size=columns, x_stride=stride, after=neighbours(module))  # fmt: skip
    elif name == "store":
        at, place, rows, columns, stride = rest
        stream.store(at, results, place - 3 * SIZE, y_size=rows, x_size=columns, x_stride=stride,
                     after=neighbours("store"))  # fmt: skip
    elif name == "gemm":
        count, indices, steps = rest
        kernel = stream.micro_ops([MicroOp(*indices)])
        dst, src, wgt = ((0, step) for step in steps)
        stream.gemm(kernel, inner=count, dst=dst, src=src, wgt=wgt, after=neighbours("compute"))
    else:
        count, first, step, number = rest
        stream.alu(AluOp[name.upper()], stream.micro_ops([MicroOp(first, 0)]), immediate=number, inner=count,
                   dst=(0, step), after=neighbours("compute"))  # fmt: skip


@st.composite
def many_cases(draw: Callable[..., Any]) -> Case:
    """One to five instructions, small numbers first."""

    def range_of() -> tuple[int, int]:
        """(first, step) of three numbers at most."""
        first, step = draw(st.integers(0, SIZE - 1)), draw(st.integers(0, 2))
        return first, step if first + 2 * step < SIZE else 0

    middle: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(["gemm", "load", "store", "min", "max", "add", "shr"]))
        rows, columns = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        at, stride = draw(st.integers(0, SIZE - rows * columns)), draw(st.integers(columns, 3))
        begin = draw(st.integers(0, SIZE - (rows - 1) * stride - columns))
        if name == "load":
            part = draw(st.integers(0, 2))
            middle.append(("load", PARTS[part], at, part * SIZE + begin, rows, columns, stride))
        elif name == "store":
            middle.append(("store", at, 3 * SIZE + begin, rows, columns, stride))
        elif name == "gemm":
            (d, dd), (s, ds), (w, dw) = range_of(), range_of(), range_of()
            middle.append(("gemm", draw(st.integers(1, 3)), (d, s, w), (dd, ds, dw)))
        else:
            number = draw(st.integers(-9, 9) if name == "shr" else st.sampled_from([0, 1, -100, 127, 30000]))
            middle.append((name, draw(st.integers(1, 3)), *range_of(), number))
    bytes_ = st.integers(-128, 127)
    wide = st.one_of(st.integers(0, 9), st.sampled_from([300, -(2**31), 2**31 - 1]))
    numbers = [draw(bytes_) for _ in range(2 * SIZE)] + [draw(wide) for _ in range(SIZE)]
    return Case(tuple(middle), tuple(numbers))


# What random programs do not always have: one more than the largest number, and the larger one of that and 1; two rows
# of one number each, three apart.
WRAPS = Case((("add", 1, 0, 0, 1), ("max", 1, 0, 0, 1)), (0,) * 2 * SIZE + (2**31 - 1,) + (0,) * (SIZE - 1))
APART = Case((("load", "acc", 0, 2 * SIZE, 2, 1, 3),), (0,) * 2 * SIZE + tuple(range(1, SIZE + 1)))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program whose results differ."""

    def runs_like_the_machine(case: Case) -> None:
        memory = case.memory()
        what = f"for these numbers in DRAM and this program\n{case}\n"
        attempt(what, module.run, case.program, memory)
        expected = case.expected()
        found = memory["dram"][3 * SIZE :]
        require(
            found == expected and memory["dram"][: 3 * SIZE] == list(case.numbers),
            f"{what}dram[{3 * SIZE}:] is {found}; the machine has {expected} there",
        )

    for case in (WRAPS, APART):
        runs_like_the_machine(case)
    cases(150, case=many_cases())(runs_like_the_machine)
