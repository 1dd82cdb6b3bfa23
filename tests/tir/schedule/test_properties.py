"""Every legal step keeps the meaning of the program: random programs, random legal steps, the reference interpreters.

Every primitive gets at least `IN_A_TEST` pairs of a program and a legal call in `make test`, and `PAIRS` in
`make test-full`; `reference.strategies.pairs` says how they are drawn and judged.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import first_difference
from minitvm.reference.strategies import prim_funcs, schedules, steps
from minitvm.reference.strategies.pairs import Chain
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule, Trace
from minitvm.tir.schedule.registry import transforms
from tests.fewer import examples

from .pairs import COSTLY, HEAD, IN_A_TEST, PAIRS, row, tally

TRANSFORMS = [p.name for p in transforms()]


@examples(15)
@given(prim_funcs(), st.data())
def test_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    chain = Chain(func)
    for _ in range(data.draw(st.integers(1, 6))):
        if not chain.step(data.draw):
            break
    chain.compare()


@pytest.mark.hypothesis  # `make fuzz` takes it too: the test that is given data is inside
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("pairs", [IN_A_TEST, pytest.param(PAIRS, marks=pytest.mark.full)])
def test_each_primitive_keeps_the_meaning(name: str, pairs: int) -> None:
    pairs //= COSTLY.get(name, 1)
    count = tally(name, pairs)
    assert count.pairs >= pairs, f"too few pairs of a program and a legal call were judged\n{HEAD}\n{row(count)}"


@pytest.mark.full
@settings(max_examples=300)
@given(prim_funcs(), st.data())
def test_long_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    chain = Chain(func)
    for _ in range(data.draw(st.integers(4, 12))):
        if not chain.step(data.draw):
            break
    chain.compare()


@settings(max_examples=20)
@given(prim_funcs(), st.data())
def test_traces_replay(func: PrimFunc, data: Any) -> None:
    """The same instructions on the same function, from memory, JSON and printed Python, give the same module."""
    sch = data.draw(schedules(func, min_steps=1, max_steps=5))
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
        if not data.draw(steps(sch)):
            break
        states.append(sch.mod)
    for state in reversed(states[:-1]):
        sch.undo()
        assert sch.mod is state


def test_every_primitive_has_a_space() -> None:
    assert [name for name in TRANSFORMS if PRIMITIVES[name].calls is None] == []
