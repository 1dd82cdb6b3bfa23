# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of rfactor, decompose_padding, pad_einsum, rolling_buffer and fuse_reduction_epilogue."""

from __future__ import annotations

from typing import Any

from minitvm import te
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

from . import programs
from .case import CASES, loop, on


@T.prim_func
def late_start(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(8):
        with T.block("B"):
            vk = T.axis.reduce(8, 7 - k)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] + A[vk]


@T.prim_func
def row_by_row(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4, 3), "float32")):
    for i in range(4):
        with T.block("rows"):
            vi = T.axis.spatial(4, i)
            for j in range(3):
                with T.block("B"):
                    vj = T.axis.spatial(3, j)
                    B[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def from_two(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(2, 8):
        with T.block("B"):
            vk = T.axis.reduce((2, 8), k)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] + A[vk]


@T.prim_func
def after_producer(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 4))
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for k in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + B[vi, vk]


@T.prim_func
def triangle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(i + 1):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def short_rows(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for k in range(8):
        for i in range(8 - k):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0.0)
                C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def alternating(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(8):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            with T.init():
                B[0] = 0.0
            B[0] = A[vk] - B[0]


@T.prim_func
def late_slots(A: T.Buffer((4, 4), "float32"), B: T.Buffer((1,), "float32")):
    for k, j in T.grid(4, 4):
        with T.block("B"):
            vk, vj = T.axis.remap("RR", [k, j])
            T.where(j <= k * 2)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] + A[vk, vj]


def first_of_equals() -> PrimFunc:
    """The index of the largest of 12 values; of equals the one that comes first."""
    A = te.placeholder((12,), name="A")
    k = te.reduce_axis((0, 12), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
        name="argmax",
    )
    results = te.compute((), lambda: argmax((k.var, A[k]), axis=k), name="R")
    return te.create_prim_func([A, *results])


def _split_inner(sch: Schedule) -> None:
    sch.split(loop(sch, "R"), [None, 4])


# ---- fuse_reduction_epilogue ---------------------------------------------------------------------------------------


def with_epilogue(epilogue: Any, init: Any = None, rows: int = 8) -> PrimFunc:
    """t = row sums of A; D = epilogue(t, i) for the first rows."""
    A = te.placeholder((8, 4), name="A")
    bias = te.placeholder((8,), name="bias")
    k = te.reduce_axis((0, 4), name="k")
    t = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, init=init), name="t")
    D = te.compute((rows,), lambda i: epilogue(t, bias, i), name="D")
    return te.create_prim_func([A, bias, D])


def _biased(t: Any, bias: Any, i: Any) -> Any:
    return t[i] + bias[i]


@T.prim_func
def changed_bias(A: T.Buffer((8, 4), "float32"), bias: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("t"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                t[vi] = 0.0
            t[vi] = t[vi] + A[vi, vk]
    for i in range(8):
        with T.block("bias"):
            vi = T.axis.spatial(8, i)
            bias[vi] = 1.0
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = t[vi] + bias[vi]


@T.prim_func
def two_stores(A: T.Buffer((8, 4), "float32"), D: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("t"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                t[vi] = 0.0
            t[vi] = t[vi] + A[vi, vk]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = t[vi] + 1.0
            E[vi] = t[vi]


# ---- padding -------------------------------------------------------------------------------------------------------


def padded(inside: Any, fill: Any = None) -> PrimFunc:
    """B[i] = A[i - 2] where `inside`, else the fill."""
    A = te.placeholder((10,), name="A")
    rest = te.placeholder((1,), name="rest")
    B = te.compute((14,), lambda i: te.if_then_else(inside(i), A[i - 2], rest[0] if fill is None else fill), name="B")
    return te.create_prim_func([A, rest, B] if fill is None else [A, B])


@T.prim_func
def guarded_padding(A: T.Buffer((10,), "float32"), B: T.Buffer((4, 14), "float32"), n: T.int32):
    for j in range(4):
        if j < n:
            for i in range(14):
                with T.block("B"):
                    vj, vi = T.axis.remap("SS", [j, i])
                    B[vj, vi] = T.if_then_else(vi >= 2 and vi < 12, A[vi - 2], T.float32(0.0))


@T.prim_func
def no_terms(A: T.Buffer((7, 0), "float32"), C: T.Buffer((7,), "float32")):
    for i, k in T.grid(7, 0):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def gram(A: T.Buffer((5, 5), "float32"), C: T.Buffer((5, 5), "float32")):
    for i, j, k in T.grid(5, 5, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]


def _inside(i: Any) -> Any:
    return te.all(i >= 2, i < 12)


def scaled_sums() -> PrimFunc:
    """C[i] = sum of A[i, k] * s[0]."""
    A, s = te.placeholder((7, 5), name="A"), te.placeholder((1,), name="s")
    k = te.reduce_axis((0, 5), name="k")
    C = te.compute((7,), lambda i: te.sum(A[i, k] * s[0], axis=k), name="C")
    return te.create_prim_func([A, s, C])


# ---- rolling_buffer ------------------------------------------------------------------------------------------------


@T.prim_func
def rolled_by_data(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10,))
    for i in range(8):
        for j in range(3):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                v = T.axis.spatial(10, i + j)
                B[v] = A[v] * T.Cast("float32", vi)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


@T.prim_func
def changing_input(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10,))
    for i in range(8):
        for j in range(3):
            with T.block("B"):
                v = T.axis.spatial(10, i + j)
                B[v] = A[v]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi + 1] = 0.0


def _below(sch: Schedule) -> None:
    sch.compute_at("B", loop(sch, "C"))


@T.prim_func
def concurrent_windows(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10,))
    for i in T.parallel(8):
        for j in range(3):
            with T.block("B"):
                v = T.axis.spatial(10, i + j)
                B[v] = A[v]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


CASES.update(
    {
        "rolling_buffer.writes_it": on(programs.chain, lambda sch: sch.rolling_buffer("B", 1), _below),
        "rolling_buffer.producer_of_temporary": on(programs.chain, lambda sch: sch.rolling_buffer("D", 0)),
        "rolling_buffer.meet_in_a_loop": on(programs.chain, lambda sch: sch.rolling_buffer("B", 0)),
        "rolling_buffer.overlapping_windows": on(
            programs.chain, lambda sch: sch.rolling_buffer("C", 0), lambda sch: sch.compute_at("C", loop(sch, "D"))
        ),
        "rolling_buffer.one_point_an_element": on(rolled_by_data, lambda sch: sch.rolling_buffer("B", 0)),
        "rolling_buffer.loops_in_order": on(concurrent_windows, lambda sch: sch.rolling_buffer("B", 0)),
        "rolling_buffer.inputs_stay": on(changing_input, lambda sch: sch.rolling_buffer("B", 0)),
    }
)

CASES.update(
    {
        "decompose_reduction.fixed_domains": on(short_rows, lambda sch: sch.decompose_reduction("C", loop(sch, "C"))),
        "decompose_reduction.started_first": on(late_start, lambda sch: sch.decompose_reduction("B", loop(sch, "B"))),
        "rfactor.one_reduction_block": on(programs.watched_sum, lambda sch: sch.rfactor(loop(sch, "B", 1), 0)),
        "rfactor.binds_only_reduction": on(programs.matmul, lambda sch: sch.rfactor(loop(sch, "C"), 0)),
        "rfactor.serial_loop": on(
            programs.matmul, lambda sch: sch.rfactor(loop(sch, "C", 2), 0), lambda sch: sch.unroll(loop(sch, "C", 2))
        ),
        "rfactor.starts_at_zero": on(from_two, lambda sch: sch.rfactor(loop(sch, "B"), 0)),
        "rfactor.first_below": on(after_producer, lambda sch: sch.rfactor(loop(sch, "C", 1), 0)),
        "rfactor.each_point_once": on(late_start, lambda sch: sch.rfactor(loop(sch, "B"), 0)),
        "rfactor.fixed_domains": on(triangle, lambda sch: sch.rfactor(loop(sch, "B", 1), 0)),
        "rfactor.registered_reducer": on(alternating, lambda sch: sch.rfactor(loop(sch, "B"), 0)),
        "rfactor.keeps_order": on(first_of_equals, lambda sch: sch.rfactor(loop(sch, "R", 1), 0), _split_inner),
        "rfactor.fitting_axis": on(programs.matmul, lambda sch: sch.rfactor(loop(sch, "C", 2), 3)),
        "rfactor.slots_started": on(late_slots, lambda sch: sch.rfactor(loop(sch, "B", 1), 0)),
    }
)

CASES.update(
    {
        "fuse_reduction_epilogue.reduces_into_temporary": on(
            programs.two_consumers, lambda sch: sch.fuse_reduction_epilogue("B", "C")
        ),
        "fuse_reduction_epilogue.epilogue_is_one_store": on(
            two_stores, lambda sch: sch.fuse_reduction_epilogue("t", "D")
        ),
        "fuse_reduction_epilogue.same_points": on(
            lambda: with_epilogue(_biased, rows=6), lambda sch: sch.fuse_reduction_epilogue("t", "D")
        ),
        "fuse_reduction_epilogue.goes_into_init": on(
            lambda: with_epilogue(lambda t, bias, i: te.exp(t[i])), lambda sch: sch.fuse_reduction_epilogue("t", "D")
        ),
        "fuse_reduction_epilogue.addend_ready": on(changed_bias, lambda sch: sch.fuse_reduction_epilogue("t", "D")),
        "decompose_padding.padding_block": on(
            lambda: padded(_inside), lambda sch: sch.decompose_padding("B", loop(sch, "B"))
        ),
        "decompose_padding.loop_around": on(
            lambda: padded(_inside, 0.0),
            lambda sch: sch.decompose_padding("B", loop(sch, "B_local")),
            lambda sch: sch.cache_write("B", 0, "local"),
        ),
        "decompose_padding.only_loops_below": on(
            guarded_padding, lambda sch: sch.decompose_padding("B", loop(sch, "B"))
        ),
        "pad_einsum.einsum_block": on(programs.chain, lambda sch: sch.pad_einsum("C", [3, 4])),
        "pad_einsum.trivial_binding": on(
            programs.matmul,
            lambda sch: sch.pad_einsum("C", [4, 4, 4]),
            lambda sch: sch.split(loop(sch, "C"), [2, 4]),
        ),
        "pad_einsum.iterates": on(no_terms, lambda sch: sch.pad_einsum("C", [4, 1])),
        "pad_einsum.valid_padding": on(programs.matmul, lambda sch: sch.pad_einsum("C", [4, 0])),
        "pad_einsum.one_shape_each": on(gram, lambda sch: sch.pad_einsum("C", [4, 3, 1])),
        "pad_einsum.padding_adds_nothing": on(scaled_sums, lambda sch: sch.pad_einsum("C", [1, 4])),
        "pad_einsum.copies_have_values": on(row_by_row, lambda sch: sch.pad_einsum("B", [4])),
    }
)
