"""Any call of a primitive, sensible or not, works or is refused with an error for people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.errors import InternalError, MinitvmError, ScheduleError
from minitvm.reference import check
from minitvm.reference.strategies import KINDS, NEST_KINDS, any_calls, prim_funcs
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule, Trace
from minitvm.tir.transform import lower
from tests.fewer import examples

PROGRAMS = prim_funcs(kinds=(*NEST_KINDS, *NEST_KINDS, *KINDS), max_blocks=3)
SLOW = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def takes(data: Any, sch: Schedule) -> str:
    """Make one call; its text if it was legal. An error is one for people, and says what it is about."""
    try:
        if data.draw(st.integers(0, 4)) == 0:
            call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)))
            if call is not None:
                sch.apply(call)
            return repr(call)
        made = data.draw(any_calls(sch))
        before = sch.mod
        try:
            made(sch)
        except InternalError:
            raise
        except MinitvmError as error:
            assert sch.mod is before
            spots = (made.name, "loop ", "block ", "the block ", "the handle", "no block", "the sampled")
            assert str(error).startswith(spots), error
            return ""
        return repr(made)
    except Exception as error:
        error.add_note(f"after these steps\n{sch.trace}\n{sch.func.script()}")
        raise


def judge(func: PrimFunc, sch: Schedule) -> None:
    """What a schedule leaves lowers, or is refused for people; its trace is data."""
    again = Schedule(func)
    Trace.apply_json_to_schedule(sch.trace.dumps(), again)
    assert again.trace.as_python() == sch.trace.as_python()
    try:
        lower(sch.func)
    except InternalError:
        raise
    except MinitvmError:
        pass


@examples(16, 40, **SLOW)
@given(PROGRAMS, st.data())
def test_any_call_works_or_is_refused_for_people(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    if [text for _ in range(data.draw(st.integers(1, 5))) if (text := takes(data, sch))]:
        judge(func, sch)


@pytest.mark.full
@settings(max_examples=400, **SLOW)
@given(PROGRAMS, st.data())
def test_any_call_that_works_keeps_the_meaning(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    for _ in range(data.draw(st.integers(1, 5))):
        before = sch.func
        text = takes(data, sch)
        after = sch.state.comparable.get(sch.state.named(None), sch.func)
        if text and after is not before:
            verdict = check(before, after, shrink=False)
            assert verdict, f"{text}: {verdict}\n{before.script()}\n{after.script()}"
    judge(func, sch)


@examples(5, 15, **SLOW)
@given(prim_funcs(kinds=NEST_KINDS, max_blocks=2))
def test_the_space_of_any_program_can_be_asked_for(func: PrimFunc) -> None:
    assert Schedule(func).space()


TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), D: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4, 4))
    for i in range(4):
        for j in range({0}):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2.0
    for i in range(4):
        with T.block("D0"):
            vi = T.axis.spatial(4, i)
            D[vi] = 0.0
    for i in range(4):
        for j in range({0}):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                D[vi] = D[vi] + C[vi, vj]
"""
SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in range({0}):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(4, {1})
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("extent", ["i + 1", "i, 4"])
def test_a_triangle_is_not_copied_back_as_a_box(extent: str) -> None:
    sch = Schedule(from_source(TRIANGLE.format(extent)))
    with pytest.raises(ScheduleError, match="fills_its_box"):
        sch.cache_write("C", 0, "local")


@pytest.mark.parametrize(("extent", "step"), [("i, 4", "k"), ("2", "i // 2 * 2 + k"), ("3", "k + 1")])
def test_a_copy_is_not_filled_by_an_init_that_comes_for_some_elements_only(extent: str, step: str) -> None:
    for call in ("cache_write", "write_at", "reindex"):
        sch = Schedule(from_source(SUMS.format(extent, step)))
        with pytest.raises(ScheduleError, match="fills_its_box|filled_below|copies_its_values"):
            if call == "cache_write":
                sch.cache_write("C", 0, "local")
            elif call == "write_at":
                sch.write_at(sch.get_loops("C")[0], "C", 0, "local")
            else:
                sch.reindex("C", ("write", 0))


def test_the_same_sums_with_an_init_for_each_element_are_copied() -> None:
    func = from_source(SUMS.format("4", "k"))
    sch = Schedule(func)
    sch.cache_write("C", 0, "local")
    sch.write_at(sch.get_loops("C")[0], "C", 0, "local")
    assert check(func, sch.func)


def test_a_producer_is_inlined_at_an_index_of_another_dtype() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), D: T.Buffer((6,), "uint8"), E: T.Buffer((6,), "float32")):
    C = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = T.Cast("uint8", (vi * 2 + 3) % 6)
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.if_then_else(vi >= 2, A[vi - 2], T.float32(1.0))
    for i in range(6):
        with T.block("E"):
            vi = T.axis.spatial(6, i)
            E[vi] = C[D[vi]]
""")
    sch = Schedule(func)
    assert any(call.primitive.name == "compute_inline" for call in sch.space("compute_inline"))
    sch.compute_inline("C")
    assert check(func, sch.func)
