"""blockize, tensorize and TensorIntrin: textbook cases, what is matched, wrong intrinsics, random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import te
from minitvm.compat.tvm.schedule.testing import loop_handles
from minitvm.errors import InputError, InternalError, ScheduleError
from minitvm.machines.cpu import intrinsics as cpu
from minitvm.reference.strategies import prim_funcs
from minitvm.script import tir as T
from minitvm.tir.nodes import Block, MatchBufferRegion, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of
from minitvm.tir.tensor_intrin import TensorIntrin
from minitvm.tir.verifier import verify
from tests.fewer import examples

from . import programs
from .layout_programs import tiled_matmuls
from .meaning import same_at_both_levels, same_meaning

MATMUL = "matmul_4x4x4_f32"


def tiled(m: int = 8, n: int = 8, k: int = 8) -> tuple[PrimFunc, Schedule, list[Any]]:
    """A product in tiles of 4 x 4 x 4, and the loops."""
    func = programs.matmul(m, n, k)
    sch = Schedule(func)
    outer, inner = zip(*(sch.split(l, [None, 4]) for l in sch.get_loops("C")), strict=True)
    sch.reorder(*outer, *inner)
    return func, sch, [*outer, *inner]


def blocks(func: PrimFunc, name: str) -> list[Block]:
    return [n for n in minitvm.expr.walk(func.body) if isinstance(n, Block) and n.name == name]


# ---- blockize ------------------------------------------------------------------------------------------------------


def test_a_tile_becomes_a_block() -> None:
    func, sch, loops = tiled()
    outer = sch.get(sch.blockize(loops[3]))
    assert outer.name == "C_o" and [it.kind for it in outer.iter_vars] == ["S", "S", "R"]
    assert [str(r.region[0].start) for r in outer.reads] == ["v_i_o * 4", "v_k_o * 4"]
    assert [[str(d.extent) for d in r.region] for r in (*outer.reads, *outer.writes)] == [["4", "4"]] * 3
    (inner,) = blocks(sch.func, "C")
    assert inner.init is None and inner.reads[0].buffer is inner.writes[0].buffer
    assert len(blocks(sch.func, "C_init")) == 1
    same_meaning(func, sch)


@pytest.mark.parametrize(("at", "keep", "value"), [(2, True, "j_0"), (2, False, "0"), (1, True, "0"), (0, False, "0")])
def test_an_outer_iterator_of_one_value_is_driven_by_the_unit_loops_around(at: int, keep: bool, value: str) -> None:
    """All iterators stay. One with one value uses the loop of one iteration around it, or is a constant without it."""
    func = programs.matmul()
    sch = Schedule(func)
    sch.split(sch.get_loops("C")[1], [1, None])
    outer = sch.blockize(sch.get_loops("C")[at], keep)
    realize = sch.state.block(outer.key)
    assert realize is not None and len(realize.iter_values) == 3
    assert str(realize.iter_values[1]) == value
    verify(sch.func)
    same_at_both_levels(func, sch.func)


def test_conditions_on_outer_loops_stay_outside() -> None:
    func = programs.matmul(10, 8, 4)
    sch = Schedule(func)
    i, j, _ = sch.get_loops("C")
    sch.split(i, [None, 4])
    outer = sch.blockize(j)
    assert str(sch.state.block(outer.key).predicate) == "i_0 * 4 + i_1 < 10"
    same_at_both_levels(func, sch.func)


@examples(10, 30)
@given(prim_funcs(), st.data())
def test_random_subtrees_become_blocks(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    for loop in loop_handles(sch)[: data.draw(st.integers(0, 2))]:
        sch.split(loop, [None, data.draw(st.sampled_from([1, 2, 3]))])
    calls = sch.space("blockize")
    if calls:
        sch.apply(data.draw(st.sampled_from(calls)))
        same_at_both_levels(func, sch.func)


@pytest.mark.parametrize("place", [0, 1, None])
def test_blocks_that_follow_each_other_become_one(place: int | None) -> None:
    func = programs.chain()
    sch = Schedule(func)
    if place is not None:
        sch.compute_at("B", sch.get_loops("C")[place])
    outer = sch.blockize(["B", sch.get_block("C")])
    assert [b.name for b in map(sch.get, sch.get_child_blocks(outer))] == ["B", "C"]
    assert sch.get(outer).name == "outer_B_C_"
    assert len(sch.get(outer).iter_vars) == len(sch.get_loops(outer)) == (0 if place is None else place + 1)
    same_meaning(func, sch)


def test_a_group_of_blocks_leaves_unit_iterators_out() -> None:
    func = programs.two_consumers(rows=1)
    for keep in (True, False):
        sch = Schedule(func)
        sch.reverse_compute_at("D", sch.get_loops("C")[0], preserve_unit_loops=True)
        outer = sch.blockize(["C", "D"], preserve_unit_iters=keep)
        assert len(sch.get(outer).iter_vars) == keep
        same_meaning(func, sch)


@pytest.mark.parametrize(("target", "found"), [([], "no block"), (["B", "B"], "one of them twice")])
def test_what_is_neither_a_loop_nor_blocks(target: Any, found: str) -> None:
    with pytest.raises(ScheduleError, match=f"blockize.*one_run(.*\n)*.*found:  {found}"):
        Schedule(programs.chain()).blockize(target)


def test_a_block_alone_is_not_blockized() -> None:
    with pytest.raises(ScheduleError, match="blockize: target must be a loop .*, or a list of blocks, found a block"):
        Schedule(programs.chain()).blockize("B")


# ---- tensorize -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_block", [True, False])
def test_a_tile_becomes_an_intrinsic(as_block: bool) -> None:
    func, sch, loops = tiled(8, 12, 16)
    sch.tensorize(sch.blockize(loops[3]) if as_block else loops[3], MATMUL)
    views = [n for n in minitvm.expr.walk(sch.func.body) if isinstance(n, MatchBufferRegion)]
    assert [v.source.buffer.name for v in views] == ["A", "B", "C"]
    same_meaning(func, sch)
    text = sch.func.script()
    assert minitvm.script.from_source(text).script() == text
    built = minitvm.build(sch.func)
    a, b = (np.random.default_rng(0).integers(-8, 8, s).astype(np.float32) for s in ((8, 16), (16, 12)))
    c = np.zeros((8, 12), np.float32)
    built(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@T.prim_func
def bytes_against_rows(A: T.Buffer((3, 8), "int8"), B: T.Buffer((8, 8), "int8"), C: T.Buffer((3, 8), "int32")):
    for i, j, k in T.grid(3, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = T.Cast("int32", B[vj, vk]) * T.Cast("int32", A[vi, vk]) + C[vi, vj]


@pytest.mark.parametrize(("name", "rows"), [(cpu.DOT_4X4_I8I8I32, 4), (cpu.DOT_4_I8I8I32, 1)])
def test_operands_that_have_changed_places_match(name: str, rows: int) -> None:
    """Products of bytes; the program has both operands of + and of * the other way round."""
    sch = Schedule(bytes_against_rows)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, rows])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i, j_0, k_0, j_1, k_1)
    sch.tensorize(j_1, name)
    same_meaning(bytes_against_rows, sch)


def test_a_scalar_of_the_description() -> None:
    func, sch, loops = tiled()
    sch.decompose_reduction("C", loops[2])
    sch.tensorize(sch.get_loops("C_init")[-2], cpu.FILL_4X4_F32)
    sch.tensorize(loops[3], MATMUL)
    same_at_both_levels(func, sch.func)


def test_a_sum_that_starts_inside() -> None:
    """Description with an init, implementation with one, and without: then the reduction must be whole."""

    @T.prim_func
    def impl(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
        with T.block("root"):
            T.reads(A[0:4])
            T.writes(C[0])
            with T.init():
                C[0] = 0.0
            C[0] = C[0] + ((A[0] + A[1]) + (A[2] + A[3]))

    intrin = TensorIntrin.register("test.row_sum", program_of(on.SUM_OF_FOUR), impl, override=True, verify=True)
    row_sums = program_of(on.ROW_SUMS)
    sch = Schedule(row_sums)
    sch.tensorize(sch.get_loops("C")[2], intrin.name)
    same_at_both_levels(row_sums, sch.func)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a, b, c: c - a * b, "C[vi, vj] + A[vi, vk] * B[vk, vj]"),
        (lambda a, b, c: c + a * b * 2.0, "A[vi, vk] * B[vk, vj]"),
    ],
)
def test_another_computation_is_refused(change: Any, text: str) -> None:
    @T.prim_func
    def func(A: T.Buffer((4, 4)), B: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = change(A[vi, vk], B[vk, vj], C[vi, vj])

    sch = Schedule(func)
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(sch.get_loops("C")[0], MATMUL)
    assert "same_structure" in str(caught.value) and text in str(caught.value)


def test_a_transposed_operand_is_refused() -> None:
    @T.prim_func
    def func(A: T.Buffer((4, 4)), B: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]

    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="up to a constant offset"):
        sch.tensorize(sch.get_loops("C")[0], MATMUL)


@examples(7, 20)
@given(tiled_matmuls(), st.booleans())
def test_random_products_take_the_intrinsic(case: Any, keep_unit: bool) -> None:
    func, tile = case
    sch = Schedule(func)
    loops = tile(sch)
    if func.buffers[0].shape[1].value == 4 or keep_unit:
        sch.tensorize(loops[3], MATMUL, preserve_unit_iters=keep_unit)
    else:
        sch.tensorize(sch.blockize(loops[3], keep_unit), MATMUL)
    same_at_both_levels(func, sch.func)


# ---- the registry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [cpu.DOT_4X4_I8I8I32, cpu.DOT_4_I8I8I32, MATMUL, cpu.FILL_4X4_F32])
def test_the_intrinsics_of_the_package_do_what_they_say(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None and intrin.check()


def wrong_matmul() -> PrimFunc:
    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        row = T.int32()
        A = T.match_buffer(a, (4, 4), strides=[row, 1])
        B = T.match_buffer(b, (4, 4))
        C = T.match_buffer(c, (4, 4))
        with T.block("root"):
            T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j, k in T.grid(4, 4, 3):  # one step short
                with T.block("tile"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(4, k)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return impl


def test_a_wrong_intrinsic_is_caught() -> None:
    right = TensorIntrin.get(MATMUL)
    assert right is not None
    assert not TensorIntrin("wrong", right.desc, wrong_matmul()).check()
    with pytest.raises(InternalError, match="description and implementation differ"):
        TensorIntrin.register("test.wrong", right.desc, wrong_matmul(), verify=True)
    assert TensorIntrin.get("test.wrong", allow_missing=True) is None


def test_names_and_parameters_are_checked() -> None:
    right, other = TensorIntrin.get(MATMUL), TensorIntrin.get(cpu.DOT_4_I8I8I32)
    assert right is not None and other is not None
    with pytest.raises(InputError, match="already"):
        TensorIntrin.register(MATMUL, right.desc, right.impl)
    with pytest.raises(InputError, match="differ in shape"):
        TensorIntrin.register("test.mixed", right.desc, other.impl)
    with pytest.raises(InputError, match=MATMUL):
        TensorIntrin.get("matmul_4x4x4_f64")


def test_one_variable_is_one_stride() -> None:
    """A and B are tiles of buffers of different widths: they cannot share the variable of a stride."""
    right = TensorIntrin.get(MATMUL)
    assert right is not None

    @T.prim_func
    def impl(a: T.handle, b: T.handle, C: T.Buffer((4, 4), "float32")):
        row = T.int32()
        A = T.match_buffer(a, (4, 4), strides=[row, 1])
        B = T.match_buffer(b, (4, 4), strides=[row, 1])
        with T.block("root"):
            T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j, k in T.grid(4, 4, 4):
                with T.block("tile"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    TensorIntrin.register("test.one_stride", right.desc, impl, override=True, verify=True)
    func, sch, loops = tiled(8, 8, 12)
    with pytest.raises(ScheduleError, match=r"a stride of row = 12 in dimension 0 of B"):
        sch.tensorize(loops[3], "test.one_stride")
    func, sch, loops = tiled(8, 8, 8)
    sch.tensorize(loops[3], "test.one_stride")
    same_at_both_levels(func, sch.func)


def test_a_description_has_no_buffers_of_its_own() -> None:
    @T.prim_func
    def desc(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        with T.block("root"):
            T.reads(A[0:4])
            T.writes(C[0:4])
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi]
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = B[vi]

    with pytest.raises(InputError, match="buffers of its own, B"):
        TensorIntrin.register("test.own", desc, desc)


def test_two_uses_of_one_intrinsic_have_their_own_buffers() -> None:
    A, B = te.placeholder((4, 4), name="A"), te.placeholder((4, 4), name="B")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 4), name="l")
    C = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((4, 4), lambda i, j: te.sum(C[i, l] * B[l, j], axis=l), name="D")
    func = te.create_prim_func([A, B, D])
    sch = Schedule(func)
    for name in ("C", "D"):
        sch.tensorize(sch.get_loops(name)[0], MATMUL)
    views = [n.buffer for n in minitvm.expr.walk(sch.func.body) if isinstance(n, MatchBufferRegion)]
    assert len(views) == 6 and len(set(views)) == 6
    same_at_both_levels(func, sch.func)
