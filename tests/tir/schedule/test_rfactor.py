"""rfactor: partial results of a reduction, then their combination."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import SizeVar, const, structural_equal
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import tir as T
from minitvm.tir.analysis.reducers import REDUCERS, recognise
from minitvm.tir.schedule import PRIMITIVES, Schedule, register_reducer
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of
from minitvm.tir.schedule.state import ScheduleState
from minitvm.tir.verifier import verify

from . import programs
from .meaning import all_agree, statements
from .reductions_programs import argmax, row_sums

# ---- rfactor -------------------------------------------------------------------------------------------------------


def test_rfactor_of_an_imperfect_split() -> None:
    func = row_sums()
    sch = Schedule(func)
    _i, k = sch.get_loops("B")
    _, inner = sch.split(k, [None, 8])
    made = sch.rfactor(inner, factor_axis=1)
    assert sch.get(made).name == "B_rf"
    assert sch.get(sch.get_block("B")).name == "B"
    assert (
        statements(sch.func)
        == """\
    B_rf = T.alloc_buffer((8, 8))
    for i, k_0, k_1 in T.grid(8, 3, 8):
        with T.block("B_rf"):
            vk_1, v_i, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
            T.where(k_0 * 8 + k_1 < 20)
            T.reads(A[v_i, vk_0 * 8 + vk_1])
            T.writes(B_rf[v_i, vk_1])
            with T.init():
                B_rf[v_i, vk_1] = T.float32(0.0)
            B_rf[v_i, vk_1] = B_rf[v_i, vk_1] + A[v_i, vk_0 * 8 + vk_1]
    for i, k_1 in T.grid(8, 8):
        with T.block("B"):
            vk_1, v_i = T.axis.remap("RS", [k_1, i])
            T.reads(B_rf[v_i, vk_1])
            T.writes(B[v_i])
            with T.init():
                B[v_i] = T.float32(0.0)
            B[v_i] = B[v_i] + B_rf[v_i, vk_1]"""
    )
    all_agree(func, sch)
    assert next([kind, *attrs] for kind, _, attrs, _ in sch.trace.as_json()[0] if kind[0] == "R") == ["RFactor", 1]


def test_rfactor_reads_only_partial_results_that_exist() -> None:
    """20 is no multiple of 3 * 8, and 5 values leave three of eight partial results without any (TVM reads those)."""
    func = row_sums(columns=5)
    sch = Schedule(func)
    _, k = sch.get_loops("B")
    _, inner = sch.split(k, [None, 8])
    sch.rfactor(inner, 0)
    assert "T.where(k_1 < 5)" in statements(sch.func).split('T.block("B")')[1]
    all_agree(func, sch)


def test_rfactor_keeps_the_predicate_of_spatial_loops() -> None:
    func = row_sums()
    sch = Schedule(func)
    i, k = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 3])
    sch.reorder(k, i_0, i_1)
    sch.rfactor(k, -1)
    assert statements(sch.func).count("T.where(i_0 * 3 + i_1 < 8)") == 2
    all_agree(func, sch)


def test_rfactor_keeps_handles_of_loops_and_block() -> None:
    sch = Schedule(row_sums())
    block = sch.get_block("B")
    i, k = sch.get_loops(block)
    made = sch.rfactor(k, 0)
    assert sch.get_loops(block) == [i, k]
    assert sch.get_loops(made) != [i, k]
    sch.parallel(sch.get_loops(made)[1])
    sch.parallel(i)


@pytest.mark.parametrize("axis", [-1, 0])
def test_rfactor_into_rank_one_from_rank_zero(axis: int) -> None:
    A = te.placeholder((12,), name="A")
    k = te.reduce_axis((0, 12), name="k")
    func = te.create_prim_func([A, te.compute((), lambda: te.sum(A[k], axis=k), name="B")])
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.rfactor(inner, axis)
    assert "B_rf = T.alloc_buffer((4,))" in statements(sch.func)
    all_agree(func, sch)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rfactor_of_one_of_two_reduction_loops(axis: int) -> None:
    A = te.placeholder((3, 2, 4, 5), "int32", name="A")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 5), name="l")
    B = te.compute((3, 2), lambda i, j: te.max(A[i, j, k, l], axis=[k, l]), name="B")
    func = te.create_prim_func([A, B])
    for which in (2, 3):
        sch = Schedule(func)
        sch.rfactor(sch.get_loops("B")[which], axis)
        shape = [3, 2]
        shape.insert(axis, (4, 5)[which - 2])
        assert f'B_rf = T.alloc_buffer({tuple(shape)}, "int32")' in statements(sch.func)
        all_agree(func, sch)


def test_rfactor_of_fused_reduction_loops() -> None:
    A = te.placeholder((3, 4, 5), name="A")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 5), name="l")
    func = te.create_prim_func([A, te.compute((3,), lambda i: te.sum(A[i, k, l], axis=[k, l]), name="B")])
    sch = Schedule(func)
    _i, *rest = sch.get_loops("B")
    _, inner = sch.split(sch.fuse(*rest), [None, 8])
    sch.rfactor(inner, 0)
    all_agree(func, sch)


def test_rfactor_with_an_init_of_its_own_starts_partial_results_from_the_identity() -> None:
    """7 is in the result once, not once for every partial result; a maximum may start from it everywhere."""
    for func, own, start in [(row_sums(init=7), "7.0", "0.0"), (row_sums(reduce=te.max, init=2), "2.0", "2.0")]:
        sch = Schedule(func)
        _, inner = sch.split(sch.get_loops("B")[1], [None, 4])
        sch.rfactor(inner, 0)
        text = statements(sch.func)
        assert f"B_rf[vk_1, v_i] = T.float32({start})" in text
        assert f"B[v_i] = T.float32({own})" in text
        all_agree(func, sch)


@pytest.mark.parametrize("ties", ["kept", "taken", "first"])
def test_rfactor_of_argmax_as_a_tuple(ties: str) -> None:
    func = argmax(ties)
    sch = Schedule(func)
    outer, inner = sch.split(sch.get_loops("R")[1], [None, 4])
    if ties == "first":
        sch.rfactor(inner, 1)  # the index breaks ties: any order will do
    else:
        with pytest.raises(ScheduleError, match="keeps_order"):
            sch.rfactor(inner, 1)
        sch.rfactor(outer, 1)
    assert "R_v0_rf = T.alloc_buffer" in statements(sch.func)
    assert "R_v1_rf = T.alloc_buffer" in statements(sch.func)
    all_agree(func, sch)
    # Rows with ties everywhere.
    rows = np.array([[0] * 12, [1, 0] * 6, [0, 0, 3, 3] * 3, [5] + [0] * 11], "int32")
    wanted = [np.zeros(4, "int32") for _ in range(4)]
    interpreter.run(func, rows, *wanted[:2])
    interpreter.run(sch.func, rows, *wanted[2:])
    np.testing.assert_array_equal(wanted[0], wanted[2])
    np.testing.assert_array_equal(wanted[1], wanted[3])


def test_a_tuple_reduction_survives_its_text() -> None:
    sch = Schedule(argmax("first"))
    sch.rfactor(sch.get_loops("R")[1], 1)
    for dialect in ("tvm-0.23", "tvm-0.27"):
        again = minitvm.script.from_source(sch.func.script(dialect=dialect))
        assert structural_equal(again, sch.func)


def test_rfactor_of_the_inner_loop_would_change_which_of_equals_wins() -> None:
    """The refusal is no formality: done without asking, it gives another index."""
    sch = Schedule(program_of(on.FIRST_OF_EQUALS))
    _, inner = sch.split(sch.get_loops("R")[0], [None, 4])
    state = ScheduleState(sch.mod, "main")
    loop = state.loop(inner.key)
    rfactor = PRIMITIVES["rfactor"]
    assert rfactor.match is not None
    rfactor.function(state, rfactor.match(state, loop), loop, 0)
    values = np.array([0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "float32")
    found = [np.zeros((), "int32"), np.zeros((), "float32")]
    interpreter.run(state.mod["main"], values, *found)
    assert found[0] == 4  # the first maximum is at 1


@pytest.fixture(scope="module")
def union() -> Iterator[Any]:
    """A reducer that is registered when asked for: every schedule of a test is made again after it."""
    before = list(REDUCERS)

    def combine(x: Any, y: Any) -> Any:
        return x + y - x * y  # associative, commutative, 0 is neutral

    def register() -> None:
        register_reducer("union", lambda x, y: (combine(x[0], y[0]),), lambda dtypes: (const(0, dtypes[0]),))

    yield te.comm_reducer(combine, lambda dtype: te.const(0, dtype), name="union"), register
    REDUCERS[:] = before


def test_rfactor_of_a_reducer_of_the_user(union: Any) -> None:
    reducer, register = union
    func = row_sums(4, 6, "int32", reducer)
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[1], [2, 3])
    with pytest.raises(ScheduleError, match="registered_reducer"):
        sch.rfactor(inner, 0)
    register()
    sch.rfactor(inner, 0)
    all_agree(func, sch)
    with pytest.raises(InputError, match="at least one value"):
        register_reducer("none", lambda x, y: (), lambda dtypes: (), 0)


@pytest.mark.parametrize("n", [0, 1, 3, 8, 9])
def test_rfactor_over_a_symbolic_extent(n: int) -> None:
    func = row_sums(3, SizeVar("n"))  # type: ignore[arg-type]
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(inner, 0)
    verify(sch.func)
    A = np.arange(3 * n, dtype="float32").reshape(3, n)
    wanted, found, compiled = (np.full(3, 5, "float32") for _ in range(3))
    interpreter.run(func, A, wanted, shadow=False)
    interpreter.run(sch.func, A, found, shadow=False)
    np.testing.assert_array_equal(wanted, found)
    minitvm.build(sch.func)(A, compiled)
    np.testing.assert_array_equal(A.sum(axis=1), compiled)


def test_rfactor_of_a_loop_whose_predicate_names_a_loop_of_one_iteration() -> None:
    A = te.placeholder((4, 2), name="A")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 2), name="l")
    func = te.create_prim_func([A, te.compute((1,), lambda i: te.sum(A[k, l], axis=[k, l]), name="B")])
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[2], [None, 3])  # l_0 * 3 + l_1 < 2, with l_0 = 0
    sch.rfactor(inner, 0)
    all_agree(func, sch)


def test_rfactor_below_a_loop_with_readers() -> None:
    """The combination stays where the reduction was, with what reads it; the partial results come before."""

    @T.prim_func
    def func(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):  # type: ignore[valid-type]
        B = T.alloc_buffer((4,))
        for i in range(4):
            for k in range(6):
                with T.block("B"):  # type: ignore[attr-defined]
                    vi, vk = T.axis.remap("SR", [i, k])  # type: ignore[misc]
                    with T.init():  # type: ignore[attr-defined]
                        B[vi] = 0.0  # type: ignore[index]
                    B[vi] = B[vi] + A[vi, vk]  # type: ignore[index]
            with T.block("C"):  # type: ignore[attr-defined]
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi] * 2.0  # type: ignore[index]

    sch = Schedule(func)
    sch.rfactor(sch.get_loops("B")[1], 0)
    assert [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))] == ["B_rf", "B", "C"]
    assert sch.get_loops("B")[0] == sch.get_loops("C")[0]
    all_agree(func, sch)


def test_no_reducer_where_an_update_only_looks_like_one() -> None:
    buffer = te.placeholder((4,), name="X")
    load = buffer[0]
    assert recognise((load,), (load + load,)) is not None  # its operand reads X: refused by `registered_reducer`
    assert recognise((load,), (load - buffer[1],)) is None
    assert recognise((load,), (buffer[1] + buffer[2],)) is None


# ---- threads -------------------------------------------------------------------------------------------------------


def test_partial_results_on_threads_and_no_block_of_threads_for_a_reduction_loop() -> None:
    """Threads of one block may reduce together, blocks of threads may not: the partial results are the way to go."""
    func = row_sums()
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[1], [None, 4])
    made = sch.rfactor(inner, 0)
    sch.bind(sch.get_loops(made)[0], "blockIdx.x")
    sch.bind(sch.get_loops(made)[2], "threadIdx.x")
    assert check(func, sch.func)
    with pytest.raises(ScheduleError, match="only_spatial"):
        sch.bind(sch.get_loops("B")[1], "blockIdx.x")


def test_the_space_of_rfactor_is_reduction_loops_and_axes() -> None:
    sch = Schedule(programs.matmul())
    assert [call.text for call in sch.space("rfactor")] == [f"rfactor(k, {axis})" for axis in range(3)]
