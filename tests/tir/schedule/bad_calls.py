"""One bad call a requirement: a small program, and a call that the requirement refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.expr import SizeVar
from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule

from . import programs

BadCall = Callable[[], tuple[Schedule, Callable[[], Any]]]
CASES: dict[str, BadCall] = {}


def _on(func: Any, call: Callable[[Schedule], Any], prepare: Callable[[Schedule], Any] | None = None) -> BadCall:
    def build() -> tuple[Schedule, Callable[[], Any]]:
        sch = Schedule(func() if callable(func) else func)
        if prepare is not None:
            prepare(sch)
        return sch, lambda: call(sch)

    return build


def _loop(sch: Schedule, block: str, position: int = 0) -> Any:
    return sch.get_loops(block)[position]


@T.prim_func
def shifted(A: T.Buffer((8,), "float32")):
    for i in range(2, 8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1.0


@T.prim_func
def triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1.0


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
def written_twice(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("again"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def sparse(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi * 2] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi * 2]


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
def reversed_rows(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi]


@T.prim_func
def nested(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = A[vi, vj]


@T.prim_func
def fused_reduction(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for f in range(32):
        with T.block("B"):
            vi = T.axis.spatial(8, f // 4)
            vk = T.axis.reduce(4, f % 4)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def overlapping_sums(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, r, k in T.grid(4, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i + r)
            vk = T.axis.reduce(4, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def watched_sum(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = B[vi]


M = programs.matmul


def _both(*primitives: str) -> Callable[[str, Any, Callable[[Schedule, str], Any], Any], None]:
    def add(needed: str, func: Any, call: Callable[[Schedule, str], Any], prepare: Any = None) -> None:
        for name in primitives:
            CASES[f"{name}.{needed}"] = _on(func, lambda sch, name=name: call(sch, name), prepare)  # type: ignore[misc]

    return add


_extra: dict[str, tuple[Any, ...]] = {"bind": ("threadIdx.x",)}


def _make(sch: Schedule, name: str, loop: Any) -> Any:
    return getattr(sch, name)(loop, *_extra.get(name, ()))


_kinds = _both("parallel", "vectorize", "unroll", "bind")
_kinds("serial_loop", M, lambda s, n: _make(s, n, _loop(s, "C")), lambda s: s.parallel(_loop(s, "C")))
_concurrent = _both("parallel", "vectorize", "bind")
_concurrent("structured_below", running_sum, lambda s, n: _make(s, n, _loop(s, "A")))
_concurrent("only_spatial", M, lambda s, n: _make(s, n, _loop(s, "C", 2)))
_concurrent("quasi_affine_bindings", squares, lambda s, n: _make(s, n, _loop(s, "A")))
_concurrent("no_races", one_cell, lambda s, n: _make(s, n, _loop(s, "B")))
CASES["vectorize.constant_extent"] = _on(lambda: M(SizeVar("m")), lambda s: s.vectorize(_loop(s, "C")))
CASES["bind.thread_axis"] = _on(M, lambda s: s.bind(_loop(s, "C"), "threadIdx.w"))
CASES["bind.axis_not_taken"] = _on(
    M, lambda s: s.bind(_loop(s, "C", 1), "threadIdx.x"), lambda s: s.bind(_loop(s, "C"), "threadIdx.x")
)

CASES["split.plain_loops"] = _on(M, lambda s: s.split(_loop(s, "C"), [2, None]), lambda s: s.parallel(_loop(s, "C")))
CASES["split.starts_at_zero"] = _on(shifted, lambda s: s.split(_loop(s, "A"), [2, None]))
CASES["split.valid_factors"] = _on(M, lambda s: s.split(_loop(s, "C"), [None, None]))
CASES["split.covers"] = _on(M, lambda s: s.split(_loop(s, "C"), [2, 3]))
CASES["split.predicable"] = _on(M, lambda s: s.split(_loop(s, "C"), [None, 3], disable_predication=True))
CASES["fuse.distinct_loops"] = _on(M, lambda s: s.fuse())
CASES["fuse.plain_loops"] = _on(
    M, lambda s: s.fuse(*s.get_loops("C")[:2]), lambda s: s.annotate(_loop(s, "C"), "pragma_note", 1)
)
CASES["fuse.starts_at_zero"] = _on(shifted, lambda s: s.fuse(_loop(s, "A")))
CASES["fuse.consecutive"] = _on(M, lambda s: s.fuse(_loop(s, "C", 0), _loop(s, "C", 2)))
CASES["fuse.rectangular"] = _on(triangle, lambda s: s.fuse(*s.get_loops("A")))
CASES["reorder.distinct_loops"] = _on(M, lambda s: s.reorder(_loop(s, "C"), _loop(s, "C")))
CASES["reorder.single_chain"] = _on(
    M,
    lambda s: s.reorder(_loop(s, "C_update", 2), _loop(s, "C_update", 0)),
    lambda s: s.decompose_reduction("C", _loop(s, "C", 2)),
)
CASES["reorder.independent_domains"] = _on(triangle, lambda s: s.reorder(*s.get_loops("A")[::-1]))
CASES["reorder.no_opaque_iterators"] = _on(programs.opaque, lambda s: s.reorder(*s.get_loops("A")[::-1]))
CASES["reorder.affine_bindings"] = _on(folded, lambda s: s.reorder(*s.get_loops("B")[::-1]))
CASES["reorder.keeps_dependences"] = _on(programs.wavefront, lambda s: s.reorder(*s.get_loops("A")[::-1]))

CASES["unannotate.has_annotation"] = _on(M, lambda s: s.unannotate(_loop(s, "C"), "pragma_note"))
CASES["cache_read.reads_it"] = _on(M, lambda s: s.cache_read("C", 2, "local"))
CASES["cache_read.readers_are_consumers"] = _on(
    nested, lambda s: s.cache_read("outer", 0, "local", consumer_blocks=["inner"])
)
CASES["cache_read.at_most_one_writer"] = _on(written_twice, lambda s: s.cache_read("C", 0, "local"))
CASES["cache_write.writes_it"] = _on(M, lambda s: s.cache_write("C", 1, "local"))
CASES["cache_write.readers_are_consumers"] = _on(
    nested, lambda s: s.cache_write("outer", 0, "local", consumer_blocks=["inner"])
)
CASES["cache_write.only_writer"] = _on(written_twice, lambda s: s.cache_write("B", 0, "local"))
CASES["cache_write.fills_its_box"] = _on(sparse, lambda s: s.cache_write("B", 0, "local"))

_moves = _both("compute_at", "reverse_compute_at")
_moves("same_scope", nested, lambda s, n: getattr(s, n)("outer", _loop(s, "inner")))
_moves("loop_not_around", M, lambda s, n: getattr(s, n)("C", _loop(s, "C")))
_moves("only_loops_around", guarded, lambda s, n: getattr(s, n)("B", _loop(s, "C")))
_moves("complete_or_reduction", written_twice, lambda s, n: getattr(s, n)("B", _loop(s, "C")))
_moves("inputs_settled", overwritten, lambda s, n: getattr(s, n)("B", _loop(s, "C")))
CASES["compute_at.not_output"] = _on(programs.chain, lambda s: s.compute_at("D", _loop(s, "C")))
CASES["compute_at.consumers_below"] = _on(programs.two_consumers, lambda s: s.compute_at("B", _loop(s, "C")))
CASES["reverse_compute_at.producers_done"] = _on(
    M,
    lambda s: s.reverse_compute_at("C_local", _loop(s, "C", 2)),
    lambda s: s.cache_write("C", 0, "local"),
)
CASES["reverse_compute_at.producers_fill"] = _on(sparse, lambda s: s.reverse_compute_at("C", _loop(s, "B")))
CASES["reverse_compute_at.region_cover"] = _on(programs.chain, lambda s: s.reverse_compute_at("C", _loop(s, "B")))

_inlines = _both("compute_inline", "reverse_compute_inline")
_inlines("complete", M, lambda s, n: getattr(s, n)("C"))
_inlines("one_store", nested, lambda s, n: getattr(s, n)("outer"))
CASES["compute_inline.plain_indices"] = _on(sparse, lambda s: s.compute_inline("B"))
CASES["compute_inline.not_output"] = _on(programs.chain, lambda s: s.compute_inline("D"))
CASES["compute_inline.has_consumers"] = _on(
    programs.chain,
    lambda s: s.compute_inline("B_local"),
    lambda s: s.cache_write("B", 0, "local", consumer_blocks=["C"]),
)
CASES["compute_inline.inputs_settled"] = _on(overwritten, lambda s: s.compute_inline("B"))
CASES["reverse_compute_inline.one_producer"] = _on(programs.two_consumers, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.producer_is_one_store"] = _on(sparse, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.reads_its_own_point"] = _on(reversed_rows, lambda s: s.reverse_compute_inline("C"))
CASES["reverse_compute_inline.other_inputs_ready"] = _on(late_input, lambda s: s.reverse_compute_inline("D"))

CASES["decompose_reduction.reduction_block"] = _on(programs.chain, lambda s: s.decompose_reduction("B", _loop(s, "B")))
CASES["decompose_reduction.loop_around"] = _on(
    M, lambda s: s.decompose_reduction("C", _loop(s, "C_local")), lambda s: s.cache_write("C", 0, "local")
)
CASES["decompose_reduction.no_reduction_above"] = _on(
    M,
    lambda s: s.decompose_reduction("C", _loop(s, "C", 1)),
    lambda s: s.reorder(*[s.get_loops("C")[k] for k in (2, 0, 1)]),
)
CASES["decompose_reduction.separable_loops"] = _on(fused_reduction, lambda s: s.decompose_reduction("B", _loop(s, "B")))
CASES["decompose_reduction.each_point_once"] = _on(
    overlapping_sums, lambda s: s.decompose_reduction("B", _loop(s, "B"))
)
CASES["decompose_reduction.alone_below"] = _on(watched_sum, lambda s: s.decompose_reduction("B", _loop(s, "B", 1)))
