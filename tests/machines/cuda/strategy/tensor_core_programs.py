# mypy: ignore-errors
"""Products of matrices on tensor cores, and checks of them that raise `AssertionError`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import minitvm
from minitvm import reference, strategy, te, tir, topi
from minitvm.arith import simplify
from minitvm.errors import ScheduleError
from minitvm.expr import call, const, substitute, walk
from minitvm.machines.cuda.strategy import tensor_cores as rule
from minitvm.machines.cuda.tensor_intrin.tensor_cores import STORE_SHARED
from minitvm.machines.gpu.strategy.grid import in_groups
from minitvm.machines.gpu.transform.insert_barriers import BARRIER
from minitvm.machines.simd.topi.blocked import conv2d_nchwc
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.async_copies import is_wait

TARGET = "cuda -arch=sm_80"
KNOBS = {"rows": 32, "columns": 16, "depth": 16, "warp_rows": 1, "warp_columns": 1, "stages": 2}


def product(m: int, n: int, k: int, dtype: str = "float16", *, transposed: bool = False, followed: bool = False,
            batch: int | None = None) -> tir.PrimFunc:  # fmt: skip
    """a [b, m, k] times b [b, k, n], or [b, n, k], summed in float32; `followed` by a bias and a conversion."""
    lead = () if batch is None else (batch,)
    a = te.placeholder((*lead, m, k), dtype, name="A")
    b = te.placeholder((*lead, *((n, k) if transposed else (k, n))), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    wide = (lambda e: call("round_tf32", e)) if dtype == "float32" else (lambda e: e.astype("float32"))

    def element(*i):
        second = b[(*i[:-2], i[-1], r)] if transposed else b[(*i[:-2], r, i[-1])]
        return te.sum(wide(a[(*i[:-1], r)]) * wide(second), axis=r)

    c = te.compute((*lead, m, n), element, name="C")
    if not followed:
        return te.create_prim_func([a, b, c])
    bias = te.placeholder((n,), "float32", name="bias")
    d = te.compute((*lead, m, n), lambda *i: c[i] + bias[i[-1]], name="D")
    return te.create_prim_func([a, b, bias, te.compute((*lead, m, n), lambda *i: d[i].astype(dtype), name="E")])


def convolution(channels: int, image: int, out: int, kernel: int, *, batch: int = 1, strides: int = 1,
                dtype: str = "float16", block: int = 0) -> tir.PrimFunc:  # fmt: skip
    """A convolution summed in float32, then ReLU: of channels in blocks, or [N, C, H, W], which is converted back."""
    options = {"padding": kernel // 2, "strides": strides, "out_dtype": "float32"}
    if block:
        x = te.placeholder((batch, channels // block, image, image, block), dtype, name="x")
        w = te.placeholder((out // block, channels // block, kernel, kernel, block, block), dtype, name="w")
        return te.create_prim_func([x, w, topi.relu(conv2d_nchwc(x, w, **options))])
    x = te.placeholder((batch, channels, image, image), dtype, name="x")
    w = te.placeholder((out, channels, kernel, kernel), dtype, name="w")
    return te.create_prim_func([x, w, topi.cast(topi.relu(topi.conv2d(x, w, **options)), dtype=dtype)])


_SMALL = {**KNOBS, "rows": 16, "columns": 8}
PRODUCTS = {
    "float16": (product(32, 16, 48), KNOBS),
    "bfloat16": (product(16, 16, 64, "bfloat16"), {**_SMALL, "depth": 32}),
    "transposed": (product(32, 32, 32, transposed=True), {**KNOBS, "warp_columns": 4, "columns": 32}),
    "two rows of warps": (product(64, 16, 32), {**KNOBS, "rows": 64, "columns": 16, "depth": 32, "warp_rows": 2}),
    "three stages": (product(32, 32, 96), {**KNOBS, "columns": 32, "warp_columns": 2, "stages": 3}),
    "four stages": (product(16, 16, 112, followed=True), {**KNOBS, "rows": 16, "stages": 4}),
    "followed": (product(32, 16, 32, followed=True), KNOBS),
    "batched": (product(32, 16, 32, batch=2), KNOBS),
    "padded": (product(19, 21, 37), KNOBS),
    "convolution": (convolution(3, 4, 9, 2, batch=2, strides=2), _SMALL),
    "convolution of blocks": (convolution(16, 3, 8, 2, block=8), {**_SMALL, "depth": 32}),
    "tf32": (product(32, 16, 24, "float32"), {**KNOBS, "rows": 16, "columns": 16, "depth": 8}),
    "tf32, transposed": (product(16, 13, 19, "float32", transposed=True, followed=True), {**_SMALL, "depth": 8}),
    "padded and followed": (product(30, 17, 16, transposed=True, followed=True, batch=2), KNOBS),
}


@functools.cache
def scheduled(name: str) -> tir.PrimFunc:
    func, knobs = PRODUCTS[name]
    try:
        chosen = strategy.registry.chosen(func, Target(TARGET), knobs)
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    assert chosen.rule == "tensor_core", chosen.choice.refused
    return chosen.schedule.func


def means_the_same(name: str) -> None:
    """The schedule, and the kernel: exact sums, and no thread reads what another one has not written."""
    func, after = PRODUCTS[name][0], scheduled(name)
    for program in (after, tir.transform.pipeline.lower(after, Target(TARGET))):
        verdict = reference.check(func, program, modes=("exact", "shadow"))
        assert verdict, verdict


def runs_lane_by_lane(name: str) -> None:
    """The text of the kernel, with fragments as PTX distributes them over the lanes."""
    func = PRODUCTS[name][0]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal([int(d.value) for d in p.shape]).astype(p.dtype.numpy) for p in func.buffers]
    wanted, found = np.zeros_like(arrays[-1]), np.zeros_like(arrays[-1])
    reference.tir.run(func, *arrays[:-1], wanted)
    minitvm.build(scheduled(name), target=TARGET)(*arrays[:-1], found)
    tolerance = 1e-5 if found.dtype == np.float32 else 2e-2
    np.testing.assert_allclose(found.astype("float32"), wanted.astype("float32"), rtol=tolerance, atol=tolerance)


def kernel_of(func: tir.PrimFunc) -> tir.PrimFunc:
    (kernel,) = [f for _, f in tir.transform.pipeline.lower(func, Target(TARGET)).items() if not f.attrs.get("host")]
    return kernel


def a_step_of_three_stages_waits_once() -> None:
    """One loop, which runs to the end, and in it one wait, one barrier and one product a step of each tile."""
    kernel = kernel_of(scheduled("three stages"))
    (loop,) = [n for n in walk(kernel.body) if isinstance(n, tir.For) and any(map(is_wait, walk(n.body)))
               and n.kind is tir.ForKind.SERIAL]  # fmt: skip
    assert int(loop.extent.value) == 6  # as many steps as there are pieces
    inside = list(walk(loop.body))
    assert [int(n.value.args[0].value) for n in inside if is_wait(n)] == [1]
    barriers = [n for n in inside if isinstance(n, tir.Evaluate) and getattr(n.value, "op", "") == BARRIER]
    products = [n for n in walk(kernel.body) if isinstance(n, tir.Instruction) and n.name.startswith("mma_16x8x16")]
    assert (len(barriers), len(products)) == (1, 2 * 2)


def a_launch_gives_the_storage() -> None:
    """Tiles of more bytes than a kernel declares: the same product, the same loads, in storage of a launch."""
    func = product(16, 16, 32, followed=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "DECLARED", 0)
        after = strategy.schedule(func, Target(TARGET), knobs={**_SMALL, "columns": 16}).func
    kernel = kernel_of(after)
    scopes = {n.buffer.scope for n in walk(kernel.body) if isinstance(n, tir.Allocate)}
    assert scopes == {"shared.dyn", "warp.matrix_a", "warp.matrix_b", "warp.accumulator"}
    verdict = reference.check(func, kernel_module := tir.transform.pipeline.lower(after, Target(TARGET)),
                              modes=("exact", "shadow"))  # fmt: skip
    assert verdict, (verdict, kernel_module)


def rows_of_results_lie_apart() -> None:
    """What follows a product reads a tile whose rows are 8 elements longer than its 16 columns, in other banks."""
    stores = [n for n in walk(kernel_of(scheduled("followed")).body)
              if isinstance(n, tir.Instruction) and n.name == STORE_SHARED]  # fmt: skip
    places = [n.operands[1].places for n in stores]
    strides = {int(simplify(row.indices[0] - first.indices[0]).value) for first, row, _ in places}
    assert strides == {24}


def odd_rows_are_stored_by_elements() -> None:
    """8 bytes of a thread's pair need a place that they divide: rows of 9 elements have none."""
    for columns in (9, 10):
        text = f"""
    @T.prim_func
    def main(A: T.Buffer((16, {columns})), C: T.Buffer((16, {columns}))):
        F = T.alloc_buffer((16, 8), scope="warp.accumulator")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.instruction("mma_fill_16x8_f32", T.tile(F[0, 0], F[1, 0], F[0, 1]), together=32):
                    for i, j in T.grid(16, 8):
                        F[i, j] = T.float32(0)
                with T.instruction("mma_store_16x8_f32", T.tile(F[0, 0], F[1, 0], F[0, 1]),
                                   T.tile(C[0, 0], C[1, 0], C[0, 1]), together=32):
                    for i, j in T.grid(16, 8):
                        C[i, j] = F[i, j]
    """
        out = np.ones((16, columns), "float32")
        minitvm.build(from_source(text), target=TARGET)(np.zeros_like(out), out)
        assert not out[:, :8].any() and out[:, 8:].all()


def blocks_start_in_groups() -> None:
    """Down the rows of a group, then along its columns, then the next group."""
    x = te.placeholder((4, 3), name="x")
    sch = tir.Schedule(te.create_prim_func([x, te.compute((4, 3), lambda i, j: x[i, j], name="y")]))
    loop = in_groups(sch, *sch.get_loops(sch.get_block("y")), 2)
    (realize,) = [n for n in walk(sch.func.body) if isinstance(n, tir.BlockRealize) and n.block.name == "y"]
    var = sch.get(loop).loop_var
    order = [tuple(int(simplify(substitute(v, {var: const(k)})).value) for v in realize.iter_values) for k in range(12)]
    assert order == [(2 * g + i, j) for g in range(2) for j in range(3) for i in range(2)]
    func, knobs = product(32, 16, 32), {**_SMALL, "depth": 32}
    some = next(c for c in strategy.candidates(func, Target(TARGET)) if {**c.knobs, **knobs} == dict(c.knobs))
    after = some.with_knobs(group=2).schedule(func).func
    axes = {n.thread for n in walk(after.body) if isinstance(n, tir.For) and n.thread}
    assert axes == {"blockIdx.x", "threadIdx.x", "threadIdx.y"}
    verdict = reference.check(func, tir.transform.pipeline.lower(after, Target(TARGET)), modes=("exact", "shadow"))
    assert verdict, verdict


def many_products_lie_along_x() -> None:
    """As many products as y and z have no blocks for: all axes of blocks are one, and the kernel means the same."""
    func = product(16, 16, 16, batch=65536)
    after = strategy.schedule(func, Target(TARGET), knobs=_SMALL).func
    loops = [node for node in walk(after.body) if isinstance(node, tir.For) and node.kind is tir.ForKind.THREAD]
    grid = {loop.thread: int(loop.extent.value) for loop in loops if str(loop.thread).startswith("blockIdx")}
    assert grid == {"blockIdx.x": 65536 * 2}, grid
    few = product(16, 16, 16, batch=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "MOST", 1)
        fused = strategy.schedule(few, Target(TARGET), knobs=_SMALL).func
    assert not any(getattr(node, "thread", None) == "blockIdx.y" for node in walk(fused.body))
    verdict = reference.check(few, tir.transform.pipeline.lower(fused, Target(TARGET)), modes=("exact", "shadow"))
    assert verdict, verdict


CHECKS = [
    many_products_lie_along_x,
    blocks_start_in_groups,
    a_step_of_three_stages_waits_once,
    a_launch_gives_the_storage,
    rows_of_results_lie_apart,
    odd_rows_are_stored_by_elements,
    functools.partial(means_the_same, "three stages"),
    functools.partial(means_the_same, "padded"),
    *(functools.partial(runs_lane_by_lane, name) for name in ("tf32", "tf32, transposed")),
    functools.partial(means_the_same, "convolution of blocks"),
    functools.partial(runs_lane_by_lane, "convolution of blocks"),
    functools.partial(means_the_same, "convolution"),
    *(functools.partial(runs_lane_by_lane, name) for name in ("float16", "transposed")),
    *(functools.partial(means_the_same, name) for name in ("float16", "two rows of warps", "followed")),
    *(functools.partial(runs_lane_by_lane, name) for name in ("bfloat16", "followed", "two rows of warps", "batched")),
    functools.partial(runs_lane_by_lane, "padded and followed"),
]
