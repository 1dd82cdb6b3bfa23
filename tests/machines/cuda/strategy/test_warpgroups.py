"""Products of warpgroups: the oracle on schedules and kernels, threads in the simulator, PTX and cubins."""

from __future__ import annotations

import re

import pytest

from minitvm import strategy, tir
from minitvm.errors import Unsupported
from minitvm.expr import walk
from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.machines.cuda.tensor_intrin import warpgroups
from minitvm.machines.opencl.codegen import statements as opencl
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir import Instruction, TensorIntrin

from .tensor_core_programs import product
from .warpgroup_programs import (
    PRODUCTS,
    TARGET,
    candidates_fit_a_multiprocessor,
    kernel_of,
    means_the_same,
    pairs_are_stored_at_even_places,
    runs_lane_by_lane,
    scheduled,
    stores_are_made_known,
)

pytest.importorskip("numba_cuda")

SHORT = ("transposed, padded and followed",)
EVERY = [pytest.param(name, marks=[] if name in SHORT else pytest.mark.full) for name in PRODUCTS]


@pytest.mark.parametrize("name", EVERY)
def test_same_meaning(name: str) -> None:
    means_the_same(name)


@pytest.mark.parametrize(
    "name",
    ["transposed, padded and followed", "three stages", "bfloat16, two groups"]
    + [pytest.param(name, marks=pytest.mark.full) for name in ("float16", "batched", "convolution")],
)
def test_threads(name: str) -> None:
    runs_lane_by_lane(name)


def test_stores_to_shared_storage_are_made_known() -> None:
    stores_are_made_known()


def test_products_run_on_while_the_next_operands_are_copied() -> None:
    """In the loop of three stages: wait, one barrier, multiply, copy."""
    text = generate(kernel_of("three stages"), Target(TARGET))
    loop = text[text.index("async_wait(1)") :]
    order = [
        "async_wait(1)",
        "wgmma_wait(0)",
        "syncthreads",
        "= wgmma_64x8x16",
        "wgmma_commit",
        "async_copy",
        "wgmma_wait(0)",
    ]
    places = [0]
    for part in order:
        places.append(loop.index(part, places[-1] + 1 if places[-1] else 0))
    assert places == sorted(places) and loop[: places[-1]].count("syncthreads") == 1
    assert loop.index("wgmma_store") > places[-1]


def test_pairs_are_stored_at_even_places() -> None:
    pairs_are_stored_at_even_places()


def test_ptx() -> None:
    from minitvm.machines.cuda.runtime import compiler

    kernel = kernel_of("bfloat16, two groups")
    ptx = compiler.ptx_of(generate(kernel, Target(TARGET)), kernel.name, "sm_90a")
    product = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
    wait = "wgmma.wait_group.sync.aligned 0"  # in front of a barrier, and of what reads sums
    order = ["cp.async.wait_group", wait, "fence.proxy.async.shared::cta", "bar.sync", "wgmma.fence.sync.aligned"]
    order += [product, "wgmma.commit_group.sync.aligned", wait, "st.global"]
    at = ptx.index("cp.async.wait_group")
    for text in order:
        assert text in ptx[at:], text
        at = ptx.index(text, at)
    assert ptx.count(product) == 4 * ptx.count("wgmma.commit_group") == 4
    # With 128-byte swizzle, 8 lines are 1024 bytes. Of the one slab of the second operand there is no next one.
    for lead in (16, 0):
        assert str(1 << 62 | 1024 // 16 << 32 | lead // 16 << 16) in ptx
    assert "st.global.v2.f32" in ptx
    code, log = compiler.linked(ptx, "sm_90a")
    used = compiler.resources(log)
    assert code and used.spill_stores == used.spill_loads == used.stack_bytes == 0


@pytest.mark.full
def test_a_large_product_spills_nothing() -> None:
    from minitvm.machines.cuda.runtime import compiler

    target = Target(TARGET)
    chosen = strategy.registry.chosen(product(4096, 4096, 4096), target)
    assert chosen.rule == "warpgroup"
    lowered = tir.transform.pipeline.lower(chosen.schedule.func, target)
    (kernel,) = [f for _, f in lowered.items() if not f.attrs.get("host")]
    _, log = compiler.linked(compiler.ptx_of(generate(kernel, target), kernel.name, "sm_90a"), "sm_90a")
    used = compiler.resources(log)
    assert used.spill_stores == used.stack_bytes == 0 and used.registers <= 192


def test_candidates() -> None:
    candidates_fit_a_multiprocessor()


def test_only_sm_90a_has_them() -> None:
    func = product(4096, 4096, 4096)
    assert strategy.candidates(func, Target(TARGET))[0].rule == "warpgroup"
    assert strategy.candidates(func, Target("cuda -arch=sm_90"))[0].rule == "tensor_core"
    assert strategy.candidates(product(4096, 4096, 4096, "float32"), Target(TARGET))[0].rule != "warpgroup"
    knobs = {"rows": 16, "columns": 8, "depth": 16, "warp_rows": 1, "warp_columns": 1, "stages": 2}
    assert strategy.registry.chosen(product(16, 16, 64), Target(TARGET), knobs).rule == "tensor_core"
    kernel = kernel_of("float16")
    with pytest.raises(Unsupported, match=r"cannot be used(.|\n)*sm_90a(.|\n)*sm_90"):
        generate(kernel, Target("cuda -arch=sm_90"))
    with pytest.raises(Unsupported, match="has no spelling in opencl"):
        opencl.generate(kernel, Target("opencl"))


def test_accumulators_are_registers_of_a_warpgroup() -> None:
    kernel = kernel_of("float16")
    assert all(n.together == 128 for n in walk(kernel.body) if isinstance(n, Instruction))
    text = kernel.script()
    (fragment,) = [n.buffer for n in walk(kernel.body) if isinstance(n, tir.Allocate) and "accum" in n.buffer.scope]
    place = rf"{fragment.name}\[[^\]]*\]"
    moved = re.sub(
        rf"T.tile\({place}, {place}, {place}\)", "T.tile(F[8], F[16], F[9])".replace("F", fragment.name), text
    )
    with pytest.raises(Unsupported, match="accumulators of a warpgroup lie 64 rows apart"):
        generate(from_source(moved), Target(TARGET))
    with pytest.raises(Unsupported, match="accessed element by element"):
        generate(
            from_source(re.sub(r"(\n +)T.ptx_wait_group\((\d)\)", rf"\1{fragment.name}[0] = T.float32(1)", text)),
            Target(TARGET),
        )


def test_operands_lie_where_descriptors_reach() -> None:
    text = kernel_of("float16").script()
    odd = re.sub(r"T.tile\((A_shared\w*)\[(\w)", r"T.tile(\1[64 + \2", text)
    with pytest.raises(Unsupported, match="multiples of 8 lines"):
        generate(from_source(odd), Target(TARGET))


def test_names() -> None:
    for name in (
        "wgmma_64x24x128_bf16_nt",
        "wgmma_64x192x64_f16",
        "wgmma_fill_64x256_f32",
        "wgmma_store_64x8_f32_shared",
    ):
        assert TensorIntrin.get(name).name == name
    for name in ("wgmma_64x12x64_f16_nt", "wgmma_64x24x64_f16", "wgmma_64x320x64_f16", "wgmma_64x64x32_f16",
                 "wgmma_fill_64x8_f32_shared"):  # fmt: skip
        assert TensorIntrin.get(name, allow_missing=True) is None
    assert warpgroups.columns_of("wgmma_64x24x128_bf16_nt") == 24 and warpgroups.steps_of("wgmma_64x64x128_f16") == 128


def test_descriptions_are_instructions_of_cuda() -> None:
    for dtype in warpgroups.INPUTS:
        for transposed in (False, True):
            intrin = TensorIntrin.get(warpgroups.multiply(64, 64, dtype, transposed))
            assert (
                intrin is not None and intrin.spelling("numba-cuda") is not None and intrin.spelling("opencl") is None
            )


def test_128_threads_run_them() -> None:
    text = scheduled("float16").script().replace('thread_binding(128, thread="threadIdx.x")',
                                                 'thread_binding(32, thread="threadIdx.x")')  # fmt: skip
    with pytest.raises(Unsupported, match="run by 128 threads together"):
        tir.transform.pipeline.lower(from_source(text), Target(TARGET))
