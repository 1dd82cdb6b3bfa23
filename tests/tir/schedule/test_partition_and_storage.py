"""merge, loop_partition, reorder_block_iter_var, add_unit_loop; storage_align, set_scope, unsafe_set_dtype,
annotate_buffer_access: what they make of known programs, and that random programs keep their meaning, lowered too."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.errors import ScheduleError
from minitvm.expr import const, find
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.reference.strategies import prim_funcs
from minitvm.script import from_source
from minitvm.tir.nodes import Block, BlockRealize, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of
from minitvm.tir.transform import lower
from minitvm.tir.transform.align_storage import aligned_strides
from tests.fewer import examples

from . import programs
from .meaning import same_meaning

_PAIRS = {"dev": 25, "ci": 200}.get(os.environ.get("HYPOTHESIS_PROFILE", "dev"), 1000)


def body(sch: Schedule) -> str:
    """The text of what is scheduled, from the first statement on."""
    return sch.func.script().split("\n", 4)[-1]


def names(sch: Schedule) -> list[str]:
    return [block.block.name for block in sch.state.tree().blocks.values()]


def compiled(func: PrimFunc, shape: tuple[int, ...], *, rows: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape) % 7
    c = np.full(rows, np.nan, "float32")
    tvm.build(func)(a, c)
    return a, c


# ---- merge ---------------------------------------------------------------------------------------------------------


def test_merge_makes_one_nest_of_three() -> None:
    func = programs.two_consumers()
    sch = Schedule(func)
    merged = sch.merge(*(sch.get_loops(name)[0] for name in "BCD"))
    assert sch.get(merged).var.name == "i_m"
    assert [sch.get_loops(name) for name in "BCD"] == [[merged]] * 3
    same_meaning(func, sch)
    _, d = compiled(sch.func, (8,), rows=(8,))
    assert np.array_equal(d, np.full(8, -1.0))


def test_merge_of_inner_loops_merges_those_around_them() -> None:
    func = programs.chain(10, 6)
    sch = Schedule(func)
    last = sch.get_loops("D")[1]
    merged = sch.merge(sch.get_loops("C")[1], last)
    outer, inner = sch.get_loops("C")
    assert inner == merged
    assert sch.get(outer).var.name == "i_m"
    assert sch.get_loops("D") == [outer, inner]
    same_meaning(func, sch)
    with pytest.raises(ScheduleError, match="loop j was merged into j_m"):
        sch.get(last)


def test_merge_moves_no_producer_behind_its_consumer() -> None:
    """The merged nest stands where the last one was: TVM 0.27 takes B behind C, which reads it."""
    sch = Schedule(programs.two_consumers())
    with pytest.raises(ScheduleError, match=r"keeps_order_of_nests[\s\S]*B\[0\] is written"):
        sch.merge(sch.get_loops("B")[0], sch.get_loops("D")[0])


# ---- loop_partition ------------------------------------------------------------------------------------------------


def test_loop_partition_names_everything_as_tvm_does() -> None:
    func = programs.chain()
    sch = Schedule(func)
    parts = sch.loop_partition(sch.get_loops("C")[0], [2, None, 1])
    ranges = [(sch.get(l).var.name, sch.get(l).start.value, sch.get(l).extent.value) for l in parts]
    assert ranges == [("i0", 0, 2), ("i1", 2, 5), ("i2", 7, 1)]
    assert names(sch) == ["root", "B", "C_i_common"] + [
        name for k in range(3) for name in (f"C_i{k}_partition", f"C_i{k}")
    ] + ["D"]
    block = sch.get(sch.get_block("C_i1_partition"))
    assert [str(r.extent) for r in block.reads[0].region] == ["7", "6"]  # TVM declares nothing here
    same_meaning(func, sch)
    sch.parallel(parts[1])
    same_meaning(func, sch)


def test_loop_partition_without_none_makes_one_more_loop() -> None:
    sch = Schedule(programs.matmul())
    assert len(sch.loop_partition(sch.get_loops("C")[1], [1, 2])) == 3
    again = sch.loop_partition(sch.get_loops("C_j2")[0], [2])  # from 3 to 6
    assert [(sch.get(l).start.value, sch.get(l).extent.value) for l in again] == [(3, 2), (5, 1)]
    same_meaning(programs.matmul(), sch)


def test_a_partitioned_reduction_starts_once() -> None:
    func = programs.matmul()
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("C")[2], [1, 2])
    inits = {name: sch.get(sch.get_block(name)).init is not None for name in ("C_k0", "C_k1", "C_k2")}
    assert inits == {"C_k0": True, "C_k1": False, "C_k2": False}
    assert [r.buffer.name for r in sch.get(sch.get_block("C_k1")).reads] == ["C", "A", "B"]
    same_meaning(func, sch)
    sch.decompose_reduction("C_k0", sch.get_loops("C_k0")[0])
    same_meaning(func, sch)


def test_parts_have_buffers_of_their_own() -> None:
    func = programs.chain(20, 16)
    sch = Schedule(func)
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.loop_partition(i, [5])
    same_meaning(func, sch)


# ---- iterators and loops of one block ------------------------------------------------------------------------------


def test_reorder_block_iter_var() -> None:
    sch = Schedule(programs.matmul())
    sch.reorder_block_iter_var("C", [2, 0, 1])
    assert 'v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])' in body(sch)
    same_meaning(programs.matmul(), sch)


def test_add_unit_loop() -> None:
    sch = Schedule(programs.matmul())
    i, j, k = sch.get_loops("C")
    outer, inner = sch.add_unit_loop(j), sch.add_unit_loop("C")
    assert sch.get_loops("C") == [i, outer, j, k, inner]
    sch.bind(outer, "blockIdx.x")
    assert sch.get(outer).extent.value == 1
    assert check(programs.matmul(), sch.func)


# ---- storage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "entries", "strides"),
    [
        ((128, 128), [(0, 32, 1)], [129, 1]),
        ((8, 6), [(0, 4, 1)], [9, 1]),
        ((8, 6), [(0, 6, 0)], []),
        ((4, 8, 6), [(1, 8, 3), (0, 16, 0)], [96, 11, 1]),
        ((8,), [(0, 2, 0)], [2]),
        ((8, 6), [], []),
    ],
)
def test_strides_of_aligned_storage(shape: Any, entries: Any, strides: list[int]) -> None:
    made = aligned_strides([const(d) for d in shape], entries)
    assert [s.value for s in made] == strides


def test_storage_align_pads_the_rows_of_the_kernel() -> None:
    func = program_of(on.TWO_ROWS)
    sch = Schedule(func)
    sch.storage_align("B", 0, axis=-2, factor=8, offset=1)
    sch.storage_align("B", 0, axis=0, factor=16, offset=3)  # takes the place of the first
    sch.storage_align("B", 0, axis=1, factor=2, offset=0)
    assert sch.get(sch.get_block("B")).annotations == {"buffer_dim_align": [[0, 0, 16, 3], [0, 1, 2, 0]]}
    lowered = lower(sch.func)
    assert "B[i * 19 + j * 2] = " in lowered.script()
    assert check(func, lowered)
    a, c = compiled(sch.func, (8, 4), rows=(8, 4))
    assert np.array_equal(c, a[::-1] * 2)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_axes_of_storage_align_count_from_either_end(ndim: int) -> None:
    loops, shape = "ijk"[:ndim], ", ".join(["4"] * ndim)
    point = ", ".join(f"v{letter}" for letter in loops)
    nest = f"for {', '.join(loops)} in T.grid({shape}):\n        with T.block('{{}}'):\n            "
    nest += f'{point} = T.axis.remap("{"S" * ndim}", [{", ".join(loops)}])\n            {{}}\n'
    buffers = f"A: T.Buffer(({shape},), 'float32'), C: T.Buffer(({shape},), 'float32')"
    stages = nest.format("B", f"B[{point}] = A[{point}] * T.float32(2)"), nest.format("C", f"C[{point}] = B[{point}]")
    allocation = f"B = T.alloc_buffer(({shape},))"
    func = from_source(f"@T.prim_func\ndef main({buffers}):\n    {allocation}\n    {stages[0]}    {stages[1]}")
    for axis in range(ndim):
        aligned = []
        for number in (axis, axis - ndim):
            sch = Schedule(func)
            sch.storage_align("B", 0, number, 8, 1)
            aligned.append(sch.func.script())
        assert aligned[0] == aligned[1] and f"[[0, {axis}, 8, 1]]" in aligned[0]


def test_storage_align_pads_what_is_left_of_a_tile() -> None:
    """Strides are those of the compacted buffer: 5 rows of 16, not of 64."""
    func = programs.chain(66, 64)
    sch = Schedule(func)
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at("B", j0)
    sch.storage_align("B", 0, 0, 16, 1)
    text = lower(sch.func).script()
    assert "* 17 + " in text
    same_meaning(func, sch)


def test_set_scope_moves_every_use() -> None:
    sch = Schedule(programs.two_consumers())
    sch.set_scope("B", 0, "shared.dyn")
    text = body(sch)
    assert 'B_shared_dyn = T.alloc_buffer((8,), scope="shared.dyn")' in text
    assert text.count("B_shared_dyn[") == 6  # two in B, two reads of each consumer
    before = sch.mod
    sch.set_scope("B", "B_shared_dyn", "shared.dyn")
    assert sch.mod is before
    same_meaning(programs.two_consumers(), sch)


def test_set_scope_takes_views_along() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            T.writes(B[vi * 4:vi * 4 + 4])
            part = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), offset_factor=1)
            for j in range(4):
                part[j] = A[vi * 4 + j]
    for i in range(2):
        with T.block("C"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 4:vi * 4 + 4])
            other = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), offset_factor=1)
            for j in range(4):
                C[vi * 4 + j] = other[3 - j]
""")
    sch = Schedule(func)
    sch.set_scope("B", 0, "local")
    views = [match.buffer for block in find(sch.func.body, Block) for match in block.match_buffers]
    assert [view.scope for view in views] == ["local", "local"]
    same_meaning(func, sch)


def test_unsafe_set_dtype_converts_at_every_use() -> None:
    func = programs.matmul()
    sch = Schedule(func)
    sch.cache_write("C", 0, "local")
    sch.unsafe_set_dtype("C", "C_local", "float64")
    text = body(sch)
    assert 'C_local[v_i, v_j] = T.Cast("float64", T.float32(0.0))' in text
    assert 'C_local[v_i, v_j] = T.Cast("float64", T.Cast("float32", C_local[v_i, v_j]) + ' in text
    assert 'T.Cast("float32", C_local[' in text.rsplit("with", 1)[-1]
    same_meaning(func, sch)


def test_a_narrow_dtype_is_unsafe() -> None:
    """Legal, as in TVM; what does not fit the dtype is lost."""
    sch = Schedule(program_of(on.TWO_ROWS))
    sch.unsafe_set_dtype("B", 0, "float16")
    a, c = np.full((8, 4), 1025.5, "float32"), np.zeros((8, 4), "float32")
    interpreter.run(sch.mod, a, c)
    assert np.array_equal(c, np.full((8, 4), np.float16(2051.0), "float32"))
    assert c[0, 0] != 2051.0


def test_an_annotated_read_is_what_compute_at_computes() -> None:
    func = programs.chain()
    sch = Schedule(func)
    sch.annotate_buffer_access("D", 0, "read", lambda vi, vj: ((vi, vi + 2), vj))
    assert "T.reads(C[v_i:v_i + 2, v_j])" in body(sch)
    assert sch.get(sch.get_block("D")).annotations == {"explicit_read_region": [0]}
    sch.compute_at("C", sch.get_loops("D")[0])
    assert [sch.get(l).extent.value for l in sch.get_loops("C")] == [8, 2, 6]
    same_meaning(func, sch)


def test_annotations_of_every_kind_of_value() -> None:
    sch = Schedule(programs.matmul())
    i, *_ = sch.get_loops("C")
    number = sch.sample_categorical([2, 3], [0.0, 1.0])
    values = {"a": 1, "b": "x", "c": 1.5, "d": [1, "y"], "e": {"k": 2}, "f": True}
    for key, value in values.items():
        sch.annotate(i, key, value)
    sch.annotate(i, "g", [number, number + 1])
    assert sch.get(i).annotations == {**values, "g": [3, 4]}
    sch.unannotate(i, "a")
    assert "a" not in sch.get(i).annotations


# ---- random programs -----------------------------------------------------------------------------------------------

_BEFORE = ("split", "reorder", "fuse", "compute_at", "reverse_compute_at", "cache_read", "cache_write")


def _draw_each(func: PrimFunc, data: Any, *chosen: str) -> Schedule:
    """A schedule with one call of each primitive, after some steps that make work for them."""
    sch = Schedule(func)
    choose = st.integers(0, 1 << 16)
    for step in (*[_BEFORE] * data.draw(st.integers(0, 2)), *[(name,) for name in chosen]):
        call = sch.draw(lambda n: data.draw(choose) % n, *step)
        if call is not None:
            sch.apply(call)
    return sch


@pytest.mark.full  # test_properties has 200 pairs of each
@settings(max_examples=_PAIRS)
@given(prim_funcs(min_blocks=2, kinds=("elementwise", "broadcast", "reduce", "matmul", "predicate")), st.data())
def test_merge_keeps_the_meaning(func: PrimFunc, data: Any) -> None:
    same_meaning(func, _draw_each(func, data, "merge"))


@pytest.mark.full  # test_properties has 200 pairs of each
@settings(max_examples=_PAIRS)
@given(prim_funcs(), st.data())
def test_loop_partition_keeps_the_meaning(func: PrimFunc, data: Any) -> None:
    same_meaning(func, _draw_each(func, data, "loop_partition", "add_unit_loop", "reorder_block_iter_var"))


@pytest.mark.full  # test_properties has 200 pairs of each
@settings(max_examples=_PAIRS)
@given(prim_funcs(min_blocks=2), st.data())
def test_storage_keeps_the_meaning(func: PrimFunc, data: Any) -> None:
    chosen = ("storage_align", "set_scope", "unsafe_set_dtype", "annotate_buffer_access", "compute_at")
    same_meaning(func, _draw_each(func, data, *chosen))


@examples(8, 25, phases=[Phase.explicit, Phase.generate])  # too many primitives to shrink in time
@given(prim_funcs(), st.data())
def test_parts_are_scheduled_on(func: PrimFunc, data: Any) -> None:
    """After a partition or merge, whatever else is legal."""
    sch = _draw_each(func, data, "merge", "loop_partition")
    for _ in range(3):
        call = sch.draw(lambda n: data.draw(st.integers(0, 1 << 16)) % n)
        if call is not None:
            sch.apply(call)
    assert isinstance(sch.func.body, BlockRealize)
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{func.script()}\n{sch.trace}\n{sch.func.script()}"
