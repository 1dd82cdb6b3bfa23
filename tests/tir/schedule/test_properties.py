"""Every legal step keeps the meaning of the program: random programs, random legal steps, the reference interpreters.

A *pair* is a program and one legal call on it. Pairs are drawn in chains, each call on what the ones before it made,
and the last program of a chain is compared with the first: as loops, and lowered to kernels. Where they differ, the
steps are compared one by one. Every primitive gets at least `PAIRS` pairs in the ci profile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.expr import first_difference, walk
from minitvm.reference import check
from minitvm.reference.modes import known_modes
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import For, ForKind, PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule, Trace
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.transform import lower

from .property_programs import AT_LEAST, NEW_SIGNATURE, PREPARATION, PROGRAMS

TRANSFORMS = [p.name for p in transforms()]
PAIRS = 200  # of each primitive
CHAIN = 6  # calls of one primitive in a row
TRIES = 8  # calls that are not legal, before a step is given up
EXAMPLES = 500  # programs at most: enough for a primitive that is legal on one in four
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"  # then more than PAIRS
MODES = tuple(name for name in ("exact", "field", "shadow") if name in known_modes())


class _Enough(KeyboardInterrupt):
    """What ends a Hypothesis test at once: it reports any other exception, and asks for the same draws again."""


def _draw_step(sch: Schedule, data: Any, *names: str) -> bool:
    call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *names, tries=TRIES)
    if call is not None:
        sch.apply(call)
    return call is not None


def _difference(before: PrimFunc, after: PrimFunc) -> str:
    """How two functions differ, as loops or lowered; empty when they do not."""
    if [str(b.shape) for b in before.buffers] != [str(b.shape) for b in after.buffers]:
        before = after  # NEW_SIGNATURE: the schedule has compared the loops already
    else:
        verdict = check(before, after, modes=MODES)
        if not verdict:
            return f"as loops: {verdict}"
    if any(isinstance(n, For) and n.kind == ForKind.THREAD for n in walk(after)):
        return ""  # a GPU's threads: such loops have no kernel on a CPU
    verdict = check(before, lower(after), modes=MODES)
    return "" if verdict else f"lowered: {verdict}"


def _assert_same(states: list[PrimFunc], sch: Schedule) -> None:
    """All the functions of a chain mean the same; they are compared one by one only where first and last differ."""
    found = _difference(states[0], states[-1])
    if not found:
        return
    for number, (before, after) in enumerate(itertools.pairwise(states), 1):
        culprit = _difference(before, after)
        assert not culprit, f"step {number}: {culprit}\n{before.script()}\n{sch.trace}\n{after.script()}"
    raise AssertionError(f"all steps together: {found}\n{states[0].script()}\n{sch.trace}\n{sch.func.script()}")


@given(prim_funcs(), st.data())
def test_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    sch, states = Schedule(func), [func]
    for _ in range(data.draw(st.integers(1, 6))):
        if not _draw_step(sch, data):
            break
        states.append(sch.func)
    _assert_same(states, sch)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_primitive_keeps_the_meaning(name: str) -> None:
    drawn = 0

    @settings(max_examples=max(settings().max_examples, EXAMPLES), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def chains(data: Any) -> None:
        nonlocal drawn
        func = data.draw(PROGRAMS.get(name, PROGRAMS[""]))
        sch = Schedule(func, verify=name in NEW_SIGNATURE)
        # Something to work on: nests that are split, reordered and moved already.
        for _ in range(data.draw(st.integers(0, 2)) + AT_LEAST.get(name, 0)):
            _draw_step(sch, data, *PREPARATION.get(name, PREPARATION[""]))
        states = [sch.func]
        for _ in range(data.draw(st.integers(2, CHAIN))):
            if not _draw_step(sch, data, name):
                break
            states.append(sch.func)
        if len(states) > 1:
            _assert_same(states, sch)
        drawn += len(states) - 1
        if drawn >= PAIRS and not DEEP:
            raise _Enough

    with contextlib.suppress(_Enough):
        chains()
    assert drawn >= PAIRS, f"only {drawn} pairs of a program and a legal {name} were drawn"


@pytest.mark.full
@settings(max_examples=300)
@given(prim_funcs(), st.data())
def test_long_schedules_keep_the_meaning(func: PrimFunc, data: Any) -> None:
    sch, states = Schedule(func), [func]
    for _ in range(data.draw(st.integers(4, 12))):
        if not _draw_step(sch, data):
            break
        states.append(sch.func)
    _assert_same(states, sch)


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
