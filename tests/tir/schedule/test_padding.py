"""decompose_padding and pad_einsum: paddings split off, and extents made multiples."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm import te
from minitvm.errors import ScheduleError
from minitvm.expr import SizeVar
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.verifier import verify

from . import programs
from .meaning import all_agree, same_at_both_levels, statements
from .reductions_programs import row_sums

# ---- padding -------------------------------------------------------------------------------------------------------


def padded(inside: Any, fill: Any = None) -> PrimFunc:
    """B[i] = A[i - 2] where `inside`, else the fill."""
    A = te.placeholder((10,), name="A")
    rest = te.placeholder((1,), name="rest")
    B = te.compute((14,), lambda i: te.if_then_else(inside(i), A[i - 2], rest[0] if fill is None else fill), name="B")
    return te.create_prim_func([A, rest, B] if fill is None else [A, B])


def test_decompose_padding_of_one_loop() -> None:
    func = padded(lambda i: te.all(i >= 2, i < 12), 1.0)
    sch = Schedule(func)
    made = sch.decompose_padding("B", sch.get_loops("B")[0])
    assert sch.get(made).name == "B_pad_const"
    assert (
        statements(sch.func)
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
    all_agree(func, sch)


def test_decompose_padding_of_a_split_loop_gets_a_predicate() -> None:
    func = padded(lambda i: te.all(i >= 2, i < 12), 0.0)
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.decompose_padding("B", outer)
    assert "T.where(i_0 * 4 + i_1 < 14 and 2 <= i_0 * 4 + i_1 and i_0 < 3)" in statements(sch.func)
    all_agree(func, sch)


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
    assert f"T.if_then_else(v1 < 5, A[v0, v1], {neutral})" in statements(sch.func)
    assert "B_pad" not in statements(sch.func)  # only what changes is copied
    all_agree(func, sch)


def test_pad_einsum_of_a_matmul() -> None:
    func = programs.matmul(7, 6, 5)
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 1, 4])
    names = [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["A_pad", "B_pad", "C", "C_pad"]
    assert "for i, j, k in T.grid(8, 6, 8)" in statements(sch.func)
    all_agree(func, sch)


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
    all_agree(func, sch)


ROW_BY_ROW = """
@T.prim_func
def main(A: T.Buffer((2, 3), "float32"), C: T.Buffer((2, 3), "float32")):
    for i in range(2):
        with T.block("rows"):
            vi = T.axis.spatial(2, i)
            for j in range(3):
                with T.block("b"):
                    vj = T.axis.spatial(3, j)
                    C[vi, vj] = A[vi, vj]
"""
HALF_WRITTEN = """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
    B = T.alloc_buffer((2, 3))
    for j in range(3):
        with T.block("a"):
            vj = T.axis.spatial(3, j)
            B[0, vj] = A[vj]
    for j in range(3):
        with T.block("b"):
            vj = T.axis.spatial(3, j)
            C[vj] = B[0, vj]
"""


@pytest.mark.parametrize(
    ("program", "found"),
    [(ROW_BY_ROW, "that b writes all of C"), (HALF_WRITTEN, "that a block writes, or b reads, all of B")],
    ids=["a result of another row each time", "an intermediate that is written in part"],
)
def test_pad_einsum_copies_elements_that_have_a_value_only(program: str, found: str) -> None:
    with pytest.raises(ScheduleError, match=f"it is not shown {found}"):
        Schedule(from_source(program)).pad_einsum("b", [2])
    whole = program.replace("B[0, vj] = A[vj]", "B[0, vj] = A[vj]\n            B[1, vj] = A[vj]")
    if whole != program:  # the other row is copied, too, though nobody reads it
        sch = Schedule(from_source(whole))
        sch.pad_einsum("b", [2])
        same_at_both_levels(from_source(whole), sch.func)


def test_padding_of_symbolic_extents() -> None:
    n = SizeVar("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n + 4,), lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), A[i - 2], 0.0), name="B")
    func = te.create_prim_func([A, B])
    sch = Schedule(func)
    sch.decompose_padding("B", sch.get_loops("B")[0])
    assert "for i in range(n):" in statements(sch.func)
    sums = row_sums(7, n)  # type: ignore[arg-type]
    padded_sums = Schedule(sums)
    padded_sums.pad_einsum("B", [4, 4])
    assert "A_pad = T.alloc_buffer((8, (n + 3) // 4 * 4))" in statements(padded_sums.func)
    for before, made in ((func, sch.func), (sums, padded_sums.func)):
        same_at_both_levels(before, made)
