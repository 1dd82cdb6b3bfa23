"""reindex and cache_index: copies laid out as a block runs, and indices computed beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.errors import ScheduleError
from minitvm.expr import structural_equal, walk
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir import IndexMap, Schedule
from minitvm.tir.nodes import BufferLoad

from . import programs
from .cache_programs import transposed
from .meaning import assert_becomes, same_meaning


def _reads(sch: Schedule, name: str) -> list[str]:
    return [r.buffer.name for r in sch.get(sch.get_block(name)).reads]


# ---- reindex -------------------------------------------------------------------------------------------------------


@T.prim_func
def reindexed(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
    A_reindex = T.alloc_buffer((8, 4))
    for ax0, ax1 in T.grid(8, 4):
        with T.block("A_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(A[v1, v0])
            T.writes(A_reindex[v0, v1])
            A_reindex[v0, v1] = A[v1, v0]
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A_reindex[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A_reindex[vi, vj] * 2.0


@pytest.mark.parametrize("buffer", [("read", 0), ["read", 0], "A"])
def test_reindex_lays_a_buffer_out_as_the_block_runs(buffer: Any) -> None:
    sch = Schedule(transposed)
    sch.reindex("B", buffer)
    assert_becomes(transposed, sch, reindexed)


@pytest.mark.parametrize("call", [
    lambda sch: sch.reindex("B", ("read", 1)),
    lambda sch: sch.reindex_cache_read("B", 1, "local", lambda vi: (vi // 2, vi % 2)),
])  # fmt: skip
def test_a_block_that_reads_what_it_wrote_itself_reads_no_copy(call: Any) -> None:
    @T.prim_func
    def updated(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]
                B[vi] = B[vi] + A[vi]

    with pytest.raises(ScheduleError, match="wanted: a buffer that B reads and does not write"):
        call(Schedule(updated))


def test_reindex_copies_back_only_what_every_iteration_writes() -> None:
    @T.prim_func
    def half(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                if vi < 4:
                    B[vi] = A[vi]
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi]

    for call in (("reindex", ("write", 0)), ("reindex_cache_write", 0, "local", lambda i: 7 - i)):
        with pytest.raises(ScheduleError, match=r"copies_its_values(.|\n)*B may leave out B\[vi\]"):
            getattr(Schedule(half), call[0])("B", *call[1:])


def test_reindex_leaves_out_what_does_not_index_the_buffer() -> None:
    sch = Schedule(programs.matmul())
    for k, kind in enumerate(("read", "read", "write")):
        sch.reindex("C", (kind, k % 2))
    shapes = {b.name: [int(d.value) for d in b.shape] for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert shapes == {"A_reindex": [8, 4], "B_reindex": [6, 4], "C_reindex": [8, 6]}
    same_meaning(programs.matmul(), sch)


def test_reindex_takes_padding_along() -> None:
    @T.prim_func
    def padded(A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(vi >= 1 and vi < 7, A[vi - 1], 0.0)

    sch = Schedule(padded)
    sch.reindex("B", ("read", 0))  # elements that are not there are not copied
    same_meaning(padded, sch)


def test_reindex_cache_read_lays_out_by_a_map() -> None:
    sch = Schedule(transposed)
    copy = sch.reindex_cache_read("B", 0, "local", lambda vi, vj: (vi // 4, vj, vi % 4))
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert ([int(d.value) for d in buffer.shape], buffer.scope) == ([2, 4, 4], "local")
    assert sch.get(copy).name == "A_local"
    same_meaning(transposed, sch)


def test_reindex_cache_read_takes_an_index_map() -> None:
    sch = Schedule(transposed)
    sch.reindex_cache_read("B", 0, "local", IndexMap.from_func(lambda vi, vj: (vj, vi)))
    assert check(transposed, sch.func)


def test_reindex_cache_copies_keep_tiles_and_their_predicate() -> None:
    sch = Schedule(transposed)
    sch.split(sch.get_loops("B")[0], [None, 3])
    copy = sch.reindex_cache_read("B", 0, "local", lambda vi, vj: (vj, vi))
    back = sch.reindex_cache_write("B", 0, "local", lambda vi, vj: (vj, vi))
    for block in (copy, back):
        assert [sch.get(loop).extent.value for loop in sch.get_loops(block)] == [3, 3, 4]
    same_meaning(transposed, sch)


def test_reindex_cache_write_of_a_reduction() -> None:
    sch = Schedule(programs.matmul())
    sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
    assert len(sch.get_loops("C_local")) == 2  # not over k
    same_meaning(programs.matmul(), sch)


# ---- cache_index ---------------------------------------------------------------------------------------------------


@T.prim_func
def resized(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi // 4 + vj // 4, vj // 2])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]


@T.prim_func
def looked_up(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    index_var_0 = T.alloc_buffer((8, 8), "int32")
    index_var_1 = T.alloc_buffer((8,), "int32")
    for ax0, ax1 in T.grid(8, 8):
        with T.block("index_0"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads()
            T.writes(index_var_0[v0, v1])
            index_var_0[v0, v1] = v0 // 4 + v1 // 4
    for ax0 in range(8):
        with T.block("index_1"):
            v0 = T.axis.spatial(8, ax0)
            T.reads()
            T.writes(index_var_1[v0])
            index_var_1[v0] = v0 // 2
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi // 4 + vj // 4, vj // 2], index_var_0[vi, vj], index_var_1[vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]


@pytest.mark.parametrize("threshold", [0, 1])
def test_cache_index_looks_indices_up(threshold: int) -> None:
    sch = Schedule(resized)
    assert len(sch.cache_index("B", "global", threshold)) == 2
    assert_becomes(resized, sch, looked_up)


def test_cache_index_may_ask_for_what_is_computed_often() -> None:
    @T.prim_func
    def bilinear(A: T.Buffer((5, 5), "float32"), B: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi // 2, vj // 2] + A[vi // 2 + 1, vj // 2] + A[vi // 2, vj // 2 + 1]

    sch = Schedule(bilinear)
    stages = sch.cache_index("B", "global", 3)  # vi // 2 and vj // 2, three times each
    assert [len(sch.get(stage).iter_vars) for stage in stages] == [1, 1]
    same_meaning(bilinear, sch)


def test_where_nothing_is_computed_nothing_is_cached() -> None:
    sch = Schedule(transposed)
    assert sch.cache_index("B", "global") == []
    assert structural_equal(sch.func, transposed)


def test_an_index_that_depends_on_data_stays() -> None:
    @T.prim_func
    def gathered(A: T.Buffer((8,), "float32"), I: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                T.reads(A[0:8], I[0:4])
                T.writes(B[vi])
                B[vi] = A[T.max(T.min(I[vi // 2 * 2], 7), 0)]

    sch = Schedule(gathered)
    sch.cache_index("B", "global")
    (index,) = [
        n.indices[0] for n in walk(sch.get(sch.get_block("B"))) if isinstance(n, BufferLoad) and n.buffer.name == "I"
    ]
    assert isinstance(index, BufferLoad)
    same_meaning(gathered, sch)
