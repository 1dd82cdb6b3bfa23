"""Bad calls of rfactor, decompose_padding, pad_einsum, rolling_buffer and fuse_reduction_epilogue."""

from __future__ import annotations

from minitvm import te
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

from .. import programs
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
def with_reader(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = A[vi, vk]


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


CASES.update(
    {
        "decompose_reduction.started_first": on(late_start, lambda sch: sch.decompose_reduction("B", loop(sch, "B"))),
        "rfactor.one_reduction_block": on(with_reader, lambda sch: sch.rfactor(loop(sch, "B", 1), 0)),
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
