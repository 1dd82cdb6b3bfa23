"""Counts the rows that `compute_at` makes each step compute, in the interpreter, and compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import events, reference, te, tir
from minitvm.tir.nodes import PrimFunc

Steps = list[list[int]]


@dataclass
class RowsComputed(events.Listener):
    """The rows of H that each iteration of a loop computes: a row of H is made of the same row of X."""

    loop: str
    steps: Steps = field(default_factory=list)

    def loop_iteration(self, loop: events.Loop, value: int) -> None:
        if loop.var == self.loop:
            self.steps.append([])

    def load(self, access: events.Access) -> None:
        if access.buffer == "X":
            self.steps[-1].append(access.offset)


def program_of(height: int, stride: int, taps: tuple[int, ...]) -> PrimFunc:
    """The exercise's producer and consumer, with rows of one element."""
    size = stride * (height - 1) + max(taps) + 1
    x = te.placeholder((size,), "int32", name="X")
    h = te.compute((size,), lambda row: x[row] * 2, name="H")
    rest = taps[1:]
    y = te.compute((height,), lambda row: sum((h[row * stride + t] for t in rest), h[row * stride + taps[0]]), name="Y")
    return te.create_prim_func([x, y])


def windows_of(height: int, tile: int, stride: int, taps: tuple[int, ...]) -> Steps:
    """The rows of H that compute_at makes each step compute; the shadow mode sees to it that none is missing."""
    sch = tir.Schedule(program_of(height, stride, taps), error_render_level="fast")
    (rows,) = sch.get_loops("Y")
    step, _ = sch.split(rows, factors=[None, tile])
    sch.compute_at("H", step)
    diary = RowsComputed(sch.get(step).var.name)
    x = np.zeros(stride * (height - 1) + max(taps) + 1, "int32")
    reference.tir.run(sch.func, x, np.zeros(height, "int32"), listeners=[diary])
    return diary.steps


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest case in which a range is not what the schedule makes."""
    taps = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(tuple)

    @cases(200, height=st.integers(1, 9), tile=st.integers(1, 5), stride=st.integers(1, 3), taps=taps)
    def computes_the_same_rows(height: int, tile: int, stride: int, taps: tuple[int, ...]) -> None:
        tile = min(tile, height)
        windows = windows_of(height, tile, stride, taps)
        rest = f"tile={tile}, height={height}, stride={stride}, taps={taps})"
        for step, window in enumerate(windows):
            case = f"needed(step={step}, {rest}"
            answer = attempt(case, module.needed, step, tile, height, stride, taps)
            require(isinstance(answer, range), f"{case} returned {answer!r}, wanted a range")
            rows = range(step * tile, min((step + 1) * tile, height))
            reads = sorted({stride * y + tap for y in rows for tap in taps})
            require(
                list(answer) == window,
                f"{case} is {listed(list(answer))}\n"
                f"this step makes {listed(list(rows))} of Y and reads {listed(reads)} of H\n"
                f"compute_at computes {listed(window)}",
            )
        case = f"work({rest}"
        answer = attempt(case, module.work, tile, height, stride, taps)
        computed = sum(map(len, windows))
        steps = "\n".join(f"step {step} computes {listed(window)}" for step, window in enumerate(windows))
        require(answer == computed, f"{case} returned {answer!r}\n{steps}\nthat is {computed} together")


def listed(rows: list[int]) -> str:
    """`row 3`, `rows 3, 4` or `no row`."""
    if not rows:
        return "no row"
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))}"
