# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of merge, loop_partition and what changes one block's loops, storage or signature; and of sampling."""

from __future__ import annotations

from typing import Any

from minitvm.expr import SizeVar
from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule

from . import programs
from .case import CASES, loop, on


@T.prim_func
def two_rows(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[7 - vi, vj]


@T.prim_func
def handed_out(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi])
            T.writes(C[vi])
            T.evaluate(T.call_extern("int32", "increment", T.address_of(B[vi]), T.address_of(C[vi])))


M = programs.matmul


def _merged(sch: Schedule, first: tuple[str, int], second: tuple[str, int]) -> Any:
    return sch.merge(loop(sch, *first), loop(sch, *second))


CASES["merge.at_least_two"] = on(M, lambda s: s.merge(loop(s, "C")))
CASES["merge.sibling_nests"] = on(M, lambda s: s.merge(*s.get_loops("C")[:2]))
CASES["merge.same_depth"] = on(two_rows, lambda s: _merged(s, ("B", 0), ("C", 1)))
CASES["merge.plain_nests"] = on(two_rows, lambda s: _merged(s, ("B", 1), ("C", 1)), lambda s: s.parallel(loop(s, "C")))
CASES["merge.same_extents"] = on(programs.chain, lambda s: _merged(s, ("B", 0), ("C", 0)))
CASES["merge.keeps_order_of_nests"] = on(two_rows, lambda s: _merged(s, ("B", 0), ("C", 0)))

CASES["loop_partition.plain_loops"] = on(
    M, lambda s: s.loop_partition(loop(s, "C"), [2]), lambda s: s.bind(loop(s, "C"), "blockIdx.x")
)
CASES["loop_partition.known_bounds"] = on(lambda: M(SizeVar("m")), lambda s: s.loop_partition(loop(s, "C"), [2]))
CASES["loop_partition.positive_factors"] = on(M, lambda s: s.loop_partition(loop(s, "C"), [None, 2, None]))
CASES["loop_partition.leaves_a_rest"] = on(M, lambda s: s.loop_partition(loop(s, "C"), [2, 6]))
CASES["loop_partition.threads_add_up"] = on(
    M,
    lambda s: s.loop_partition(loop(s, "C", 3), [1]),
    lambda s: s.bind(s.split(loop(s, "C", 2), [2, None])[0], "threadIdx.x"),
)
CASES["loop_partition.starts_in_one_part"] = on(
    programs.fused_reduction, lambda s: s.loop_partition(loop(s, "B"), [12])
)


_stored = {
    "storage_align": lambda s, block="B", index=0: s.storage_align(block, index, 0, 8, 1),
    "set_scope": lambda s, block="B", index=0: s.set_scope(block, index, "shared"),
    "unsafe_set_dtype": lambda s, block="B", index=0: s.unsafe_set_dtype(block, index, "float16"),
}
for _name, _call in _stored.items():
    CASES[f"{_name}.written_buffer"] = on(two_rows, lambda s, call=_call: call(s, index=1))  # type: ignore[misc]
    CASES[f"{_name}.allocated"] = on(two_rows, lambda s, call=_call: call(s, block="C"))  # type: ignore[misc]
CASES["storage_align.axis_of_buffer"] = on(two_rows, lambda s: s.storage_align("B", 0, 2, 8, 1))
CASES["storage_align.alignment"] = on(two_rows, lambda s: s.storage_align("B", 0, 0, 8, 9))
CASES["set_scope.known_scope"] = on(two_rows, lambda s: s.set_scope("B", 0, "sharde"))
CASES["set_scope.one_owner"] = on(
    two_rows, lambda s: s.set_scope("B", 0, "local"), lambda s: s.bind(loop(s, "B"), "threadIdx.x")
)
CASES["unsafe_set_dtype.numeric_dtype"] = on(two_rows, lambda s: s.unsafe_set_dtype("B", 0, "flot16"))
CASES["unsafe_set_dtype.plain_accesses"] = on(handed_out, lambda s: s.unsafe_set_dtype("B", 0, "float16"))
CASES["annotate_buffer_access.region_of_block"] = on(
    two_rows, lambda s: s.annotate_buffer_access("B", 1, "read", lambda vi, vj: (vi, vj))
)
CASES["annotate_buffer_access.one_range_a_dimension"] = on(
    two_rows, lambda s: s.annotate_buffer_access("B", 0, "read", lambda vi: (vi,))
)
CASES["annotate_buffer_access.holds_the_accesses"] = on(
    two_rows, lambda s: s.annotate_buffer_access("B", 0, "read", lambda vi, vj: ((vi, vi + 2), (vj + 1, vj + 3)))
)

CASES["annotate_buffer_access.directly_in_root"] = on(
    two_rows,
    lambda s: s.annotate_buffer_access("B_i0", 0, "read", lambda vi, vj: ((vi, vi + 2), vj)),
    lambda s: s.loop_partition(loop(s, "B"), [2]),
)

CASES["sample_categorical.distribution"] = on(M, lambda s: s.sample_categorical([1, 2], [1.0]))
CASES["sample_categorical.candidate_decision"] = on(M, lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=2))
CASES["sample_perfect_tile.constant_trip_count"] = on(
    lambda: M(SizeVar("m")), lambda s: s.sample_perfect_tile(loop(s, "C"), 2)
)
CASES["sample_perfect_tile.tile_count"] = on(M, lambda s: s.sample_perfect_tile(loop(s, "C"), 0))
CASES["sample_perfect_tile.innermost_fits"] = on(M, lambda s: s.sample_perfect_tile(loop(s, "C"), 1, 4))
CASES["sample_perfect_tile.tile_decision"] = on(M, lambda s: s.sample_perfect_tile(loop(s, "C"), 2, decision=[2, 2, 2]))
CASES["sample_partitioned_tile.partition_fits"] = on(
    M, lambda s: s.sample_partitioned_tile(loop(s, "C"), 3, partition_pos=1, innerpart_factor=3)
)
CASES["sample_compute_location.location_decision"] = on(
    programs.chain, lambda s: s.sample_compute_location("B", decision=5)
)
