# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of the loop, cache, compute_at, inline and reduction primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.expr import SizeVar
from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule

from . import programs
from .case import CASES, loop, on


@T.prim_func
def shifted(A: T.Buffer((8,), "float32")):
    for i in range(2, 8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1.0


@T.prim_func
def running_sum(A: T.Buffer((8,), "float32")):
    for i in range(7):
        with T.block("A"):
            vi = T.axis.spatial(7, i)
            A[vi + 1] = A[vi + 1] + A[vi]


@T.prim_func
def one_cell(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[0] = A[vi]


@T.prim_func
def squares(A: T.Buffer((64,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(64, i * i)
            A[vi] = 1.0


@T.prim_func
def folded(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(8, i + j)
            vk = T.axis.reduce(4, i)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def padded(A: T.Buffer((4,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.if_then_else(vi < 4, B[vi], 0.0)


@T.prim_func
def late_start(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi = T.axis.spatial(4, i)
            S[vi] = A[vi, 0]
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = S[vi]
            C[vi] = T.min(C[vi], A[vi, vk])


@T.prim_func
def overwritten(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 0.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def guarded(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int32):
    B = T.alloc_buffer((8,))
    if n > 3:
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def late_input(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] + C[vi]


@T.prim_func
def doubled_rows(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi // 2]


@T.prim_func
def overlapping_sums(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, r, k in T.grid(4, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i + r)
            vk = T.axis.reduce(4, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


M = programs.matmul


def _both(*primitives: str) -> Callable[[str, Any, Callable[[Schedule, str], Any], Any], None]:
    def add(needed: str, func: Any, call: Callable[[Schedule, str], Any], prepare: Any = None) -> None:
        for name in primitives:
            CASES[f"{name}.{needed}"] = on(func, lambda sch, name=name: call(sch, name), prepare)  # type: ignore[misc]

    return add


_extra: dict[str, tuple[Any, ...]] = {"bind": ("threadIdx.x",)}


def _make(sch: Schedule, name: str, loop: Any) -> Any:
    return getattr(sch, name)(loop, *_extra.get(name, ()))


def _on_threads(sch: Schedule) -> None:
    sch.reverse_compute_at(sch.cache_write("C", 0, "local"), loop(sch, "C"))
    sch.bind(loop(sch, "C"), "threadIdx.x")


_kinds = _both("parallel", "vectorize", "unroll", "bind")
_kinds("changeable_kind", M, lambda s, n: _make(s, n, loop(s, "C")), _on_threads)
_concurrent = _both("parallel", "vectorize", "bind")
_concurrent("structured_below", running_sum, lambda s, n: _make(s, n, loop(s, "A")))
_both("parallel", "vectorize")("only_spatial", M, lambda s, n: _make(s, n, loop(s, "C", 2)))
CASES["bind.only_spatial"] = on(M, lambda s: s.bind(loop(s, "C", 2), "blockIdx.x"))
_concurrent("quasi_affine_bindings", squares, lambda s, n: _make(s, n, loop(s, "A")))
_concurrent("no_races", one_cell, lambda s, n: _make(s, n, loop(s, "B")))
CASES["vectorize.constant_extent"] = on(lambda: M(SizeVar("m")), lambda s: s.vectorize(loop(s, "C")))
CASES["bind.thread_axis"] = on(M, lambda s: s.bind(loop(s, "C"), "threadIdx.w"))
CASES["bind.axis_not_taken"] = on(
    M, lambda s: s.bind(loop(s, "C", 1), "threadIdx.x"), lambda s: s.bind(loop(s, "C"), "threadIdx.x")
)
CASES["bind.blocks_around_threads"] = on(
    M, lambda s: s.bind(loop(s, "C", 1), "blockIdx.x"), lambda s: s.bind(loop(s, "C"), "threadIdx.x")
)

CASES["split.plain_loops"] = on(
    M, lambda s: s.split(loop(s, "C"), [2, None]), lambda s: s.bind(loop(s, "C"), "blockIdx.x")
)
CASES["split.starts_at_zero"] = on(shifted, lambda s: s.split(loop(s, "A"), [2, None]))
CASES["split.valid_factors"] = on(M, lambda s: s.split(loop(s, "C"), [None, None]))
CASES["split.covers"] = on(M, lambda s: s.split(loop(s, "C"), [2, 3]))
CASES["split.predicable"] = on(M, lambda s: s.split(loop(s, "C"), [None, 3], disable_predication=True))
CASES["fuse.distinct_loops"] = on(M, lambda s: s.fuse())
CASES["fuse.plain_loops"] = on(
    M, lambda s: s.fuse(*s.get_loops("C")[:2]), lambda s: s.annotate(loop(s, "C"), "pragma_note", 1)
)
CASES["fuse.starts_at_zero"] = on(shifted, lambda s: s.fuse(loop(s, "A")))
CASES["fuse.consecutive"] = on(M, lambda s: s.fuse(loop(s, "C", 0), loop(s, "C", 2)))
CASES["fuse.rectangular"] = on(programs.triangle, lambda s: s.fuse(*s.get_loops("A")))
CASES["fuse.product_fits"] = on(lambda: M(70000, 70000), lambda s: s.fuse(*s.get_loops("C")[:2]))
CASES["reorder.distinct_loops"] = on(M, lambda s: s.reorder(loop(s, "C"), loop(s, "C")))
CASES["reorder.single_chain"] = on(
    M,
    lambda s: s.reorder(loop(s, "C_update", 2), loop(s, "C_update", 0)),
    lambda s: s.decompose_reduction("C", loop(s, "C", 2)),
)
CASES["reorder.independent_domains"] = on(programs.triangle, lambda s: s.reorder(*s.get_loops("A")[::-1]))
CASES["reorder.no_opaque_iterators"] = on(programs.opaque, lambda s: s.reorder(*s.get_loops("A")[::-1]))
CASES["reorder.affine_bindings"] = on(folded, lambda s: s.reorder(*s.get_loops("B")[::-1]))
CASES["reorder.keeps_dependences"] = on(programs.wavefront, lambda s: s.reorder(*s.get_loops("A")[::-1]))

CASES["unannotate.has_annotation"] = on(M, lambda s: s.unannotate(loop(s, "C"), "pragma_note"))
CASES["cache_read.reads_it"] = on(M, lambda s: s.cache_read("C", 2, "local"))
CASES["cache_read.readers_are_consumers"] = on(
    programs.nested, lambda s: s.cache_read("outer", 0, "local", consumer_blocks=["inner"])
)
CASES["cache_read.at_most_one_writer"] = on(programs.written_twice, lambda s: s.cache_read("C", 0, "local"))
CASES["cache_write.writes_it"] = on(M, lambda s: s.cache_write("C", 1, "local"))
CASES["cache_write.readers_are_consumers"] = on(
    programs.nested, lambda s: s.cache_write("outer", 0, "local", consumer_blocks=["inner"])
)
CASES["cache_write.only_writer"] = on(programs.written_twice, lambda s: s.cache_write("B", 0, "local"))
CASES["cache_write.fills_its_box"] = on(programs.sparse, lambda s: s.cache_write("B", 0, "local"))

_moves = _both("compute_at", "reverse_compute_at")
_moves("same_scope", programs.nested, lambda s, n: getattr(s, n)("outer", loop(s, "inner")))
_moves("loop_not_around", M, lambda s, n: getattr(s, n)("C", loop(s, "C")))
_moves("only_loops_around", guarded, lambda s, n: getattr(s, n)("B", loop(s, "C")))
_moves("complete_or_reduction", programs.written_twice, lambda s, n: getattr(s, n)("B", loop(s, "C")))
_moves("inputs_settled", overwritten, lambda s, n: getattr(s, n)("B", loop(s, "C")))
CASES["compute_at.not_output"] = on(programs.chain, lambda s: s.compute_at("D", loop(s, "C")))
CASES["compute_at.consumers_below"] = on(programs.two_consumers, lambda s: s.compute_at("B", loop(s, "C")))
CASES["reverse_compute_at.producers_done"] = on(
    M,
    lambda s: s.reverse_compute_at("C_local", loop(s, "C", 2)),
    lambda s: s.cache_write("C", 0, "local"),
)
CASES["reverse_compute_at.producers_fill"] = on(programs.sparse, lambda s: s.reverse_compute_at("C", loop(s, "B")))
CASES["reverse_compute_at.region_cover"] = on(programs.chain, lambda s: s.reverse_compute_at("C", loop(s, "B")))

_inlines = _both("compute_inline", "reverse_compute_inline")
_inlines("complete", M, lambda s, n: getattr(s, n)("C"))
_inlines("one_store", programs.nested, lambda s, n: getattr(s, n)("outer"))
CASES["compute_inline.plain_indices"] = on(programs.sparse, lambda s: s.compute_inline("B"))
CASES["compute_inline.not_output"] = on(programs.chain, lambda s: s.compute_inline("D"))
CASES["compute_inline.inputs_settled"] = on(overwritten, lambda s: s.compute_inline("B"))
CASES["reverse_compute_inline.one_producer"] = on(programs.two_consumers, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.producer_is_one_store"] = on(programs.sparse, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.reads_its_own_point"] = on(doubled_rows, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.stays_in_the_buffer"] = on(padded, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.other_inputs_ready"] = on(late_input, lambda s: s.reverse_compute_inline("D"))

CASES["decompose_reduction.reduction_block"] = on(programs.chain, lambda s: s.decompose_reduction("B", loop(s, "B")))
CASES["decompose_reduction.init_finds_its_inputs"] = on(
    late_start, lambda s: s.decompose_reduction("C", loop(s, "C", 1))
)
CASES["decompose_reduction.loop_around"] = on(
    M, lambda s: s.decompose_reduction("C", loop(s, "C_local")), lambda s: s.cache_write("C", 0, "local")
)
CASES["decompose_reduction.no_reduction_above"] = on(
    M,
    lambda s: s.decompose_reduction("C", loop(s, "C", 1)),
    lambda s: s.reorder(*[s.get_loops("C")[k] for k in (2, 0, 1)]),
)
CASES["decompose_reduction.separable_loops"] = on(
    programs.fused_reduction, lambda s: s.decompose_reduction("B", loop(s, "B"))
)
CASES["decompose_reduction.each_point_once"] = on(overlapping_sums, lambda s: s.decompose_reduction("B", loop(s, "B")))
CASES["decompose_reduction.alone_below"] = on(
    programs.watched_sum, lambda s: s.decompose_reduction("B", loop(s, "B", 1))
)
