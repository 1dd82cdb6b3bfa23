"""Plays the steps on a ring whose places remember their row, and compares with the real `rolling_buffer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import events, reference, te, tir
from minitvm.errors import ScheduleError


@dataclass
class RowsComputed(events.Listener):
    """The rows of H that each iteration of a loop computes: a row of H is made of the same row of X."""

    loop: str
    steps: list[list[int]] = field(default_factory=list)

    def loop_iteration(self, loop: events.Loop, value: int) -> None:
        if loop.var == self.loop:
            self.steps.append([])

    def load(self, access: events.Access) -> None:
        if access.buffer == "X":
            self.steps[-1].append(access.offset)


@st.composite
def moving(draw: Callable[..., Any]) -> list[range]:
    """Windows that move in one direction, some rows at a time."""
    start, stop = 0, 0
    windows = []
    for _ in range(draw(st.integers(1, 5))):
        start += draw(st.integers(0, 3))
        stop = max(stop, start + 1) + draw(st.integers(0, 2))
        windows.append(range(start, stop))
    return windows


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest windows for which the new rows or the ring are wrong."""

    @cases(300, windows=moving())
    def computes_each_row_once(windows: list[range]) -> None:
        case = f"fresh({windows})"
        answer = attempt(case, module.fresh, list(windows))
        sound = isinstance(answer, list) and all(isinstance(rows, range) for rows in answer)
        require(sound and len(answer) == len(windows), f"{case} returned {answer!r}, wanted {len(windows)} ranges")
        there: set[int] = set()
        for step, (window, rows) in enumerate(zip(windows, answer, strict=True)):
            new = [row for row in window if row not in there]
            require(
                list(rows) == new,
                f"{case}: for step {step}, which reads {listed(window)}, it has {listed(rows)}\n"
                f"the earlier windows had {listed(sorted(there))}; new in this window: {listed(new)}",
            )
            there.update(window)

    @cases(300, windows=moving())
    def has_the_smallest_ring(windows: list[range]) -> None:
        case = f"ring({windows})"
        answer = attempt(case, module.ring, list(windows))
        require(isinstance(answer, int) and answer > 0, f"{case} returned {answer!r}, wanted a number from 1 up")
        require(not (lost := missing(windows, answer)), f"{case} is {answer}: {lost}")
        smaller = next(size for size in range(1, answer + 1) if not missing(windows, size))
        require(answer == smaller, f"{case} is {answer}; a ring of {smaller} is enough")

    @cases(40, tile=st.integers(1, 4), stride=st.integers(1, 3), taps=st.integers(2, 4))
    def agrees_with_rolling_buffer(tile: int, stride: int, taps: int) -> None:
        steps = 3
        windows = [range(stride * tile * k, stride * (tile * (k + 1) - 1) + taps) for k in range(steps)]
        case = f"with {steps} tiles of {tile} rows, stride {stride} and {taps} taps, which read {windows}, "
        computed, size = rolled(steps * tile, tile, stride, taps)
        answer = [list(rows) for rows in attempt(case, module.fresh, list(windows))]
        require(answer == computed, f"{case}\nfresh has the rows {answer}, and rolling_buffer computes {computed}")
        rows = attempt(case, module.ring, list(windows))
        require(rows == size, f"{case}\nring is {rows}, and the ring of rolling_buffer has {size} rows")


def missing(windows: list[range], ring: int) -> str:
    """Run the steps on a ring whose places know which row they hold; "" if every step finds its window."""
    places: dict[int, int] = {}
    there: set[int] = set()
    for step, window in enumerate(windows):
        for row in window:
            if row not in there:
                places[row % ring] = row
        there.update(window)
        for row in window:
            if places[row % ring] != row:
                return f"step {step} needs row {row}, and row {places[row % ring]} has overwritten it"
    return ""


def rolled(height: int, tile: int, stride: int, taps: int) -> tuple[list[list[int]], int]:
    """The rows of H that each step computes with a rolling buffer, and the rows of its ring."""
    size = stride * (height - 1) + taps
    x = te.placeholder((size,), "int32", name="X")
    h = te.compute((size,), lambda row: x[row] * 2, name="H")
    y = te.compute((height,), lambda row: sum((h[row * stride + t] for t in range(1, taps)), h[row * stride]), name="Y")
    sch = tir.Schedule(te.create_prim_func([x, y]), error_render_level="fast")
    (rows,) = sch.get_loops("Y")
    step, _ = sch.split(rows, factors=[None, tile])
    sch.compute_at("H", step)
    ring = stride * (tile - 1) + taps
    try:
        sch.rolling_buffer("H", 0)
        ring = int(sch.get(sch.get_block("H")).writes[0].buffer.shape[0])
    except ScheduleError:
        pass  # refused where windows do not overlap: then each window is new
    diary = RowsComputed(sch.get(step).var.name)
    reference.tir.run(sch.func, np.zeros(size, "int32"), np.zeros(height, "int32"), listeners=[diary])
    return diary.steps, ring


def listed(rows: range | list[int]) -> str:
    """`row 3`, `rows 3, 4` or `no row`."""
    if not rows:
        return "no row"
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))}"
