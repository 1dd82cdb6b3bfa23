# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of cache_read, cache_write, cache_inplace, reindex, cache_index, read_at, write_at."""

from __future__ import annotations

from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule

from . import programs
from .case import CASES, loop, on

M = programs.matmul


@T.prim_func
def asked_between(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        if A[i] > 0.0:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0


@T.prim_func
def asked_after(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
        if B[i] > 0.0:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = 1.0


@T.prim_func
def deciding(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        if B[i] > 0.0:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]


@T.prim_func
def half_overwritten(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = 0.0
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


@T.prim_func
def shifting(A: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi + 1]


@T.prim_func
def running(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + 1.0


@T.prim_func
def updated_where_positive(A: T.Buffer((8,), "float32")):
    for i in range(8):
        if A[i] > 0.0:
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + 1.0


@T.prim_func
def started_in_place(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
            B[vi] = B[vi] + 1.0


@T.prim_func
def two_points(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + A[vi + 1]


@T.prim_func
def written_over(A: T.Buffer((4, 4), "float32"), B: T.Buffer((7,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + vj] = A[vi, vj]


@T.prim_func
def rows_in_turn(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 2, vj]


@T.prim_func
def added_outside(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("zero"):
            vi = T.axis.spatial(4, i)
            B[vi] = 0.0
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            B[vi] = B[vi] + A[vi, vj]


@T.prim_func
def added_to(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            B[vi] = B[vi] + A[vi, vj]


def _tiled(sch: Schedule) -> None:
    sch.split(loop(sch, "C"), [None, 2])


CASES["cache_read.read_in_blocks"] = on(asked_between, lambda s: s.cache_read("B", 0, "local"))
CASES["cache_read.initialised"] = on(programs.sparse, lambda s: s.cache_read("C", 0, "local"))
CASES["cache_read.values_of_writer"] = on(half_overwritten, lambda s: s.cache_read("B", 0, "local"))
CASES["cache_write.written_in_blocks"] = on(deciding, lambda s: s.cache_write("B", 0, "local"))
CASES["cache_write.values_of_writer"] = on(
    half_overwritten, lambda s: s.cache_write("A", 0, "local", consumer_blocks=["B"])
)
CASES["cache_inplace.reads_it"] = on(running, lambda s: s.cache_inplace("A", "B", "local"))
CASES["cache_inplace.updates_it"] = on(M, lambda s: s.cache_inplace("C", 0, "local"))
CASES["cache_inplace.writes_what_it_reads"] = on(shifting, lambda s: s.cache_inplace("A", 0, "local"))
CASES["cache_inplace.finds_values"] = on(started_in_place, lambda s: s.cache_inplace("B", "B", "local"))
CASES["cache_inplace.read_in_blocks"] = on(updated_where_positive, lambda s: s.cache_inplace("A", 0, "local"))

CASES["reindex.names_an_access"] = on(M, lambda s: s.reindex("C", ("read", 2)))
CASES["reindex.single_point"] = on(two_points, lambda s: s.reindex("B", ("read", 0)))
CASES["reindex.sound_dataflow"] = on(added_to, lambda s: s.reindex("B", ("write", 0)))
CASES["reindex.copies_its_values"] = on(rows_in_turn, lambda s: s.reindex("C", "B"))
CASES["reindex.initialised"] = on(programs.sparse, lambda s: s.reindex("C", ("read", 0)))
CASES["reindex_cache_read.reads_it"] = on(M, lambda s: s.reindex_cache_read("C", 2, "local", lambda i, j, k: (i, k)))
CASES["reindex_cache_read.single_point_read"] = on(
    two_points, lambda s: s.reindex_cache_read("B", 0, "local", lambda i: i)
)
CASES["reindex_cache_read.at_most_one_writer"] = on(
    programs.written_twice, lambda s: s.reindex_cache_read("C", 0, "local", lambda i: i)
)
CASES["reindex_cache_read.map_of_read"] = on(M, lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j)))
CASES["reindex_cache_write.writes_it"] = on(M, lambda s: s.reindex_cache_write("C", 1, "local", lambda i, j, k: (i, j)))
CASES["reindex_cache_write.single_point_written"] = on(
    written_over, lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (i, j))
)
CASES["reindex_cache_write.only_writer"] = on(
    added_to, lambda s: s.reindex_cache_write("B", 0, "local", lambda i, k: i)
)
CASES["reindex_cache_write.map_of_write"] = on(
    M, lambda s: s.reindex_cache_write("C", 0, "local", lambda i, j, k: (i // 2, j))
)
CASES["cache_index.valid_threshold"] = on(M, lambda s: s.cache_index("C", "global", -1))
CASES["cache_index.one_level"] = on(programs.nested, lambda s: s.cache_index("outer", "global"))
CASES["read_at.below_loop"] = on(programs.chain, lambda s: s.read_at(loop(s, "B"), "C", 0, "local"))
CASES["read_at.reads_it"] = on(M, lambda s: s.read_at(loop(s, "C"), "C", 2, "local"))
CASES["read_at.not_written_below"] = on(rows_in_turn, lambda s: s.read_at(loop(s, "C"), "C", 0, "local"))
CASES["read_at.read_in_blocks"] = on(asked_between, lambda s: s.read_at(loop(s, "B"), "B", 0, "local"))
CASES["read_at.initialised"] = on(programs.sparse, lambda s: s.read_at(loop(s, "C"), "C", 0, "local"), _tiled)
CASES["write_at.below_loop"] = on(programs.chain, lambda s: s.write_at(loop(s, "B"), "C", 0, "local"))
CASES["write_at.writes_it"] = on(M, lambda s: s.write_at(loop(s, "C"), "C", 1, "local"))
CASES["write_at.written_below_only"] = on(added_outside, lambda s: s.write_at(loop(s, "B"), "B", 0, "local"))
CASES["write_at.filled_below"] = on(added_to, lambda s: s.write_at(loop(s, "B"), "B", 0, "local"))
CASES["write_at.written_in_blocks"] = on(asked_after, lambda s: s.write_at(loop(s, "B"), "B", 0, "local"))

CASES["cache_read.known_scope"] = on(M, lambda s: s.cache_read("C", 0, "shard"))
CASES["cache_write.known_scope"] = on(M, lambda s: s.cache_write("C", 0, "locl"))
CASES["cache_inplace.known_scope"] = on(running, lambda s: s.cache_inplace("A", 0, "registers"))
CASES["cache_index.known_scope"] = on(M, lambda s: s.cache_index("C", "globl"))
CASES["reindex_cache_read.known_scope"] = on(M, lambda s: s.reindex_cache_read("C", 0, "shard", lambda i, j, k: (i, k)))
CASES["reindex_cache_write.known_scope"] = on(
    M, lambda s: s.reindex_cache_write("C", 0, "shard", lambda i, j, k: (i, j))
)
CASES["read_at.known_scope"] = on(M, lambda s: s.read_at(loop(s, "C"), "C", 0, "wmmma.matrix_a"))
CASES["write_at.known_scope"] = on(M, lambda s: s.write_at(loop(s, "C"), "C", 0, "shard"))
