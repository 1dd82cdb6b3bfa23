"""Products on tensor cores: the oracle on schedules and kernels, lanes in the simulator, PTX and cubins."""

from __future__ import annotations

import re

import pytest

import minitvm
from minitvm import strategy, tir
from minitvm.errors import InputError, Unsupported
from minitvm.expr import walk
from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.machines.cuda.strategy.warp_tiles import Matrices, WarpTile
from minitvm.machines.cuda.tensor_intrin import tensor_cores
from minitvm.machines.opencl.codegen import statements as opencl
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir import Instruction, TensorIntrin
from minitvm.tir.transform.pipeline import lower

from .tensor_core_programs import (
    KNOBS,
    PRODUCTS,
    TARGET,
    a_launch_gives_the_storage,
    a_step_of_three_stages_waits_once,
    blocks_start_in_groups,
    kernel_of,
    many_products_lie_along_x,
    means_the_same,
    odd_rows_are_stored_by_elements,
    product,
    rows_of_results_lie_apart,
    runs_lane_by_lane,
    scheduled,
)

pytest.importorskip("numba_cuda")


FIRST = ("float16", "convolution", "convolution of blocks")
LONGER = [pytest.param(name, marks=[] if name in FIRST else pytest.mark.full) for name in PRODUCTS]


@pytest.mark.parametrize("name", LONGER)
def test_same_meaning(name: str) -> None:
    means_the_same(name)


@pytest.mark.parametrize("name", [*LONGER[:2], "transposed", *LONGER[3:]])
def test_lanes(name: str) -> None:
    runs_lane_by_lane(name)


@pytest.mark.parametrize(
    ("name", "arch"),
    [("float16", "sm_80"), ("transposed", "sm_90a"), pytest.param("bfloat16", "sm_90", marks=pytest.mark.full)],
)
def test_ptx(name: str, arch: str) -> None:
    from minitvm.machines.cuda.runtime import compiler

    kernel = kernel_of(scheduled(name))
    source = generate(kernel, Target(f"cuda -arch={arch}"))
    ptx = compiler.ptx_of(source, kernel.name, arch)
    kind = "bf16" if name == "bfloat16" else "f16"
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx
    second = {"float16": "x4.trans", "transposed": "x2", "bfloat16": "x2.trans"}[name]
    assert f"ldmatrix.sync.aligned.m8n8.{second}.shared.b16" in ptx
    assert "cp.async.cg.shared.global" in ptx and "cp.async.wait_group 1" in ptx
    code, log = compiler.linked(ptx, arch)
    used = compiler.resources(log)
    assert code and used.spill_stores == used.spill_loads == used.stack_bytes == 0
    assert used.shared_bytes <= 48 << 10


@pytest.mark.full
def test_a_large_product_spills_nothing() -> None:
    from minitvm.machines.cuda.runtime import compiler

    target = Target("cuda -arch=sm_80")
    (first, *_) = strategy.candidates(product(4096, 4096, 4096), target)
    tile = WarpTile(**first.knobs)
    assert (first.rule, tile.accumulators, tile.group > 1) == ("tensor_core", 128, True)
    (kernel,) = minitvm.lower(
        first.schedule(product(4096, 4096, 4096)).func, target=target, stop_at="executable"
    ).kernels
    used = compiler.resources(compiler.linked(compiler.ptx_of(kernel.source, kernel.entry, "sm_80"), "sm_80")[1])
    assert used.spill_stores == used.spill_loads == used.stack_bytes == 0
    matrices = Matrices(1, 4096, 4096, 4096, 2, (8, 8))
    threads = 32 * tile.warps * tile.residents(matrices, False, target)
    assert used.registers * threads <= target.registers_per_block
    assert kernel.shared_bytes + used.shared_bytes <= tile.shared_bytes(matrices, False)


def test_tf32_is_rounded_once_an_operand() -> None:
    from minitvm.machines.cuda.runtime import compiler

    kernel = kernel_of(scheduled("tf32"))
    ptx = compiler.ptx_of(generate(kernel, Target(TARGET)), kernel.name, "sm_80")
    count = ptx.count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
    # The two products of a step share the first factor, four words; each has two of its own.
    assert count % 2 == 0 and ptx.count("cvt.rna.tf32.f32") == count // 2 * (4 + 2 * 2)
    used = compiler.resources(compiler.linked(ptx, "sm_80")[1])
    assert used.spill_stores == used.spill_loads == used.stack_bytes == 0 and used.registers <= 64


def test_other_devices_and_shapes_have_other_rules() -> None:
    for func, target in (
        (product(32, 16, 32), "cuda -arch=sm_75"),
        (product(32, 16, 32, "float32"), "cuda -arch=sm_75"),
        (product(32, 16, 32), "opencl"),
    ):
        assert strategy.registry.chosen(func, Target(target)).rule == "contraction"


def test_as_many_products_as_y_and_z_have_no_blocks_for_lie_along_x() -> None:
    many_products_lie_along_x()


def test_a_step_of_three_stages_waits_once() -> None:
    a_step_of_three_stages_waits_once()


def test_a_launch_gives_what_a_kernel_cannot_declare() -> None:
    a_launch_gives_the_storage()


def test_results_lie_where_banks_differ() -> None:
    rows_of_results_lie_apart()


def test_pairs_are_stored_where_they_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CUDA_DEVICE", "simulator")
    odd_rows_are_stored_by_elements()


def test_blocks_start_in_groups_of_rows() -> None:
    blocks_start_in_groups()


def test_extents_that_tiles_do_not_divide_are_padded() -> None:
    first = strategy.candidates(product(1000, 1000, 1000), Target("cuda -arch=sm_90"))[0]
    assert first.rule == "tensor_core" and int(first.knobs["rows"]) * int(first.knobs["columns"]) >= 64 * 64
    # With zeros beside what is copied, too.
    for name in ("padded", "convolution of blocks", "float16"):
        assert any(isinstance(n, tir.Async) for n in walk(kernel_of(scheduled(name)).body))


def test_instructions_that_a_device_does_not_have_are_refused() -> None:
    kernel = kernel_of(scheduled("float16"))
    with pytest.raises(Unsupported, match=r"cannot be used") as refused:
        generate(kernel, Target("cuda -arch=sm_75"))
    assert "sm_80 or newer" in str(refused.value) and "sm_75" in str(refused.value)
    with pytest.raises(Unsupported, match="has no spelling in opencl"):
        opencl.generate(kernel, Target("opencl"))


def test_fragments_are_registers_of_a_warp() -> None:
    kernel = kernel_of(scheduled("float16"))
    text = kernel.script()
    fragment = next(n.buffer for n in walk(kernel.body) if isinstance(n, tir.Allocate) and "accum" in n.buffer.scope)
    with pytest.raises(Unsupported, match="accessed element by element"):
        generate(from_source(re.sub(r"(\n +)T.ptx_wait_group\(0\)", rf"\1{fragment.name}[0] = T.float32(1)", text)),
                 Target(TARGET))  # fmt: skip
    moving = re.sub(r"T.tile\(A_shared_warp_matrix_a\[0\]", "T.tile(A_shared_warp_matrix_a[k_1_0 * 8]", text)
    if moving != text and "k_1_0" in text:
        with pytest.raises(Unsupported, match="no addresses|multiples of"):
            generate(from_source(moving), Target(TARGET))


def test_a_warp_has_32_threads() -> None:
    text = scheduled("float16").script().replace('thread_binding(32, thread="threadIdx.x")',
                                                 'thread_binding(16, thread="threadIdx.x")')  # fmt: skip
    with pytest.raises(Unsupported, match="run by 32 threads together"):
        lower(from_source(text), Target(TARGET))


def test_every_lane_reaches_an_instruction() -> None:
    func = scheduled("float16")
    kernel = kernel_of(func)
    assert all(n.together == 32 for n in walk(kernel.body) if isinstance(n, Instruction))
    text = """
    @T.prim_func
    def main(C: T.Buffer((16, 8))):
        F = T.alloc_buffer((16, 8), scope="warp.accumulator")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if tx < 16:
                    with T.instruction("mma_fill_16x8_f32", T.tile(F[0, 0], F[1, 0], F[0, 1]), together=32):
                        for i, j in T.grid(16, 8):
                            F[i, j] = T.float32(0)
                    with T.instruction("mma_store_16x8_f32", T.tile(F[0, 0], F[1, 0], F[0, 1]),
                                       T.tile(C[0, 0], C[1, 0], C[0, 1]), together=32):
                        for i, j in T.grid(16, 8):
                            C[i, j] = F[i, j]
    """
    with pytest.raises(Unsupported, match="would not reach an instruction"):
        lower(from_source(text), Target(TARGET))


def test_knobs() -> None:
    with pytest.raises(InputError, match="no knob"):
        strategy.registry.chosen(PRODUCTS["float16"][0], Target(TARGET), {"nothing": 1})
    (candidate, *_) = strategy.candidates(PRODUCTS["float16"][0], Target(TARGET))
    assert {*KNOBS, "group"} == set(candidate.knobs)


@pytest.mark.parametrize("dtype", tensor_cores.INPUTS)
def test_descriptions_fit_their_instructions(dtype: str) -> None:
    names = [tensor_cores.load_a(dtype), tensor_cores.multiply(dtype)]
    names += [make(dtype, across) for across in (False, True) for make in (tensor_cores.load_b, tensor_cores.multiply)]
    for name in names:
        intrin = TensorIntrin.get(name)
        assert intrin is not None and intrin.spelling("numba-cuda") is not None and intrin.spelling("opencl") is None
