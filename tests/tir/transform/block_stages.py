"""Stages that the threads of a block take one after the other, each in loops over threads of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.errors import ScheduleError
from minitvm.te import create_prim_func
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc

TILE, BLOCKS = 8, 3


def staged(draw: Any, axes: Sequence[str] = ("threadIdx.x",)) -> tuple[PrimFunc, Schedule]:
    """A chain of stages, each of which turns its tile around, in memory or in storage, shared or their own.

    Each stage has the threads of one of `axes`.
    """
    count = draw(st.integers(1, 3))
    tensors = [te.placeholder((TILE * BLOCKS,), dtype="int32", name="A")]
    for number in range(count + 1):
        tensors.append(_turned(tensors[-1], number, draw(st.booleans())))
    func = create_prim_func([tensors[0], tensors[-1]])
    sch = Schedule(func)
    *earlier, last = [t.name for t in tensors[1:]]
    over, _, threads = sch.split(
        sch.get_loops(sch.get_block(last))[0], [BLOCKS, None, draw(st.sampled_from((TILE, 4)))]
    )
    sch.bind(over, "blockIdx.x")
    loops = [threads]
    for name in reversed(earlier):
        block = sch.get_block(name)
        sch.compute_at(block, sch.get_loops(sch.get_block(last))[0])
        number = draw(st.sampled_from((TILE, TILE, 4, 2)))
        try:
            scope = draw(st.sampled_from(("global", "shared", "local")))
            if scope != "global":
                sch.set_scope(block, 0, scope)
            if draw(st.booleans()):  # then a dimension may be the number of the thread
                sch.transform_layout(block, ("write", 0), lambda i, n=number: [i // n, i % n])
        except ScheduleError:
            pass
        _, inner = sch.split(sch.get_loops(block)[1], [None, number])
        loops.append(inner)
    for loop in loops:
        sch.bind(loop, axes[0] if len(axes) == 1 else draw(st.sampled_from(axes)))
    return func, sch


def _turned(source: Any, number: int, turned: bool) -> Any:
    def element(i: Any) -> Any:
        at = i // TILE * TILE + (TILE - 1 - i % TILE if turned else i % TILE)
        return source[at] * 3 + number

    return te.compute(source.shape, element, name=f"S{number}")
