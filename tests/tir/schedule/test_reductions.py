"""rfactor, decompose_reduction, decompose_padding, pad_einsum, rolling_buffer, fuse_reduction_epilogue: textbook cases,
edges, and properties on programs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minitvm import te
from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of
from minitvm.tir.transform import lower

from . import programs
from .meaning import all_agree, same_at_both_levels, statements
from .reductions_programs import argmax, row_sums

# ---- decompose_reduction -------------------------------------------------------------------------------------------


def test_decompose_reduction_of_a_tuple() -> None:
    func = argmax("first")
    sch = Schedule(func)
    made = sch.decompose_reduction("R", sch.get_loops("R")[1])
    assert sch.get(made).name == "R_init"
    assert len(sch.get(made).writes) == 2
    all_agree(func, sch)


def test_decompose_reduction_with_predicates_on_both_sides() -> None:
    func = row_sums(7, 5)
    sch = Schedule(func)
    i, k = sch.get_loops("B")
    _, i_1 = sch.split(i, [None, 4])
    k_0, k_1 = sch.split(k, [None, 2])
    sch.reorder(k_0, i_1, k_1)
    sch.decompose_reduction("B", k_0)
    assert "T.where(i_0 * 4 + i_1_init < 7)" in statements(sch.func)
    all_agree(func, sch)


def test_decompose_reduction_keeps_a_condition_on_a_loop_that_binds_nothing() -> None:
    func = row_sums(1, 4)
    sch = Schedule(func)
    _, unit = sch.split(sch.get_loops("B")[0], [2, None])
    sch.decompose_reduction("B", unit)  # T.where(i_0 + i_1 < 1): once, not again after the sum
    assert "T.where(i_0 + i_1_init < 1)" in statements(sch.func)
    all_agree(func, sch)


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
    all_agree(func, sch)


# ---- fuse_reduction_epilogue ---------------------------------------------------------------------------------------


def with_epilogue(epilogue: Any, init: Any = None, rows: int = 8) -> PrimFunc:
    """t = row sums of A; D = epilogue(t, i) for the first rows."""
    A = te.placeholder((8, 4), name="A")
    bias = te.placeholder((8,), name="bias")
    k = te.reduce_axis((0, 4), name="k")
    t = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, init=init), name="t")
    D = te.compute((rows,), lambda i: epilogue(t, bias, i), name="D")
    return te.create_prim_func([A, bias, D])


def test_a_bias_becomes_the_init() -> None:
    func = with_epilogue(lambda t, bias, i: bias[i] + t[i])
    sch = Schedule(func)
    assert sch.fuse_reduction_epilogue("t", "D") is None
    assert (
        statements(sch.func)
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
    all_agree(func, sch)
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
    assert f"D[v_i] = {start}" in statements(sch.func)
    all_agree(func, sch)


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


def rows_that_shrink() -> None:
    """The init runs in no reduction loop: a loop as long as one of them says has no end there."""
    sch = Schedule(program_of(on.SHORT_ROWS))
    with pytest.raises(ScheduleError, match="fixed_domains"):
        sch.decompose_reduction("C", sch.get_loops("C")[0])


def test_rows_that_shrink() -> None:
    rows_that_shrink()


def sums_of_nothing() -> None:
    """A sum over no terms stores nothing, and neither may its padded copy be stored."""
    sch = Schedule(program_of(on.NO_TERMS))
    with pytest.raises(ScheduleError, match=r"pad_einsum\(C, \[4, 1\]\): iterates"):
        sch.pad_einsum("C", [4, 1])
    sch = Schedule(programs.matmul(7, te.size_var("k"), 6))
    sch.pad_einsum("C", [4, 1, 1])


def test_sums_of_nothing() -> None:
    sums_of_nothing()
