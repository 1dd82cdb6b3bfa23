"""Every legal step keeps the meaning of the program: random programs, random legal steps, the reference interpreter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import first_difference
from minitvm.reference import check
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule, Trace
from minitvm.tir.schedule.registry import transforms

TRANSFORMS = [p.name for p in transforms()]


def _draw_step(sch: Schedule, data: Any, *names: str) -> bool:
    calls = sch.space(*names)
    if not calls:
        return False
    # First the primitive, then the call: a primitive with many calls must not crowd the others out.
    name = data.draw(st.sampled_from(sorted({call.primitive.name for call in calls})))
    call = data.draw(st.sampled_from([call for call in calls if call.primitive.name == name]))
    sch.apply(call)
    return True


def _assert_same(before: PrimFunc, sch: Schedule) -> None:
    verdict = check(before, sch.func)
    assert verdict, f"{verdict}\n{before.script()}\n{sch.trace}\n{sch.func.script()}"


@given(prim_funcs(), st.data())
def test_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    for _ in range(data.draw(st.integers(1, 6))):
        if not _draw_step(sch, data):
            break
    _assert_same(func, sch)


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=15)
@given(data=st.data())
def test_each_primitive_keeps_the_meaning(name: str, data: Any) -> None:
    func = data.draw(prim_funcs(min_blocks=2))
    sch = Schedule(func)
    # Something to work on: nests that are split, reordered and moved already.
    for _ in range(data.draw(st.integers(0, 2))):
        _draw_step(sch, data, "split", "reorder", "fuse", "compute_at", "reverse_compute_at", "cache_read", "annotate")
    _draw_step(sch, data, name)
    _assert_same(func, sch)


@pytest.mark.full
@settings(max_examples=300)
@given(prim_funcs(), st.data())
def test_long_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    for _ in range(data.draw(st.integers(4, 12))):
        if not _draw_step(sch, data):
            break
    _assert_same(func, sch)


@settings(max_examples=20)
@given(prim_funcs(), st.data())
def test_traces_replay(func: PrimFunc, data: Any) -> None:
    """The same instructions on the same function, from memory, JSON and printed Python, give the same module."""
    sch = Schedule(func)
    for _ in range(data.draw(st.integers(1, 5))):
        _draw_step(sch, data)
    again, loaded, printed = Schedule(func), Schedule(func), Schedule(func)
    sch.trace.apply_to_schedule(again)
    Trace.apply_json_to_schedule(sch.trace.dumps(), loaded)
    names: dict[str, Any] = {"tir": __import__("minitvm.tir", fromlist=["tir"])}
    exec(str(sch.trace), names)
    names["apply_trace"](printed)
    for other in (again, loaded, printed):
        assert first_difference(sch.mod, other.mod) is None
        assert other.trace.as_python() == sch.trace.as_python()


@settings(max_examples=20)
@given(prim_funcs(), st.data())
def test_undo_brings_the_program_back(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    states = [sch.mod]
    for _ in range(data.draw(st.integers(1, 5))):
        if not _draw_step(sch, data):
            break
        states.append(sch.mod)
    for state in reversed(states[:-1]):
        sch.undo()
        assert sch.mod is state


def test_every_primitive_has_a_space() -> None:
    assert [name for name in TRANSFORMS if PRIMITIVES[name].calls is None] == []
