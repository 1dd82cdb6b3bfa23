"""rfactor, decompose_reduction, decompose_padding, pad_einsum, rolling_buffer, fuse_reduction_epilogue: textbook cases,
edges, and properties on programs of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import te
from minitvm.errors import InputError, ScheduleError
from minitvm.events import Listener
from minitvm.expr import SizeVar, const, structural_equal
from minitvm.gallery import programs
from minitvm.gallery.reductions import first_of_equals, padded, with_epilogue
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import tir as T
from minitvm.tir.analysis.reducers import REDUCERS, recognise
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule, register_reducer
from minitvm.tir.schedule.state import ScheduleState
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify

from . import reductions_programs
from .meaning import same_at_both_levels, same_meaning


def _body(func: PrimFunc) -> str:
    """The statements of a function as text, without its signature."""
    text = func.script().split("):\n", 1)[1]
    return "\n".join(line for line in text.splitlines() if "func_attr" not in line)


def _all_agree(before: PrimFunc, sch: Schedule) -> None:
    """The scheduled function is well formed, replays, and means the same as loops, as kernels and compiled."""
    verify(sch.func)
    same_meaning(before, sch)
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(0, 4, [d.value for d in b.shape]).astype(b.dtype.numpy)  # type: ignore[attr-defined]
        for b in before.buffers
    ]
    wanted, found = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interpreter.run(before, *wanted)
    minitvm.build(sch.func)(*found)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- rfactor -------------------------------------------------------------------------------------------------------


def row_sums(
    rows: int = 8, columns: int = 20, dtype: str = "float32", reduce: Any = te.sum, **options: Any
) -> PrimFunc:
    A = te.placeholder((rows, columns), dtype, name="A")
    k = te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: reduce(A[i, k], axis=k, **options), name="B")
    return te.create_prim_func([A, B])


def test_rfactor_of_an_imperfect_split() -> None:
    func = row_sums()
    sch = Schedule(func)
    _i, k = sch.get_loops("B")
    _, inner = sch.split(k, [None, 8])
    made = sch.rfactor(inner, factor_axis=1)
    assert sch.get(made).name == "B_rf"
    assert sch.get(sch.get_block("B")).name == "B"
    assert (
        _body(sch.func)
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
    _all_agree(func, sch)
    assert next([kind, *attrs] for kind, _, attrs, _ in sch.trace.as_json()[0] if kind[0] == "R") == ["RFactor", 1]


def test_rfactor_reads_only_partial_results_that_exist() -> None:
    """20 is no multiple of 3 * 8, and 5 values leave three of eight partial results without any (TVM reads those)."""
    func = row_sums(columns=5)
    sch = Schedule(func)
    _, k = sch.get_loops("B")
    _, inner = sch.split(k, [None, 8])
    sch.rfactor(inner, 0)
    assert "T.where(k_1 < 5)" in _body(sch.func).split('T.block("B")')[1]
    _all_agree(func, sch)


def test_rfactor_keeps_the_predicate_of_spatial_loops() -> None:
    func = row_sums()
    sch = Schedule(func)
    i, k = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 3])
    sch.reorder(k, i_0, i_1)
    sch.rfactor(k, -1)
    assert _body(sch.func).count("T.where(i_0 * 3 + i_1 < 8)") == 2
    _all_agree(func, sch)


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
    assert "B_rf = T.alloc_buffer((4,))" in _body(sch.func)
    _all_agree(func, sch)


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
        assert f'B_rf = T.alloc_buffer({tuple(shape)}, "int32")' in _body(sch.func)
        _all_agree(func, sch)


def test_rfactor_of_fused_reduction_loops() -> None:
    A = te.placeholder((3, 4, 5), name="A")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 5), name="l")
    func = te.create_prim_func([A, te.compute((3,), lambda i: te.sum(A[i, k, l], axis=[k, l]), name="B")])
    sch = Schedule(func)
    _i, *rest = sch.get_loops("B")
    _, inner = sch.split(sch.fuse(*rest), [None, 8])
    sch.rfactor(inner, 0)
    _all_agree(func, sch)


def test_rfactor_with_an_init_of_its_own_starts_partial_results_from_the_identity() -> None:
    """7 is in the result once, not once for every partial result; a maximum may start from it everywhere."""
    for func, own, start in [(row_sums(init=7), "7.0", "0.0"), (row_sums(reduce=te.max, init=2), "2.0", "2.0")]:
        sch = Schedule(func)
        _, inner = sch.split(sch.get_loops("B")[1], [None, 4])
        sch.rfactor(inner, 0)
        text = _body(sch.func)
        assert f"B_rf[vk_1, v_i] = T.float32({start})" in text
        assert f"B[v_i] = T.float32({own})" in text
        _all_agree(func, sch)


def _argmax(ties: str, shape: tuple[int, int] = (4, 12)) -> PrimFunc:
    A = te.placeholder(shape, "int32", name="A")
    k = te.reduce_axis((0, shape[1]), name="k")
    reducer = reductions_programs.arg_reducer("argmax", ties)
    results = te.compute((shape[0],), lambda i: reducer((k.var, A[i, k]), axis=k), name="R")
    return te.create_prim_func([A, *results])


@pytest.mark.parametrize("ties", ["kept", "taken", "first"])
def test_rfactor_of_argmax_as_a_tuple(ties: str) -> None:
    func = _argmax(ties)
    sch = Schedule(func)
    outer, inner = sch.split(sch.get_loops("R")[1], [None, 4])
    if ties == "first":
        sch.rfactor(inner, 1)  # the index breaks ties: any order will do
    else:
        with pytest.raises(ScheduleError, match="keeps_order"):
            sch.rfactor(inner, 1)
        sch.rfactor(outer, 1)
    assert "R_v0_rf = T.alloc_buffer" in _body(sch.func)
    assert "R_v1_rf = T.alloc_buffer" in _body(sch.func)
    _all_agree(func, sch)
    # Rows with ties everywhere.
    rows = np.array([[0] * 12, [1, 0] * 6, [0, 0, 3, 3] * 3, [5] + [0] * 11], "int32")
    wanted = [np.zeros(4, "int32") for _ in range(4)]
    interpreter.run(func, rows, *wanted[:2])
    interpreter.run(sch.func, rows, *wanted[2:])
    np.testing.assert_array_equal(wanted[0], wanted[2])
    np.testing.assert_array_equal(wanted[1], wanted[3])


def test_a_tuple_reduction_survives_its_text() -> None:
    sch = Schedule(_argmax("first"))
    sch.rfactor(sch.get_loops("R")[1], 1)
    for dialect in ("tvm-0.23", "tvm-0.27"):
        again = minitvm.script.from_source(sch.func.script(dialect=dialect))
        assert structural_equal(again, sch.func)


def test_rfactor_of_the_inner_loop_would_change_which_of_equals_wins() -> None:
    """The refusal is no formality: done without asking, it gives another index."""
    sch = Schedule(first_of_equals())
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
    _all_agree(func, sch)
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
    _all_agree(func, sch)


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
    _all_agree(func, sch)


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


# ---- decompose_reduction -------------------------------------------------------------------------------------------


def test_decompose_reduction_of_a_tuple() -> None:
    func = _argmax("first")
    sch = Schedule(func)
    made = sch.decompose_reduction("R", sch.get_loops("R")[1])
    assert sch.get(made).name == "R_init"
    assert len(sch.get(made).writes) == 2
    _all_agree(func, sch)


def test_decompose_reduction_with_predicates_on_both_sides() -> None:
    func = row_sums(7, 5)
    sch = Schedule(func)
    i, k = sch.get_loops("B")
    _, i_1 = sch.split(i, [None, 4])
    k_0, k_1 = sch.split(k, [None, 2])
    sch.reorder(k_0, i_1, k_1)
    sch.decompose_reduction("B", k_0)
    assert "T.where(i_0 * 4 + i_1_init < 7)" in _body(sch.func)
    _all_agree(func, sch)


def test_decompose_reduction_keeps_a_condition_on_a_loop_that_binds_nothing() -> None:
    func = row_sums(1, 4)
    sch = Schedule(func)
    _, unit = sch.split(sch.get_loops("B")[0], [2, None])
    sch.decompose_reduction("B", unit)  # T.where(i_0 + i_1 < 1): once, not again after the sum
    assert "T.where(i_0 + i_1_init < 1)" in _body(sch.func)
    _all_agree(func, sch)


def test_tiles_of_a_reduction_outside_its_writers_loop_keep_their_sums() -> None:
    """TVM issue 17799: a result in a buffer of its own, written back below a reduction loop, came out wrong."""
    A = te.placeholder((8, 8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    func = te.create_prim_func([A, te.compute((8, 8), lambda i, j: te.sum(A[i, k, j], axis=k), name="B")])
    sch = Schedule(func)
    parts = [sch.split(loop, [2, 4]) for loop in sch.get_loops("B")]
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = parts
    sch.reorder(i_0, k_0, j_0, i_1, k_1, j_1)
    write_back = sch.cache_write("B", 0, "local")
    with pytest.raises(ScheduleError, match="producers_done"):
        sch.reverse_compute_at(write_back, j_0)
    sch.reverse_compute_at(write_back, i_0)
    _all_agree(func, sch)


# ---- fuse_reduction_epilogue ---------------------------------------------------------------------------------------


def test_a_bias_becomes_the_init() -> None:
    func = with_epilogue(lambda t, bias, i: bias[i] + t[i])
    sch = Schedule(func)
    assert sch.fuse_reduction_epilogue("t", "D") is None
    assert (
        _body(sch.func)
        == """\
    for i, k in T.grid(8, 4):
        with T.block("t"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            T.reads(bias[v_i], A[v_i, v_k])
            T.writes(D[v_i])
            with T.init():
                D[v_i] = bias[v_i]
            D[v_i] = D[v_i] + A[v_i, v_k]"""
    )
    _all_agree(func, sch)
    assert "FuseReductionEpilogue" in sch.trace.dumps()


@pytest.mark.parametrize(
    ("epilogue", "init", "start"),
    [
        (lambda t, bias, i: t[i] + bias[i], 2, "T.float32(2.0) + bias[v_i]"),
        (lambda t, bias, i: t[i] - bias[i], None, "T.float32(0.0) - bias[v_i]"),
        (lambda t, bias, i: t[i], 3, "T.float32(3.0)"),
    ],
)
def test_epilogues_that_a_sum_may_start_from(epilogue: Callable[..., Any], init: Any, start: str) -> None:
    func = with_epilogue(epilogue, init)
    sch = Schedule(func)
    sch.fuse_reduction_epilogue("t", "D")
    assert f"D[v_i] = {start}" in _body(sch.func)
    _all_agree(func, sch)


@pytest.mark.parametrize(
    ("epilogue", "example"),
    [
        (lambda t, bias, i: t[i] * 2.0, "for the terms 1 and 2 that is 6, and 8"),
        (lambda t, bias, i: te.exp(t[i]), "for the terms 1 and 2 that is 20.0855, and 11956.8"),
        (lambda t, bias, i: T.max(t[i], 0.0), "for the terms -3 and 5 that is 2, and 5"),
        (lambda t, bias, i: bias[i] - t[i], "for the terms 1 and 2"),
        (lambda t, bias, i: t[i] + t[i], "for the terms 1 and 2"),
    ],
)
def test_epilogues_that_would_be_applied_to_partial_results(epilogue: Callable[..., Any], example: str) -> None:
    with pytest.raises(ScheduleError, match="goes_into_init") as caught:
        Schedule(with_epilogue(epilogue)).fuse_reduction_epilogue("t", "D")
    assert example in str(caught.value)


# ---- padding -------------------------------------------------------------------------------------------------------


def test_decompose_padding_of_one_loop() -> None:
    func = padded(lambda i: te.all(i >= 2, i < 12), 1.0)
    sch = Schedule(func)
    made = sch.decompose_padding("B", sch.get_loops("B")[0])
    assert sch.get(made).name == "B_pad_const"
    assert (
        _body(sch.func)
        == """\
    for i in range(14):
        with T.block("B_pad_const"):
            v_i = T.axis.remap("S", [i])
            T.reads()
            T.writes(B[v_i])
            B[v_i] = T.float32(1.0)
    for i in range(10):
        with T.block("B"):
            v_i = T.axis.remap("S", [i])
            T.reads(A[v_i])
            T.writes(B[v_i + 2])
            B[v_i + 2] = A[v_i]"""
    )
    _all_agree(func, sch)


def test_decompose_padding_of_a_split_loop_gets_a_predicate() -> None:
    func = padded(lambda i: te.all(i >= 2, i < 12), 0.0)
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.decompose_padding("B", outer)
    assert "T.where(i_0 * 4 + i_1 < 14 and 2 <= i_0 * 4 + i_1 and i_0 < 3)" in _body(sch.func)
    _all_agree(func, sch)


def test_decompose_padding_refuses_a_condition_that_is_no_range() -> None:
    with pytest.raises(ScheduleError, match="padding_block"):
        sch = Schedule(padded(lambda i: te.all(i >= 2, i < 12, i % 2 == 0), 0.0))
        sch.decompose_padding("B", sch.get_loops("B")[0])


@pytest.mark.parametrize(
    ("reduce", "dtype", "neutral"),
    [
        (te.sum, "float32", "T.float32(0.0)"), (te.max, "float32", 'T.float32("-inf")'),
        (te.min, "int8", "T.int8(127)"),
        (te.prod, "int32", "1"),
    ],
)  # fmt: skip
def test_pad_einsum_pads_with_what_the_reduction_does_not_notice(reduce: Any, dtype: str, neutral: str) -> None:
    func = row_sums(7, 5, dtype, reduce)
    sch = Schedule(func)
    assert sch.pad_einsum("B", [1, 4]) is None
    assert f"T.if_then_else(v1 < 5, A[v0, v1], {neutral})" in _body(sch.func)
    assert "B_pad" not in _body(sch.func)  # only what changes is copied
    _all_agree(func, sch)


def test_pad_einsum_of_a_matmul() -> None:
    func = programs.matmul(7, 6, 5)
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 1, 4])
    names = [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["A_pad", "B_pad", "C", "C_pad"]
    assert "for i, j, k in T.grid(8, 6, 8)" in _body(sch.func)
    _all_agree(func, sch)


def test_pad_einsum_declares_what_the_padded_iterations_read() -> None:
    """A region that was one element for the one iteration that there was grows with the domain."""

    @T.prim_func
    def one(A: T.Buffer((1,), "float32"), C: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.block("C"):
                vi = T.axis.spatial(1, i)
                T.reads(A[0])
                T.writes(C[0])
                C[vi] = A[vi] * 2.0

    sch = Schedule(one)
    sch.pad_einsum("C", [2])
    verify(sch.func)
    same_at_both_levels(one, sch.func)


def test_pad_einsum_refuses_what_padding_would_add() -> None:
    A = te.placeholder((7, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    func = te.create_prim_func([A, te.compute((7,), lambda i: te.sum(A[i, k] + 1.0, axis=k), name="C")])
    with pytest.raises(ScheduleError, match="A\\[v_i, v_k\\] \\+ float32\\(1.0\\) is 1 there"):
        Schedule(func).pad_einsum("C", [4, 4])
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 1])  # rows that nobody reads
    _all_agree(func, sch)


def test_padding_of_symbolic_extents() -> None:
    n = SizeVar("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n + 4,), lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), A[i - 2], 0.0), name="B")
    func = te.create_prim_func([A, B])
    sch = Schedule(func)
    sch.decompose_padding("B", sch.get_loops("B")[0])
    assert "for i in range(n):" in _body(sch.func)
    sums = row_sums(7, n)  # type: ignore[arg-type]
    padded_sums = Schedule(sums)
    padded_sums.pad_einsum("B", [4, 4])
    assert "A_pad = T.alloc_buffer((8, (n + 3) // 4 * 4))" in _body(padded_sums.func)
    for before, made in ((func, sch.func), (sums, padded_sums.func)):
        same_at_both_levels(before, made)


# ---- rolling_buffer ------------------------------------------------------------------------------------------------


def test_rolling_buffer_of_a_halo() -> None:
    func = programs.chain()
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    text = _body(sch.func)
    assert "B = T.alloc_buffer((3, 6))" in text
    assert "T.where(i < 1 or 2 <= ax0)" in text
    assert "B[v_i % 3, v_j] + B[(v_i + 1) % 3, v_j] + B[(v_i + 2) % 3, v_j]" in text
    _all_agree(func, sch)


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
    assert "B = T.alloc_buffer((5, 4))" in _body(sch.func)
    assert "C = T.alloc_buffer((3, 4))" in _body(sch.func)
    _all_agree(func, sch)


def test_in_a_cascade_the_first_producer_is_not_rolled_first() -> None:
    """Its readers' iterators are opaque then; the refusal says in which order it goes."""
    A = te.placeholder((12, 4), name="A")
    B = te.compute((12, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((10, 4), lambda i, j: B[i, j] + B[i + 2, j], name="C")
    D = te.compute((8, 4), lambda i, j: C[i, j] + C[i + 2, j], name="D")
    sch = Schedule(te.create_prim_func([A, D]))
    for name in ("C", "B"):
        sch.compute_at(name, sch.get_loops("D")[0])
    sch.rolling_buffer("B", 0)
    with pytest.raises(ScheduleError, match="producer_of_temporary[\\s\\S]*of this block first"):
        sch.rolling_buffer("C", 0)


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


def test_the_space_of_rfactor_is_reduction_loops_and_axes() -> None:
    sch = Schedule(programs.matmul())
    assert [call.text for call in sch.space("rfactor")] == [f"rfactor(k, {axis})" for axis in range(3)]


@T.prim_func
def from_a_buffer(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("S"):
            vi = T.axis.spatial(4, i)
            S[vi] = B[vi] * 2.0
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = S[vi]
            C[vi] = T.min(C[vi], A[vi, vk])


def test_an_init_runs_after_what_it_reads() -> None:
    """Computed below the reduction loop, its input is there only then: decomposed neither by a step nor by lowering."""
    sch = Schedule(from_a_buffer)
    _, k = sch.get_loops("C")
    sch.compute_at("S", k)
    same_at_both_levels(from_a_buffer, sch.func)
    with pytest.raises(ScheduleError, match="init_finds_its_inputs"):
        sch.decompose_reduction("C", k)


def test_a_decomposed_init_declares_what_it_reads() -> None:
    sch = Schedule(from_a_buffer)
    init = sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert [r.buffer.name for r in sch.get(init).reads] == ["S"]
    assert check(from_a_buffer, lower(sch.func))
