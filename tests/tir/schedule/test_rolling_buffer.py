"""rolling_buffer: what neighbouring iterations share is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te
from minitvm.errors import ScheduleError
from minitvm.events import Listener
from minitvm.expr import structural_equal
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower

from . import programs
from .meaning import all_agree, statements

# ---- rolling_buffer ------------------------------------------------------------------------------------------------


def test_rolling_buffer_of_a_halo() -> None:
    func = programs.chain()
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    text = statements(sch.func)
    assert "B = T.alloc_buffer((3, 6))" in text
    assert "T.where(i < 1 or 2 <= ax0)" in text
    assert "B[v_i % 3, v_j] + B[(v_i + 1) % 3, v_j] + B[(v_i + 2) % 3, v_j]" in text
    all_agree(func, sch)


def test_rolling_buffer_computes_each_element_once() -> None:
    func = programs.chain()
    counts = []
    for roll in (False, True):
        sch = Schedule(func)
        sch.compute_at("B", sch.get_loops("C")[0])
        if roll:
            sch.rolling_buffer("B", 0)
        counter = _Blocks()
        interpreter.run(sch.func, np.ones((10, 6), "float32"), np.zeros((8, 6), "float32"), listeners=[counter])
        counts.append(counter.seen["B"])
    assert counts == [8 * 3 * 6, 10 * 6]


class _Blocks(Listener):
    """Counts the executions of blocks."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def block(self, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1


def test_rolling_buffers_in_a_cascade() -> None:
    """The last producer first: then the one before it finds all its reads in the window."""
    A = te.placeholder((12, 4), name="A")
    B = te.compute((12, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((10, 4), lambda i, j: B[i, j] + B[i + 2, j], name="C")
    D = te.compute((8, 4), lambda i, j: C[i, j] + C[i + 2, j], name="D")
    func = te.create_prim_func([A, D])
    sch = Schedule(func)
    i = sch.get_loops("D")[0]
    sch.compute_at("C", i)
    sch.compute_at("B", i)
    sch.rolling_buffer("C", 0)
    sch.rolling_buffer("B", 0)
    assert "B = T.alloc_buffer((5, 4))" in statements(sch.func)
    assert "C = T.alloc_buffer((3, 4))" in statements(sch.func)
    all_agree(func, sch)


def cascade(reach: int = 2) -> Schedule:
    """Three producers below one loop; each reads its neighbour `reach` rows below."""
    A = te.placeholder((16, 3), name="A")
    B = te.compute((15, 3), lambda i, j: A[i, j] + A[i + 1, j], name="B")
    C = te.compute((13, 3), lambda i, j: B[i, j] + B[i + reach, j], name="C")
    D = te.compute((11, 3), lambda i, j: C[i, j] * C[i + 2, j], name="D")
    E = te.compute((9, 3), lambda i, j: D[i, j] + D[i + reach, j], name="E")
    sch = Schedule(te.create_prim_func([A, E]))
    for name in ("D", "C", "B"):
        sch.compute_at(name, sch.get_loops("E")[0])
    return sch


@pytest.mark.parametrize("order", list(itertools.permutations("BCD")), ids="".join)
def test_the_buffers_of_a_cascade_are_rolled_in_any_order(order: tuple[str, ...]) -> None:
    """A block whose inputs go round already is looked at as it was before; the program is the same in each order."""
    sch, readers_first = cascade(), cascade()
    func = sch.func
    for name in order:
        sch.rolling_buffer(name, 0)
    for name in ("D", "C", "B"):
        readers_first.rolling_buffer(name, 0)
    assert structural_equal(sch.func, readers_first.func)
    assert check(func, sch.func, shrink=False)


def test_a_refusal_in_a_cascade_marks_the_program_as_it_is() -> None:
    sch = cascade(reach=0)
    sch.rolling_buffer("B", 0)
    with pytest.raises(ScheduleError, match="overlapping_windows") as refusal:
        sch.rolling_buffer("D", 0)
    assert "B[v_i % 3" in str(refusal.value)
    assert "^ this block" in str(refusal.value)


def test_a_buffer_that_another_step_made_go_round_is_not_taken_for_a_rolled_one() -> None:
    """Here each third element of B is read when it has been written over: no order of rolling gives this program."""
    func = from_source("""
    @T.prim_func
    def main(A: T.Buffer((12,)), D: T.Buffer((8,))):
        B = T.alloc_buffer((2,))
        C = T.alloc_buffer((10,))
        for i in range(8):
            for k in range(5):
                with T.block("B"):
                    v = T.axis.opaque(12, i + k)
                    B[v % 2] = A[v]
            for k in range(3):
                with T.block("C"):
                    v = T.axis.opaque(10, i + k)
                    C[v] = B[v % 2] + B[(v + 2) % 2]
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = C[v] + C[v + 2]
    """)
    with pytest.raises(ScheduleError, match="producer_of_temporary"):
        Schedule(func).rolling_buffer("C", 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), st.integers(2, 6))
def test_windows_that_move_on_by_turns_are_rolled(steps: int, turns: int, window: int, rows: int) -> None:
    """`i * 5 // 2` moves on by 2, then by 3: what the smallest overlap holds is not computed again."""
    A = te.placeholder(((rows - 1) * steps // turns + window,), name="A")
    B = te.compute(A.shape, lambda i: A[i] * 2.0, name="B")
    r = te.reduce_axis((0, window), name="r")
    func = te.create_prim_func([A, te.compute((rows,), lambda i: te.sum(B[i * steps // turns + r], axis=r), name="C")])
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    try:
        sch.rolling_buffer("B", 0)
    except ScheduleError as error:
        assert "overlapping_windows" in str(error)
        starts = [i * steps // turns for i in range(rows)]
        assert max(b - a for a, b in itertools.pairwise(starts)) >= window or starts[-1] == 0
        return
    verdict = check(func, sch.func, shrink=False)
    assert verdict, f"{verdict}\n{sch.func.script()}"


def test_after_rolling_the_order_of_the_loop_matters() -> None:
    sch = Schedule(programs.chain())
    i, _j = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.rolling_buffer("B", 0)
    with pytest.raises(ScheduleError, match="structured_below"):
        sch.parallel(i)


def test_a_pipeline_gives_no_versions_to_what_is_carried_on() -> None:
    """The second iteration reads a row that the first one wrote, so that row is in the version of both."""
    func = from_source("""
    @T.prim_func
    def main(A: T.Buffer((3,)), C: T.Buffer((2,))):
        B = T.alloc_buffer((3,))
        for i in range(2):
            for j in range(2):
                with T.block("B"):
                    v = T.axis.spatial(3, i + j)
                    B[v] = A[v] * T.float32(2)
            with T.block("C"):
                v = T.axis.spatial(2, i)
                C[v] = B[v] + B[v + 1]
    """)
    sch = Schedule(func)
    sch.rolling_buffer("B", 0)
    sch.annotate(sch.get_loops("B")[0], "software_pipeline_stage", [0, 1])
    assert check(func, sch.func)
    assert check(func, lower(sch.func, "cpu"), modes=("exact",))
