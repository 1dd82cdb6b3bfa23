"""Products of warpgroups, and checks of them that raise `AssertionError`."""

from __future__ import annotations

import functools
import os

import numpy as np

import minitvm
from minitvm import reference, tir
from minitvm.errors import ScheduleError, Unsupported
from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.machines.cuda.runtime.faults import KernelFault
from minitvm.machines.cuda.strategy.tensor_cores import product_of
from minitvm.machines.cuda.strategy.warpgroup_tiles import WarpgroupTile
from minitvm.machines.cuda.strategy.warpgroups import schedule_product
from minitvm.script import from_source
from minitvm.strategy import candidates
from minitvm.target import Target

from .tensor_core_programs import convolution, product

TARGET = "cuda -arch=sm_90a"
# Rows, columns and steps of a tile, and how many steps of a pipeline have one.
PRODUCTS = {
    "float16": (product(64, 128, 128), (64, 64, 64, 2)),
    "bfloat16, two groups": (product(128, 64, 64, "bfloat16"), (128, 64, 64, 2)),
    "three stages": (product(64, 8, 256, transposed=True), (64, 8, 64, 3)),
    "transposed, padded and followed": (product(59, 13, 87, transposed=True, followed=True), (64, 8, 64, 2)),
    "batched": (product(64, 8, 128, batch=2, transposed=True), (64, 8, 64, 2)),
    "convolution": (convolution(16, 3, 8, 2, block=8, batch=3), (64, 64, 64, 2)),
}


@functools.cache
def scheduled(name: str) -> tir.PrimFunc:
    func, tile = PRODUCTS[name]
    sch, matrices = tir.Schedule(func), product_of(func)
    assert matrices is not None
    try:
        schedule_product(sch, matrices, WarpgroupTile(*tile[:3], stages=tile[3]))
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    return sch.func


def kernel_of(name: str) -> tir.PrimFunc:
    (kernel,) = [f for _, f in tir.transform.pipeline.lower(scheduled(name), Target(TARGET)).items()
                 if not f.attrs.get("host")]  # fmt: skip
    return kernel


def means_the_same(name: str) -> None:
    """The schedule, and the kernel: exact sums, and no thread reads what another one has not written."""
    func, after = PRODUCTS[name][0], scheduled(name)
    for program in (after, tir.transform.pipeline.lower(after, Target(TARGET))):
        verdict = reference.check(func, program, modes=("exact", "shadow"))
        assert verdict, verdict


def runs_lane_by_lane(name: str) -> None:
    """The text of the kernel, with operands where their descriptors say and sums as PTX distributes them."""
    func = PRODUCTS[name][0]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal([int(d.value) for d in p.shape]).astype(p.dtype.numpy) for p in func.buffers]
    wanted, found = np.zeros_like(arrays[-1]), np.zeros_like(arrays[-1])
    reference.tir.run(func, *arrays[:-1], wanted)
    device = os.environ.get("MINITVM_CUDA_DEVICE")
    os.environ["MINITVM_CUDA_DEVICE"] = "simulator"
    try:
        minitvm.build(scheduled(name), target=TARGET)(*arrays[:-1], found)
    except (KernelFault, Unsupported) as fault:
        raise AssertionError(str(fault)) from fault
    finally:
        os.environ.pop("MINITVM_CUDA_DEVICE")
        if device is not None:
            os.environ["MINITVM_CUDA_DEVICE"] = device
    tolerance = 1e-5 if found.dtype == np.float32 else 2e-2
    np.testing.assert_allclose(found.astype("float32"), wanted.astype("float32"), rtol=tolerance, atol=tolerance)


def stores_are_made_known() -> None:
    """Each barrier comes after a fence: products read shared storage in a way of their own."""
    lines = [line.strip() for line in generate(kernel_of("float16"), Target(TARGET)).splitlines()]
    barriers = [k for k, line in enumerate(lines) if line == "cuda.syncthreads()"]
    assert barriers and all(lines[k - 1] == "proxy_fence()" for k in barriers), lines


STORED = """
@T.prim_func(lowered=True)
def kernel(C: T.Buffer((64 * ROW,), "float32")):
    for g in T.thread_binding(1, thread="blockIdx.x"):
        F = T.decl_buffer((512,), scope="warpgroup.accumulator")
        for t in T.thread_binding(128, thread="threadIdx.x"):
            with T.instruction("wgmma_fill_64x8_f32", T.tile(F[0], F[8], F[1]), together=128):
                for i, j in T.grid(64, 8):
                    F[i * 8 + j] = T.float32(0)
            with T.instruction("wgmma_store_64x8_f32", T.tile(F[0], F[8], F[1]), T.tile(C[AT], C[AT + ROW], C[AT + 1]),
                               together=128):
                for i, j in T.grid(64, 8):
                    C[AT + i * ROW + j] = F[i * 8 + j]
"""


def pairs_are_stored_at_even_places() -> None:
    for row, at, lanes in ((10, 2, 2), (11, 2, 1), (10, 1, 1)):
        text = generate(from_source(STORED.replace("ROW", str(row)).replace("AT", str(at))), Target(TARGET))
        assert f"i32({row}), t, {lanes})" in text, text


def candidates_fit_a_multiprocessor() -> None:
    """Sums of a block are registers, tiles of all stages shared storage; small products are left to warps."""
    for followed in (False, True):
        func = product(4096, 4096, 4096, followed=followed)
        large = [one for one in candidates(func, Target(TARGET)) if one.rule == "warpgroup"]
        assert large
        for one in large:
            rows, columns, depth, stages = (int(one.knobs[name]) for name in ("rows", "columns", "depth", "stages"))
            results = 4 * rows * columns if followed else 0
            assert rows // 64 * 128 * columns // 2 < 65536
            assert stages * 2 * depth * (rows + columns) + results <= 227 << 10
    small = candidates(product(16, 16, 64), Target(TARGET))
    assert small and all(one.rule != "warpgroup" for one in small)


CHECKS = [
    candidates_fit_a_multiprocessor,
    stores_are_made_known,
    pairs_are_stored_at_even_places,
    *(functools.partial(runs_lane_by_lane, name) for name in (
        "transposed, padded and followed", "three stages", "bfloat16, two groups", "float16")),
    functools.partial(means_the_same, "transposed, padded and followed"),
]  # fmt: skip
