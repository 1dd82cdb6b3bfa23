"""`Schedule(..., verify=True)`: the oracle judges each step; a wrong one is named and leaves the schedule as it was."""

from __future__ import annotations

import re

import pytest

from minitvm.errors import InternalError, ScheduleError
from minitvm.expr import const, rewrite
from minitvm.script import tir as T
from minitvm.tir.nodes import BufferStore, Evaluate, For
from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.state import ScheduleState


@T.prim_func
def scan(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("OO", [i, j])
            T.reads(A[vi, vj], B[0:4, 0:4])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] + T.if_then_else(
                vi > 0 and vj < 3, B[T.max(vi - 1, 0), T.min(vj + 1, 3)], T.float32(0)
            )


@T.prim_func
def sums(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + T.exp(A[vi, vk]) / T.float32(3)


def test_right_steps_pass_also_with_rounding_functions() -> None:
    sch = Schedule(sums, verify=True)
    i, k = sch.get_loops("B")
    sch.split(k, [2, 3])
    sch.parallel(i)
    assert len(sch.get_loops("B")) == 3


def test_a_step_that_changes_the_meaning_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`reorder` without its requirements breaks the dependence of the scan."""
    sch = Schedule(scan, verify=True)
    with pytest.raises(ScheduleError):
        sch.reorder(*sch.get_loops("B")[::-1])
    monkeypatch.setattr(PRIMITIVES["reorder"], "requires", ())
    first, second = sch.get_loops("B")
    module, steps = sch.mod, len(sch.trace)
    with pytest.raises(InternalError) as caught:
        sch.reorder(second, first)
    text = str(caught.value)
    assert re.match(rf"reorder\(j, i\): step {steps + 1} of the trace changes what (main|scan) computes\n", text)
    assert "uninitialised read" in text or "differ in B[" in text
    assert sch.mod is module
    assert len(sch.trace) == steps
    sch.split(first, [2, 2])  # it can go on


def test_two_accesses_of_a_race_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PRIMITIVES["parallel"], "requires", ())
    sch = Schedule(sums, verify=True)
    told = r"conflicting accesses to element \[0\] of B[\s\S]*written where[\s\S]*read where"
    with pytest.raises(InternalError, match=told):
        sch.parallel(sch.get_loops("B")[1])


def test_a_lost_store_is_a_fault_of_the_primitive(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(state: ScheduleState, loop: For) -> None:
        lost = rewrite(loop, lambda n: Evaluate(const(0)) if isinstance(n, BufferStore) else None)
        state.replace({loop: lost})

    monkeypatch.setattr(PRIMITIVES["parallel"], "function", forget)
    sch = Schedule(sums, verify=True)
    with pytest.raises(InternalError, match="changes what sums computes\n  B is written by before and not by after"):
        sch.parallel(sch.get_loops("B")[0])


def test_what_the_oracle_cannot_judge_is_refused() -> None:
    """A foreign function has no meaning that could be run."""

    @T.prim_func
    def foreign(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.call_extern("float32", "somewhere_else", A[vi])

    sch = Schedule(foreign, verify=True)
    told = r"split\(i, \[2, 2\]\): verify=True cannot judge step \d of the trace: [\s\S]*somewhere_else"
    with pytest.raises(ScheduleError, match=told):
        sch.split(sch.get_loops("B")[0], [2, 2])


def test_began_with_is_the_first_module() -> None:
    sch = Schedule(sums)
    first = sch.mod
    assert sch.began_with is first
    sch.parallel(sch.get_loops("B")[0])
    assert sch.began_with is first
    assert sch.mod is not first
