"""A loop that drives a reduction and a spatial iterator at once: the init of an element stays its first iteration."""

from __future__ import annotations

import pytest

from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.script import from_source


def sums() -> tir.PrimFunc:
    """Sums of three numbers; one loop runs over all numbers of a row."""
    return from_source("""
    @T.prim_func
    def main(A: T.Buffer((4, 4, 3)), R: T.Buffer((4, 4))):
        for i, f in T.grid(4, 12):
            with T.block("R"):
                vi = T.axis.remap("S", [i])
                vj = T.axis.spatial(4, f // 3)
                vk = T.axis.reduce(3, f % 3)
                with T.init():
                    R[vi, vj] = T.float32(0)
                R[vi, vj] = R[vi, vj] + A[vi, vj, vk]
    """)


def test_parts_of_the_loop_keep_their_order() -> None:
    sch = tir.Schedule(sums())
    i, f = sch.get_loops("R")
    outer, inner = sch.split(f, [None, 2])
    with pytest.raises(ScheduleError, match="no value is read or overwritten out of order"):
        sch.reorder(inner, outer)
    sch.reorder(outer, inner, i)
    assert reference.check(sums(), sch.func)
