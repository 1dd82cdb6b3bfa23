"""The cache family: what each primitive makes of a textbook program, edges, traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minitvm import reference, te
from minitvm.errors import ScheduleError
from minitvm.expr import walk
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir import Schedule
from minitvm.tir.nodes import Block

from . import programs
from .meaning import same_at_both_levels, same_meaning


@T.prim_func
def three_readers(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[7 - vi] * 2.0


def _reads(sch: Schedule, name: str) -> list[str]:
    return [r.buffer.name for r in sch.get(sch.get_block(name)).reads]


# ---- cache_read, cache_write ---------------------------------------------------------------------------------------


def test_all_readers_of_the_scope_read_the_copy_unless_some_are_named() -> None:
    sch = Schedule(three_readers)
    sch.cache_read("C", 0, "local")
    assert (_reads(sch, "C"), _reads(sch, "D")) == (["B_local"], ["B_local"])
    same_meaning(three_readers, sch)
    sch = Schedule(three_readers)
    sch.cache_read("C", 0, "local", consumer_blocks=[sch.get_block("D")])
    assert (_reads(sch, "C"), _reads(sch, "D")) == (["B"], ["B_local"])
    same_meaning(three_readers, sch)


def test_of_a_written_buffer_all_that_is_written_is_copied() -> None:
    sch = Schedule(programs.chain(10, 6))  # C reads B with a halo of two rows
    copy = sch.cache_read("C", 0, "local")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(copy)] == [10, 6]
    same_meaning(programs.chain(10, 6), sch)


@T.prim_func
def sliding_rows(n: T.int32, a: T.handle, b: T.handle):
    A = T.match_buffer(a, (n + 8,), "float32")
    B = T.match_buffer(b, (8, n), "float32")
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            for j in range(n):
                with T.block("B"):
                    vj = T.axis.spatial(n, j)
                    B[vi, vj] = A[vi + vj]


def test_a_box_that_moves_and_has_a_symbolic_extent_is_copied_in_full() -> None:
    sch = Schedule(sliding_rows)
    sch.cache_read("B", 0, "local")
    same_meaning(sliding_rows, sch)


def test_consumers_of_cache_write_read_the_new_buffer() -> None:
    sch = Schedule(three_readers)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    assert (_reads(sch, "C"), _reads(sch, "D")) == (["B_local"], ["B"])
    same_meaning(three_readers, sch)


def test_a_copy_may_not_make_parallel_iterations_meet() -> None:
    @T.prim_func
    def rows(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
        for i in T.parallel(4):
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + 1.0

    sch = Schedule(rows)
    sch.cache_write("C", 0, "local")  # stands after the loop: nobody meets
    same_meaning(rows, sch)


@T.prim_func
def gathered(A: T.Buffer((8,), "float32"), I: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("rows"):
            v = T.axis.spatial(4, i)
            T.reads(A[T.min(T.max(I[v], 0), 7)], I[v])
            T.writes(C[v])
            with T.block("C"):
                vi = T.axis.spatial(4, v)
                T.reads(I[vi], A[T.min(T.max(I[vi], 0), 7)])
                T.writes(C[vi])
                C[vi] = A[T.min(T.max(I[vi], 0), 7)]


def test_a_block_that_copies_indices_declares_all_that_they_may_point_at() -> None:
    """What it allocates itself is not known outside, where its regions are read."""
    sch = Schedule(gathered)
    sch.cache_read("C", "I", "local")
    rows = sch.get(sch.get_block("rows"))
    assert [str(r.extent) for region in rows.reads for r in region.region] == ["8", "1"]
    same_meaning(gathered, sch)


def test_annotate_buffer_access_offers_no_ranges_that_a_trace_cannot_keep() -> None:
    offered = [call.arguments["gen_new_ranges"] for call in Schedule(gathered).space("annotate_buffer_access")]
    assert [repr(ranges) for ranges in offered] == ["lambda v: [(v, v + 2)]"]


# ---- cache_inplace -------------------------------------------------------------------------------------------------


@T.prim_func
def updated(A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi]
    for i_0, i_1 in T.grid(4, 3):
        with T.block("update"):
            vi = T.axis.spatial(10, i_0 * 3 + i_1)
            T.where(i_0 * 3 + i_1 < 10)
            B[vi] = B[vi] * 3 + 1
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi]


def test_cache_inplace_copies_in_and_out_around_the_block() -> None:
    sch = Schedule(updated)
    stages = sch.cache_inplace("update", 0, "local")
    assert len(stages) == 2
    parents = [sch.get_loops(block)[:2] for block in (*stages, "update")]
    assert parents[0] == parents[1] == parents[2]
    same_meaning(updated, sch)


def test_cache_inplace_takes_a_name() -> None:
    sch = Schedule(updated)
    sch.cache_inplace("update", "B", "local")
    assert _reads(sch, "update") == ["B_local"]


@T.prim_func
def written_in_part(A: T.Buffer((2,), "float32"), C: T.Buffer((3,), "float32")):
    for i in range(1):
        with T.block("first"):
            vi = T.axis.spatial(1, i)
            C[vi] = T.float32(1)
    for i in range(2):
        with T.block("C"):
            vi = T.axis.opaque(2, i)
            C[vi + 1] = C[vi] + A[vi]


def test_cache_inplace_copies_in_only_what_the_block_reads() -> None:
    """A block may declare more than it reads; what nobody wrote would be copied."""
    sch = Schedule(written_in_part)
    sch.annotate_buffer_access("C", 0, "read", lambda vi: [(vi, vi + 2)])
    with pytest.raises(ScheduleError, match="finds_values"):
        sch.cache_inplace("C", "C", "local")


@T.prim_func
def summed(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def handed_on(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.opaque(4, i)
            T.reads(A[vi * 2 : vi * 2 + 2], C[vi * 2 : vi * 2 + 2])
            T.writes(C[vi * 2 : vi * 2 + 2])
            for j in range(2):
                C[vi * 2 + j] = A[vi * 2 + j]
            for j in range(2):
                C[vi * 2 + j] = C[vi * 2 + j] * 2.0


@pytest.mark.parametrize("func", [summed, handed_on], ids=["init", "loops"])
def test_cache_inplace_refuses_what_the_block_writes_before_it_reads_it(func) -> None:
    with pytest.raises(ScheduleError, match="finds_values"):
        Schedule(func).cache_inplace("C", "C", "local")


def test_cache_inplace_refuses_blocks_inside_that_may_write_first() -> None:
    sch = Schedule(programs.matmul())
    sch.loop_partition(sch.get_loops("C")[2], [1])
    with pytest.raises(ScheduleError, match="may write first: C_k0_partition, C_k1_partition"):
        sch.cache_inplace("C_k_common", "C", "local")


@T.prim_func
def smoothed(A: T.Buffer((8,), "float32")):
    for i in range(6):
        with T.block("A"):
            vi = T.axis.opaque(6, i)
            A[vi + 1] = (A[vi] + A[vi + 2]) * 0.5


def test_cache_inplace_takes_the_gaps_of_what_the_caller_gave() -> None:
    sch = Schedule(smoothed)
    sch.cache_inplace("A", 0, "local")
    same_meaning(smoothed, sch)


# ---- read_at, write_at ---------------------------------------------------------------------------------------------


def test_read_at_and_write_at_stage_a_tile() -> None:
    func = programs.matmul(8, 6, 4)
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    sch.reorder(i_0, k, i_1, j)
    sch.write_at(i_0, "C", 0, "local")
    sch.read_at(k, "C", 0, "shared")
    sch.read_at(k, "C", 1, "shared")
    assert [b.block.name for b in sch.state.tree().blocks.values()] == ["root", "A_shared", "B_shared", "C", "C_local"]
    assert dict(sch.get(sch.get_block("A_shared")).annotations) == {"auto_copy": 1}
    same_meaning(func, sch)


def test_write_at_a_loop_of_the_reduction_keeps_the_sum() -> None:
    func = programs.matmul()
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    sch.write_at(k, "C", 0, "local")
    same_meaning(func, sch)


def test_read_at_of_imperfect_tiles_stays_in_bounds() -> None:
    func = programs.chain(10, 6)
    sch = Schedule(func)
    i_0, _ = sch.split(sch.get_loops("C")[0], [None, 3])  # 8 rows
    sch.read_at(i_0, "C", 0, "local")
    block = sch.get(sch.get_block("B_local"))
    assert isinstance(block, Block)
    same_meaning(func, sch)


def test_write_at_refuses_what_goes_on_elsewhere() -> None:
    sch = Schedule(programs.matmul())
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    with pytest.raises(ScheduleError, match="written_below_only"):
        sch.write_at(sch.get_loops("C_update")[2], "C_update", 0, "local")


# ---- what only the body tells --------------------------------------------------------------------------------------


def test_a_copy_believes_no_region_that_the_body_does_not_write() -> None:
    @T.prim_func
    def gaps(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        with T.block("B"):
            T.reads(A[0:8])
            T.writes(C[0:8])
            for k in range(8):
                if A[k] > 0.0:
                    C[k] = A[k]

    with pytest.raises(ScheduleError, match="fills_its_box"):
        Schedule(gaps).cache_write("B", 0, "local")


def test_a_copy_of_a_copy_that_stops_early_is_refused() -> None:
    """The tail of the first copy reads nothing, so that nothing had to be written there."""

    @T.prim_func
    def tail(A: T.Buffer((2, 2), "float32"), B: T.Buffer((2, 2), "float32")):
        for i, j in T.grid(3, 2):
            with T.block("B"):
                vi = T.axis.spatial(2, i)
                vj = T.axis.remap("S", [j])
                T.where(i < 2)
                B[vi, vj] = A[vi, vj] + 1.0

    sch = Schedule(tail)
    j = sch.get_loops("B")[1]
    first = sch.read_at(j, "B", 0, "local")
    sch.reindex_cache_read(first, 0, "local", lambda v0, v1: (v1 // 2, v0, v1 % 2))
    with pytest.raises(ScheduleError, match="initialised"):
        sch.read_at(j, first, 0, "local")
    same_meaning(tail, sch)


def test_a_reduction_that_goes_on_is_not_staged_in_one_run_of_its_scope() -> None:
    @T.prim_func
    def least(A: T.Buffer((7, 4), "float32"), R: T.Buffer((), "float32")):
        for k, l in T.grid(7, 4):
            with T.block("R"):
                vk, vl = T.axis.remap("RR", [k, l])
                with T.init():
                    R[()] = 3.0
                R[()] = T.min(R[()], A[vk, vl])

    sch = Schedule(least)
    inner = sch.loop_partition(sch.get_loops("R")[1], [1, 2])[0]
    for refused in (
        lambda: sch.write_at(inner, "R_l0", 0, "local"),
        lambda: sch.cache_write("R_l0", 0, "local"),
        lambda: sch.reindex_cache_write("R_l0", 0, "local", lambda k, l: ()),
        lambda: sch.decompose_reduction("R_l0", inner),
    ):
        with pytest.raises(ScheduleError, match="k stands still"):
            refused()
    same_meaning(least, sch)


def test_read_at_where_nothing_is_read() -> None:
    @T.prim_func
    def shifted(A: T.Buffer((4,), "float32"), B: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("B"):
                v = T.axis.remap("S", [i])
                B[v] = T.if_then_else(v >= 1 and v < 5, A[v - 1], 3.0)

    sch = Schedule(shifted)
    first = sch.loop_partition(sch.get_loops("B")[0], [1])[0]
    sch.read_at(first, "B_i0", 0, "local")
    same_meaning(shifted, sch)


def test_read_at_of_a_gather_declares_the_indices_that_it_reads() -> None:
    @T.prim_func
    def gather(A: T.Buffer((3,), "int32"), I: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32")):
        for i in range(3):
            with T.block("C"):
                v = T.axis.remap("S", [i])
                T.reads(I[v], A[T.max(T.min(I[v], 2), 0)])
                T.writes(C[v])
                C[v] = A[T.max(T.min(I[v], 2), 0)] * 2

    sch = Schedule(gather)
    copy = sch.read_at(sch.get_loops("C")[0], "C", 1, "local")
    assert [r.buffer.name for r in sch.get(copy).reads] == ["A", "I"]
    same_meaning(gather, sch)


@T.prim_func
def guarded_ends(B: T.Buffer((2,), "float32"), D: T.Buffer((6,), "float32"), E: T.Buffer((2,), "float32")):
    with T.block("whole"):
        T.reads(B[-2:6])
        T.writes(D[0:6], E[0:2])
        with T.block("before"):
            T.reads(B[-2])
            T.writes(D[0])
            D[0] = T.if_then_else(T.bool(False), B[-2], T.float32(0.0))
        for i in range(5):
            with T.block("inside"):
                vi = T.axis.remap("S", [i])
                T.reads(B[vi - 1])
                T.writes(D[vi + 1])
                D[vi + 1] = T.if_then_else(vi >= 1 and vi < 3, B[vi - 1], T.float32(0.0))
        for i in range(2):
            with T.block("behind"):
                vi = T.axis.remap("S", [i])
                T.reads(B[vi + 4])
                T.writes(E[vi])
                E[vi] = T.if_then_else(vi > 1, B[vi + 4], T.float32(1.0))


@pytest.mark.parametrize("name", ["before", "inside", "behind"])
def test_a_copy_of_what_lies_outside_of_the_buffer_is_empty(name: str) -> None:
    """A guarded read may declare elements that are not there: of these there is no copy."""
    sch = Schedule(guarded_ends)
    inner = sch.get_child_blocks(sch.get_block("whole"))
    reader = next(b for b in inner if sch.get(b).name == name)
    sch.cache_read(reader, 0, "local", consumer_blocks=[reader])
    (cached,) = next(b for b in walk(sch.func.body) if isinstance(b, Block) and b.name == "whole").alloc_buffers
    assert [int(d) for d in cached.shape] == [2 if name == "inside" else 0]
    same_at_both_levels(guarded_ends, sch.func)


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 7), st.integers(1, 8), st.booleans(), st.booleans())
def test_a_copy_reads_what_was_written(
    filled: int, first: int, start: int, second: int, always: bool, at: bool
) -> None:
    """A buffer is filled in part, outside of the scope; one block reads some of that, another one more, perhaps."""
    assume(first <= filled and start + second <= 8 and (not always or start + second <= filled))
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), n: T.int32):
    B = T.alloc_buffer((8,))
    for i in range({filled}):
        with T.block("B"):
            vi = T.axis.spatial({filled}, i)
            B[vi] = A[vi]
    with T.block("scope"):
        for k in range(2):
            for i in range({first}):
                with T.block("C"):
                    vi = T.axis.spatial({first}, i)
                    C[vi] = B[vi]
            for i in range({second}):
                with T.block("D"):
                    vi = T.axis.spatial({second}, i)
                    if {"n < 100" if always else "n > 100"}:
                        D[vi] = B[vi + {start}]
""")
    sch = Schedule(func)
    try:
        if at:
            sch.read_at(sch.get_loops("C")[0], "C", 0, "local")
        else:
            sch.cache_read("C", 0, "local")
    except ScheduleError as error:
        # One reader that reads all that is copied is enough.
        assert error.requirement == "initialised" and not (start + second <= first)
        return
    arrays = [np.zeros(8, "float32") for _ in range(3)]
    interpreter.run(sch.func, *arrays, 3, inout=("C", "D"))


def test_a_sum_of_open_length_is_kept_in_another_buffer() -> None:
    """Where a sum has no terms its element is undefined, copied or not; who starts none leaves out elements."""
    n = te.size_var("n")
    a = te.placeholder((3, n), name="A")
    k = te.reduce_axis((0, n), "k")
    func = te.create_prim_func([a, te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")])
    sch = Schedule(func)
    sch.cache_write("B", 0, "local")
    assert reference.check(func, sch.func)
    update = Schedule(func)
    update.decompose_reduction("B", update.get_loops("B")[1])
    with pytest.raises(ScheduleError, match="cache_write"):
        update.cache_write("B_update", 0, "local")
