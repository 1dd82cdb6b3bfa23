# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of the layout primitives, blockize and tensorize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule
from minitvm.tir.tensor_intrin import TensorIntrin

from . import programs
from .case import CASES, loop, on
from .programs import row_sums, sum_of_four


@T.prim_func
def through_a_view(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            row = T.match_buffer(A[vi, 0:8], (8,))
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = row[vj] * 2.0


@T.prim_func
def strided(a: T.handle, B: T.Buffer((4, 4), "float32")):
    A = T.match_buffer(a, (4, 4), strides=[8, 1])
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


@T.prim_func
def exchanged(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4, 3), "float32")):
    S = T.alloc_buffer((3,), scope="shared")
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(3, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [b, t])
                S[vt] = A[vb, vt]
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                B[vb, vt] = S[2 - vt]


@T.prim_func
def scaled(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def twice_in_a_nest(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + 1.0


@T.prim_func
def recurrence(A: T.Buffer((9, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj] + 1.0


@T.prim_func
def tail(A: T.Buffer((10,), "float32")):
    for i_0, i_1 in T.grid(3, 4):
        with T.block("A"):
            vi = T.axis.spatial(10, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 10)
            A[vi] = 1.0


@T.prim_func
def reads_neighbour(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, k)
            T.reads(A[vi, vk], B[0:8])
            T.writes(B[vi])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk] + B[7 - vi] * 0.0


@T.prim_func
def added_to_itself(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            A[vi, vj] = A[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def says_less(
    A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32"), n: T.int32
):
    with T.block("tile"):
        T.reads(C[0:4, 0:4], A[0:4, 0:n], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def _packed_rows() -> TensorIntrin:
    """A fill of a 4 x 4 tile whose rows follow each other without a gap."""

    @T.prim_func
    def desc(C: T.Buffer((4, 4), "float32")):
        with T.block("root"):
            T.reads()
            T.writes(C[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = 1.0

    @T.prim_func
    def impl(c: T.handle):
        C = T.match_buffer(c, (4, 4), strides=[4, 1])
        with T.block("root"):
            T.reads()
            T.writes(C[0:4, 0:4])
            for k in range(16):
                with T.block("fill"):
                    vk = T.axis.spatial(16, k)
                    C[vk // 4, vk % 4] = 1.0

    return TensorIntrin("packed_rows", desc, impl)


def _row_sum() -> TensorIntrin:
    """The sum of four numbers, from its start."""

    @T.prim_func
    def impl(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
        with T.block("root"):
            T.reads(A[0:4])
            T.writes(C[0])
            C[0] = (A[0] + A[1]) + (A[2] + A[3])

    return TensorIntrin("row_sum", sum_of_four, impl)


@T.prim_func
def tiles_of_ones(A: T.Buffer((8, 8), "float32")):
    for i_0, j_0, i_1, j_1 in T.grid(2, 2, 4, 4):
        with T.block("A"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            A[vi, vj] = 1.0


Written = ("write", 0)


def relaid(function: Callable[..., Any], **more: Any) -> Callable[[Schedule], Any]:
    """A call that lays B out anew."""
    return lambda sch: sch.transform_layout("B", Written, function, **more)


CASES.update({
    "transform_layout.names_a_buffer": on(scaled, lambda s: s.transform_layout("B", ("read", 1), lambda i, j: (j, i))),
    "transform_layout.not_a_view": on(
        through_a_view, lambda s: s.transform_layout("B", "row", lambda i: (i // 4, i % 4))
    ),
    "transform_layout.row_major": on(strided, lambda s: s.transform_layout("B", "A", lambda i, j: (j, i))),
    "transform_layout.plain_accesses": on(
        through_a_view, lambda s: s.transform_layout("row", "A", lambda i, j: (j, i))
    ),
    "transform_layout.map_fits_buffer": on(scaled, relaid(lambda i: (i // 4, i % 4))),
    "transform_layout.injective_map": on(scaled, relaid(lambda i, j: (i // 2, j))),
    "transform_layout.padding_has_value": on(scaled, relaid(lambda i, j: (i // 3, j, i % 3))),
    "transform_layout.pad_value_fits": on(scaled, relaid(lambda i, j: (i // 3, j, i % 3), pad_value=lambda i, j: 0.0)),
    "transform_layout.known_padding": on(scaled, relaid(lambda i, j: (i, (j + i) % 8, i % 3), pad_value=0)),
    "transform_layout.padding_in_reach": on(
        exchanged, lambda s: s.transform_layout("S", ("write", 0), lambda i: (i // 2, i % 2), pad_value=0)
    ),
    "set_axis_separators.names_a_buffer": on(scaled, lambda s: s.set_axis_separators("B", "C", [1])),
    "set_axis_separators.not_a_view": on(through_a_view, lambda s: s.set_axis_separators("B", "row", [1])),
    "set_axis_separators.increasing_axes": on(scaled, lambda s: s.set_axis_separators("B", Written, [2, 1])),
    "transform_block_layout.alone_in_its_nest": on(
        twice_in_a_nest, lambda s: s.transform_block_layout("C", lambda i: (i // 2, i % 2))
    ),
    "transform_block_layout.loops_are_iterators": on(
        tail, lambda s: s.transform_block_layout("A", lambda i: (i // 2, i % 2))
    ),
    "transform_block_layout.map_fits_iterators": on(
        scaled, lambda s: s.transform_block_layout("B", lambda i: (i // 2, i % 2))
    ),
    "transform_block_layout.bijective_map": on(
        scaled, lambda s: s.transform_block_layout("B", lambda i, j: (i // 3, i % 3, j))
    ),
    "transform_block_layout.kinds_stay_apart": on(
        programs.matmul, lambda s: s.transform_block_layout("C", lambda i, j, k: (i, j * 4 + k))
    ),
    "transform_block_layout.order_of_accesses": on(
        recurrence, lambda s: s.transform_block_layout("A", lambda i, j: (7 - i, j))
    ),
    "blockize.one_run": on(programs.two_consumers, lambda s: s.blockize(["B", "D"])),
    "blockize.reductions_inside": on(
        programs.matmul,
        lambda s: s.blockize(["C", "A_local"]),
        lambda s: s.compute_at(s.cache_read("C", 0, "local"), loop(s, "C", 2)),
    ),
    "blockize.one_block_below": on(twice_in_a_nest, lambda s: s.blockize(loop(s, "B"))),
    "blockize.fixed_inner_domains": on(programs.triangle, lambda s: s.blockize(loop(s, "A", 1))),
    "blockize.bindings_divide": on(
        programs.matmul,
        lambda s: s.blockize(loop(s, "C", 1)),
        lambda s: s.reorder(*s.split(s.fuse(*s.get_loops("C")[:2]), [None, 4])[::-1]),
    ),
    "blockize.predicate_divides": on(tail, lambda s: s.blockize(loop(s, "A", 1))),
    "blockize.init_moves_out": on(reads_neighbour, lambda s: s.blockize(loop(s, "B"))),
    "tensorize.known_intrinsic": on(programs.matmul, lambda s: s.tensorize(loop(s, "C"), "matmul_4x4x4")),
    "tensorize.becomes_block": on(tail, lambda s: s.tensorize(loop(s, "A", 1), "fill_4x4_f32")),
    "tensorize.same_structure": on(scaled, lambda s: s.tensorize(loop(s, "B"), "matmul_4x4x4_f32")),
    "tensorize.box_is_declared": on(says_less, lambda s: s.tensorize("tile", "matmul_4x4x4_f32")),
    "tensorize.layout_fits": on(tiles_of_ones, lambda s: s.tensorize(loop(s, "A", 2), _packed_rows())),
    "tensorize.separate_buffers": on(added_to_itself, lambda s: s.tensorize(loop(s, "A"), "matmul_4x4x4_f32")),
    "tensorize.whole_reduction": on(row_sums, lambda s: s.tensorize(loop(s, "C", 2), _row_sum())),
})  # fmt: skip
