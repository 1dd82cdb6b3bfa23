"""Kinds of loops as TVM has them: reductions over threads, a kind in the place of another, split and fuse of kinds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import walk
from minitvm.reference import check
from minitvm.tir.analysis.threads import thread_reduction
from minitvm.tir.nodes import For, ForKind
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify
from tests.fewer import examples

from . import programs
from .thread_programs import product, stencil

KINDS = ("parallel", "vectorize", "unroll", "bind")
STEPS = (
    "bind", "unroll", "split", "fuse", "reorder", "compute_at", "reverse_compute_at", "decompose_reduction", "rfactor",
)  # fmt: skip


@examples(10, 30, deadline=None)
@given(st.sampled_from((product, stencil)), st.data())
def test_reductions_over_threads_keep_the_meaning(family: Any, data: st.DataObject) -> None:
    """A reduction loop bound before or after other steps, as loops and as kernels; lowering may refuse it."""
    func = family(data.draw)
    sch = Schedule(func)
    block = sch.get_block("C")
    if data.draw(st.booleans()):
        sch.cache_write(block, 0, data.draw(st.sampled_from(("local", "shared", "global"))))
    for _ in range(data.draw(st.integers(0, 2))):
        step(sch, data)
    axis = data.draw(st.sampled_from(("threadIdx.x", "threadIdx.y")))
    with contextlib.suppress(ScheduleError):  # no such block any more, or threads that race
        reduced = [l for l in sch.get_loops(block) if sch.get(l).kind is ForKind.SERIAL]
        for loop in reduced[-data.draw(st.integers(1, 2)) :]:
            sch.bind(loop, axis)
    for _ in range(data.draw(st.integers(0, 3))):
        step(sch, data)
    verify(sch.func)
    verify_trace_roundtrip(sch, func)
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{sch.trace}\n{sch.func.script()}"
    try:
        kernels = lower(sch.func)
    except Unsupported:
        assert thread_reduction(sch.func) is not None
        return
    verdict = check(func, kernels)
    assert verdict, f"{verdict}\n{sch.trace}\n{sch.func.script()}\n{kernels.script()}"


def step(sch: Schedule, data: st.DataObject) -> None:
    call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *STEPS)
    if call is not None:
        sch.apply(call)


@pytest.mark.parametrize("axis", ["blockIdx.x", "vthread", "vthread.x"])
def test_only_the_threads_of_a_block_reduce_together(axis: str) -> None:
    sch = Schedule(programs.matmul(4, 4, 4))
    with pytest.raises(ScheduleError, match="only_spatial"):
        sch.bind(sch.get_loops("C")[2], axis)


def test_a_reduction_over_threads_is_no_second_loop_of_an_axis() -> None:
    """Threads share out an inner loop of their axis: each would add up one product of the sum."""
    sch = Schedule(programs.matmul(4, 4, 4))
    i, _, k = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    with pytest.raises(ScheduleError, match="axis_not_taken"):
        sch.bind(k, "threadIdx.x")


def test_threads_that_reduce_own_no_storage() -> None:
    """The result in registers is the one of all threads together."""
    func = programs.matmul(4, 4, 4)
    sch = Schedule(func)
    sch.cache_write("C", 0, "local")
    k = sch.get_loops("C")[2]
    sch.bind(k, "threadIdx.x")
    assert check(func, sch.func)
    assert check(func, lower(sch.func))


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", [*KINDS, "split", "fuse"])
def test_a_kind_takes_the_place_of_another_one(first: str, second: str) -> None:
    func = programs.matmul(4, 4, 4)
    sch = Schedule(func)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x") if first == "bind" else getattr(sch, first)(i)
    if first == "bind" and second in ("split", "fuse"):
        with pytest.raises(ScheduleError, match="plain_loops"):
            sch.split(i, [2, None]) if second == "split" else sch.fuse(i, j)
        return
    if second == "bind":
        sch.bind(i, "threadIdx.x")
    elif second == "split":
        sch.split(i, [2, None])
    elif second == "fuse":
        sch.fuse(i, j)
    else:
        getattr(sch, second)(i)
    kinds = [n.kind for n in walk(sch.func.body) if isinstance(n, For)]
    wanted = {"parallel": ForKind.PARALLEL, "vectorize": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED,
              "bind": ForKind.THREAD}  # fmt: skip
    assert kinds[0] is wanted.get(second, ForKind.SERIAL) and set(kinds[1:]) == {ForKind.SERIAL}
    assert check(func, sch.func)
    verify(sch.func)


def test_threads_with_storage_of_their_own_stay_threads() -> None:
    """Registers that each thread owns would be shared by the iterations of another kind."""
    sch = Schedule(programs.matmul(4, 4, 4))
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    sch.reverse_compute_at(sch.cache_write("C", 0, "local"), sch.get_loops("C")[0])
    for kind in ("parallel", "vectorize", "unroll"):
        with pytest.raises(ScheduleError, match="changeable_kind"):
            getattr(sch, kind)(sch.get_loops("C")[0])
