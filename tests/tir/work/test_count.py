"""The analysis of a kernel against the kernel interpreter, which counts while it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from minitvm import strategy, te, topi
from minitvm.events import Access
from minitvm.expr import And, IntImm, Or, Ramp, const, walk
from minitvm.machines.simd.topi.blocked import conv2d_nchwc
from minitvm.machines.simd.topi.winograd import winograd_conv2d_nchwc
from minitvm.reference import kernel as interpreter
from minitvm.reference import strategies
from minitvm.reference.listeners import Ledger
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir.analysis.registers import in_registers
from minitvm.tir.conditions import reads_memory
from minitvm.tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, PrimFunc, Seq
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.work import Work, count, footprint
from minitvm.tir.work.intervals import Intervals, union

CPU = Target("cpu -model=znver3")


class Touched(Ledger):
    """A ledger that also remembers which elements are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, set[int]] = defaultdict(set)
        self.written: dict[str, set[int]] = defaultdict(set)

    def load(self, access: Access) -> None:
        super().load(access)
        self.read[access.buffer].add(access.offset)

    def store(self, access: Access) -> None:
        super().store(access)
        self.written[access.buffer].add(access.offset)


def kernels(func: PrimFunc, schedule: bool = True) -> list[PrimFunc]:
    scheduled = strategy.schedule(func, CPU).func if schedule else func
    return [k for _, k in lower(scheduled, CPU, "f").items() if not k.attrs.get("host")]


def heard(kernel: PrimFunc) -> Touched:
    arrays = []
    for p in kernel.buffers:
        assert isinstance(p.shape[0], IntImm)
        arrays.append(np.ones(p.shape[0].value, p.dtype.numpy))
    ledger = Touched()
    inout = [p.name for p in kernel.buffers]
    with np.errstate(all="ignore"):
        interpreter.run(kernel, *arrays, mode="slow", shadow=False, listeners=[ledger], inout=inout)
    return ledger


def by_name(counts: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for buffer, n in counts.items():
        found[buffer.name] += n
    return +found


def assert_counted(kernel: PrimFunc) -> Work:
    found, ledger = count(kernel), heard(kernel)
    if any(isinstance(n, And | Or) and reads_memory(n.a) for n in walk(kernel.body)):
        return found  # data decides whether the second condition is asked
    assert found.exact, kernel.script()
    if not any(name.startswith("vector_reduce") for name in kernel.script().split("(")):
        assert found.flops == ledger.flops, kernel.script()
    assert by_name(found.loads) == +ledger.loads, kernel.script()
    assert by_name(found.stores) == +ledger.stores, kernel.script()
    for p in kernel.buffers:
        assert found.reads.get(p, 0) == len(ledger.read[p.name]) * p.dtype.bytes, (p.name, kernel.script())
        assert found.writes.get(p, 0) == len(ledger.written[p.name]) * p.dtype.bytes, (p.name, kernel.script())
    return found


def convolution(strides: int, padding: int) -> PrimFunc:
    x, w = te.placeholder((1, 2, 9, 11, 8), name="x"), te.placeholder((2, 2, 3, 3, 8, 8), name="w")
    y = conv2d_nchwc(x, w, strides=strides, padding=padding)
    return create_prim_func([x, w, topi.relu(y)])


def winograd() -> PrimFunc:
    x, w = te.placeholder((1, 1, 10, 7, 8), name="x"), te.placeholder((1, 6, 6, 1, 8, 1, 8), name="w")
    return create_prim_func([x, w, winograd_conv2d_nchwc(x, w, tile=4, padding=1)])


def product(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    return create_prim_func([a, b, topi.matmul(a, b)])


def padded() -> PrimFunc:
    x = te.placeholder((5, 13), name="x")
    return create_prim_func([x, topi.pad(x, pad_width=((1, 2), (3, 0)))])


def pooled() -> PrimFunc:
    x = te.placeholder((1, 8, 13, 13), name="x")
    return create_prim_func([x, topi.max_pool2d(x, pool_size=3, strides=2, padding=1)])


PROGRAMS = {
    "strided convolution": lambda: convolution(2, 0),
    "padded convolution": lambda: convolution(1, 1),
    "winograd": winograd,
    "product with edges": lambda: product(19, 37, 11),
    "skinny product": lambda: product(1, 40, 64),
    "pad": padded,
    "pool": pooled,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_operators_are_counted_as_they_run(program: Any) -> None:
    for kernel in kernels(program()):
        assert_counted(kernel)


@given(strategies.prim_funcs())
def test_any_kernel_is_counted_as_it_runs(func: PrimFunc) -> None:
    for kernel in kernels(func):
        if count(kernel).exact:
            assert_counted(kernel)


def test_a_convolution_has_the_flops_that_everybody_writes() -> None:
    """C2 of ResNet-18: 115.6 million multiply-adds, and each input, weight and output once."""
    x, w = te.placeholder((1, 8, 58, 58, 8), name="x"), te.placeholder((8, 8, 3, 3, 8, 8), name="w")
    (kernel,) = kernels(create_prim_func([x, w, conv2d_nchwc(x, w)]))
    work = count(kernel)
    assert work.exact and work.flops == 2 * 56 * 56 * 64 * 64 * 9
    assert work.moved(kernel) == 4 * (64 * 58 * 58 + 64 * 64 * 9 + 64 * 56 * 56)
    assert work.slots == work.flops // 2


def test_a_stride_leaves_holes() -> None:
    x = te.placeholder((64, 6), name="x")
    (kernel,) = kernels(create_prim_func([x, te.compute((32, 2), lambda i, j: x[i * 2, j * 3] + 1.0, name="y")]))
    assert count(kernel).reads[next(p for p in kernel.buffers if p.name == "x")] == 4 * 32 * 2


def test_sizes_of_a_call_are_filled_in() -> None:
    n = te.var("n")
    x = te.placeholder((n, 8), name="x")
    (kernel,) = kernels(create_prim_func([x, te.compute((n, 8), lambda i, j: x[i, j] * 2.0, name="y")]))
    size = next(p for p in kernel.params if p not in kernel.buffers)
    for rows in (1, 17):
        work = count(kernel, {size: rows})
        assert work.flops == rows * 8 and work.moved(kernel) == 2 * 4 * rows * 8
    assert not count(kernel).exact


def test_indices_from_memory_are_an_upper_bound() -> None:
    x, at = te.placeholder((100,), name="x"), te.placeholder((7,), "int32", name="at")
    (kernel,) = kernels(create_prim_func([x, at, te.compute((7,), lambda i: x[at[i]], name="y")]))
    work = count(kernel)
    by = {p.name: work.reads.get(p, 0) for p in kernel.buffers}
    assert not work.exact and by["x"] == 4 * 7 and by["at"] == 4 * 7


def test_a_vector_reduction_counts_an_operation_fewer_than_lanes() -> None:
    @T.prim_func
    def total(x: T.Buffer((64,), "float32"), y: T.Buffer((1,), "float32")) -> None:
        for i in range(64):
            with T.block("total"):
                k = T.axis.reduce(64, i)
                with T.init():
                    y[0] = T.float32(0)
                y[0] = y[0] + x[k]

    for kernel in kernels(total):
        assert count(kernel).flops >= 63


def test_one_iteration_touches_less_than_all() -> None:
    (kernel,) = kernels(product(32, 64, 128), schedule=False)
    outer = kernel.body
    assert isinstance(outer, For)
    registers = in_registers(kernel)
    whole, row = footprint(kernel.body, {}, registers), footprint(outer.body, {outer.var: 3}, registers)
    assert whole == 4 * (32 * 128 + 128 * 64 + 32 * 64)
    assert row == 4 * (128 + 128 * 64 + 64)


def test_a_local_buffer_that_needs_memory_is_counted() -> None:
    """Its slots overlap, so it is an array on the stack, although no index depends on a loop."""
    tile, out = Buffer("tile", (const(4),), scope="local"), Buffer("out", (const(4),))
    whole = Ramp(const(0), const(1), 4)
    fill = BufferStore(tile, const(0.0, "float32x4"), (whole,))
    for index, memory in ((const(0), 16), (whole, 0)):
        read = BufferLoad(tile, (index,))
        kernel = PrimFunc((out,), Allocate(tile, Seq((fill, BufferStore(out, read, (index,))))))
        assert footprint(kernel.body, {}, in_registers(kernel)) == memory + read.dtype.bytes


def test_a_comparison_of_floats_made_from_a_loop_variable_is_an_operation_on_floats() -> None:
    @T.prim_func
    def main(B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.Select(T.Cast("float32", vi) < T.Cast("float32", 3 - vi), T.float32(0.0), T.float32(1.0))

    (kernel,) = kernels(main, schedule=False)
    assert assert_counted(kernel).flops == 4


def test_the_second_of_two_conditions_is_read_where_the_first_does_not_decide() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.Select(vi == 0 and A[vi] == 0, 0, 1)
                C[vi] = T.Select(vi == 0 or A[vi] == 0, 0, 1)

    (kernel,) = kernels(main, schedule=False)
    assert by_name(assert_counted(kernel).loads) == {"A": 1 + 3}


def test_intervals_are_sets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        offsets = rng.integers(0, 60, rng.integers(1, 9))
        step, times = int(rng.integers(0, 9)), int(rng.integers(1, 6))
        found = Intervals.at(offsets).repeated(step, times)
        wanted = {int(o) + step * t for o in offsets for t in range(times)}
        listed = [i for a, b in zip(found.starts, found.ends) for i in range(int(a), int(b))]
        assert listed == sorted(wanted) and found.count == len(wanted)
        assert union([found, Intervals.at(offsets + 7)]).count == len(wanted | {int(o) + 7 for o in offsets})
