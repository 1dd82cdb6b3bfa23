"""What `build` chooses for NVIDIA, as machine code: the linker tells the registers and the storage of a kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import minitvm
from minitvm import te, topi
from minitvm.expr import walk
from minitvm.machines.gpu.strategy.implicit_gemm import Tile
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from minitvm.tir.nodes import Allocate, KernelCall, PrimFunc
from minitvm.tir.transform import lower

from ..gpu.strategy.test_gpu import OF_64, convolution, matmul, shared_candidate
from .strategy.tensor_core_programs import convolution as half_convolution
from .strategy.tensor_core_programs import product

pytest.importorskip("numba_cuda")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_90a")


def softmax() -> PrimFunc:
    x = te.placeholder((4096, 1000), name="x")
    return te.create_prim_func([x, topi.softmax(x)])


# What must be there in PTX. Tensor cores: from sm_80 on, elsewhere the product is one of floats.
WIDE = ("ld.global.v4.f32", "st.global.v4.f32", "ld.shared.v4.f32", "bar.sync")
CHOSEN = {
    "matmul": (lambda: matmul(1024, 1024, 1024), "contraction", WIDE),
    "conv2d": (lambda: convolution(64, 56, 64, 3), "contraction", ("st.global.v4.f32", "fma.rn.f32")),
    "softmax": (softmax, "rows", ("shfl.sync.down.b32",)),
    "half": (
        lambda: product(1024, 1024, 1024),
        "tensor_core",
        ("mma.sync.aligned.m16n8k16", "ldmatrix", "cp.async.cg"),
    ),
    # Weights and pixels are copied asynchronously, 16 bytes each, or 16 zeros where a pixel is padding.
    "half conv2d": (
        lambda: half_convolution(64, 28, 64, 3, block=8),
        "tensor_core",
        ("mma.sync.aligned.m16n8k16", "ldmatrix", "cp.async.cg", "], 16;", "], 16, %r"),
    ),
}


EVERY = [(name, arch) for name in CHOSEN for arch in ARCHITECTURES]
FIRST = {("matmul", "sm_75"), ("matmul", "sm_90a"), ("half conv2d", "sm_80"), ("conv2d", "sm_90"), ("softmax", "sm_80")}


@pytest.mark.parametrize(
    ("name", "arch"), [pytest.param(*one, marks=[] if one in FIRST else pytest.mark.full) for one in EVERY]
)
def test_what_build_chooses_fits_the_device(name: str, arch: str) -> None:
    from minitvm.machines.cuda.runtime import compiler

    make, rule, wanted = CHOSEN[name]
    func: Any = make()
    target = Target(f"cuda -arch={arch}")
    if name.startswith("half") and arch == "sm_75":
        rule, wanted = "contraction", ("fma.rn.f32",)
    picked = chosen(func, target)
    assert picked.rule == rule
    threads = threads_of_kernels(picked.schedule.func, target)
    ptx_of_all = ""
    for kernel in minitvm.lower(picked.schedule.func, target=target, stop_at="executable").kernels:
        ptx = compiler.ptx_of(kernel.source, kernel.entry, arch)
        code, log = compiler.linked(ptx, arch)
        taken = compiler.resources(log)
        assert code.startswith(b"\x7fELF") and f".target {arch}" in ptx
        assert taken.spill_stores == taken.spill_loads == taken.stack_bytes == 0
        assert taken.registers <= target.max_registers_per_thread
        assert taken.registers * threads[kernel.name] <= target.registers_per_block
        assert taken.shared_bytes + kernel.shared_bytes <= target.max_shared_memory_per_block
        ptx_of_all += ptx
    assert [text for text in wanted if text not in ptx_of_all] == []


def threads_of_kernels(func: PrimFunc, target: Target) -> dict[str, int]:
    """The threads of a block of each kernel, as its host function says."""
    host = next(f for _, f in lower(func, target).items() if f.attrs.get("host"))
    calls = [node for node in walk(host.body) if isinstance(node, KernelCall)]
    return {call.kernel: prod(int(n) for n in call.grid[3:]) for call in calls}


def test_lines_of_a_tile_that_is_turned_around_count() -> None:
    """What a candidate says that its block shares is what its kernel declares, or more."""
    target = Target("cuda -arch=sm_80")
    for func in (matmul(64, 128, 64), matmul(64, 128, 64, transpose_b=True), matmul(40, 72, 48, transpose_a=True)):
        one = shared_candidate(func, "cuda -arch=sm_80", stages=2, **OF_64)
        (kernel,) = [f for _, f in lower(one.schedule(func).func, target).items() if not f.attrs.get("host")]
        declared = [n.buffer for n in walk(kernel.body) if isinstance(n, Allocate) and n.buffer.scope == "shared"]
        tile = Tile(**one.knobs)  # type: ignore[arg-type]
        said = tile.shared_bytes
        used = 4 * sum(int(buffer.shape[0]) for buffer in declared)
        assert used <= said <= used + 4 * 8 * tile.depth * tile.stages  # lines without a gap, and the last ones


def test_what_is_fetched_behind_the_products_is_in_registers_meanwhile() -> None:
    """Loads, then multiply-adds, then stores, in the loop over pieces, of the tile of a large product."""
    from minitvm.machines.cuda.runtime import compiler

    tile = {"rows": 128, "columns": 128, "depth": 8, "thread_rows": 8, "thread_columns": 8, "splits": 1}
    func, target = matmul(4096, 4096, 4096), "cuda -arch=sm_90a -multiprocessors=132"
    schedule = shared_candidate(func, target, **tile, fetch="behind").schedule(func)
    (kernel,) = minitvm.lower(schedule.func, target=target, stop_at="executable").kernels
    ptx = compiler.ptx_of(kernel.source, kernel.entry, "sm_90a")
    loop = ptx[ptx.index("bar.sync") :]
    wanted = ["ld.global.f32", "ld.global.v4.f32", "fma.rn.f32", "st.shared.f32", "st.shared.v4.f32", "bar.sync"]
    places = [loop.index(text, 1) for text in wanted]
    assert places == sorted(places) and loop.index("ld.shared.v4.f32") < loop.index("fma.rn.f32")
    taken = compiler.resources(compiler.linked(ptx, "sm_90a")[1])
    assert taken.spill_stores == taken.spill_loads == taken.stack_bytes == 0 and taken.registers <= 128  # two blocks
