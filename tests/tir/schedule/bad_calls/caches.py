"""Bad calls of cache_read, cache_write, cache_inplace, reindex, cache_index, read_at, write_at."""

from __future__ import annotations

from minitvm.script import tir as T

from .. import programs
from .case import CASES, on
from .first import sparse

M = programs.matmul


@T.prim_func
def through_a_view(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            from_A = T.match_buffer(A[vi : vi + 1], (1,))
            to_B = T.match_buffer(B[vi : vi + 1], (1,))
            to_B[0] = from_A[0] * 2.0


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
def updated_view(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi])
            cell = T.match_buffer(A[vi : vi + 1], (1,))
            cell[0] = cell[0] + 1.0


CASES["cache_read.read_in_blocks"] = on(through_a_view, lambda s: s.cache_read("B", 0, "local"))
CASES["cache_read.initialised"] = on(sparse, lambda s: s.cache_read("C", 0, "local"))
CASES["cache_read.values_of_writer"] = on(half_overwritten, lambda s: s.cache_read("B", 0, "local"))
CASES["cache_write.written_in_blocks"] = on(deciding, lambda s: s.cache_write("B", 0, "local"))
CASES["cache_write.values_of_writer"] = on(
    half_overwritten, lambda s: s.cache_write("A", 0, "local", consumer_blocks=["B"])
)
CASES["cache_inplace.reads_it"] = on(running, lambda s: s.cache_inplace("A", "B", "local"))
CASES["cache_inplace.updates_it"] = on(M, lambda s: s.cache_inplace("C", 0, "local"))
CASES["cache_inplace.writes_what_it_reads"] = on(shifting, lambda s: s.cache_inplace("A", 0, "local"))
CASES["cache_inplace.read_in_blocks"] = on(updated_view, lambda s: s.cache_inplace("A", 0, "local"))
