# mypy: ignore-errors
"""Products of matrices on tensor cores, and checks of them that raise `AssertionError`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import minitvm
from minitvm import reference, strategy, te, tir, topi
from minitvm.errors import ScheduleError
from minitvm.expr import call, walk
from minitvm.strategy.gpu import tensor_cores as rule
from minitvm.target import Target

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
        return te.create_prim_func([x, w, topi.relu(topi.conv2d_nchwc(x, w, **options))])
    x = te.placeholder((batch, channels, image, image), dtype, name="x")
    w = te.placeholder((out, channels, kernel, kernel), dtype, name="w")
    return te.create_prim_func([x, w, topi.cast(topi.relu(topi.conv2d(x, w, **options)), dtype=dtype)])


_SMALL = {**KNOBS, "rows": 16, "columns": 8}
PRODUCTS = {
    "float16": (product(32, 16, 48), KNOBS),
    "bfloat16": (product(32, 16, 32, "bfloat16"), KNOBS),
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
    functools.partial(means_the_same, "padded"),
    *(functools.partial(runs_lane_by_lane, name) for name in ("tf32", "tf32, transposed")),
    functools.partial(means_the_same, "convolution of blocks"),
    functools.partial(means_the_same, "convolution"),
    *(functools.partial(runs_lane_by_lane, name) for name in ("float16", "transposed")),
    *(functools.partial(means_the_same, name) for name in ("float16", "two rows of warps", "followed")),
    *(functools.partial(runs_lane_by_lane, name) for name in ("bfloat16", "followed", "two rows of warps", "batched")),
]
