"""TVM's instructions for bytes and tensor cores: programs are tensorized with them, and mean the same."""

from __future__ import annotations

import importlib

import pytest

from minitvm import build, tir
from minitvm.errors import Unsupported
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir.schedule.analysis import get_tensorize_loop_mapping
from minitvm.tir.schedule.testing import verify_trace_roundtrip
from minitvm.tir.schedule.transform import tile_with_tensor_intrin
from minitvm.tir.tensor_intrin.cuda import get_wmma_intrin_group
from minitvm.tir.tensor_intrin.dot_products import rows_by_vector
from minitvm.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN, dot_product_16x4_u8i8i32_desc

NAMES = [
    (module, name)
    for module, names in {
        "x86": "VNNI_DOT_16x4 AVX512_DOT_16x4",
        "arm_cpu": "ARM_DOT_4x4_i8_NEON ARM_DOT_4x4_i8_SDOT ARM_DOT_4x4_u8_UDOT ARM_DOT_4x4_u8_HDOT",
        "hexagon": "VRMPY_u8u8i32 VRMPY_u8i8i32 VDMPY_i16i16i32 VRMPY_u8u8i32_VTCM VRMPY_u8i8i32_VTCM",
        "dot_product_common": "DP4A_S8S8S32 DP4A_U8S8S32 DP4A_S8U8S32 DP4A_U8U8U32",
        "rocm": "AMDGPU_SDOT4",
        "cuda": (
            "WMMA_SYNC_16x16x16_f16f16f32 WMMA_SYNC_16x16x16_s8s8s32_TRANS WMMA_LOAD_16x16x16_F16_A "
            "WMMA_LOAD_16x16x16_S8_B_TRANS_DYN WMMA_FILL_16x16x16_S32 WMMA_STORE_16x16x16_F16_SHARED_DYN"
        ),
    }.items()
    for name in names.split()
]  # fmt: skip


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_each_name_is_an_instruction(module: str, name: str) -> None:
    text = getattr(importlib.import_module(f"minitvm.tir.tensor_intrin.{module}"), f"{name}_INTRIN")
    intrin = tir.TensorIntrin.get(text)
    assert intrin is not None and intrin.name == text
    assert intrin.spelling("numba-cpu") is None


def test_a_misspelt_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="did you mean WMMA_SYNC_16x16x16_f16f16f32_INTRIN"):
        importlib.import_module("minitvm.tir.tensor_intrin.cuda").WMMA_SYNC_16x16x16_f16f16f3_INTRIN


@T.prim_func
def dense(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((2, 2, 16, 4), "int8"), C: T.Buffer((4, 32), "int32")):
    for i, j, k in T.grid(4, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 16, vk // 4, vj % 16, vk % 4])


def test_bytes_by_a_dot_product() -> None:
    sch = tir.Schedule(dense)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    info = get_tensorize_loop_mapping(sch, block, dot_product_16x4_u8i8i32_desc)
    assert info is not None
    assert {sch.get(sref): info.desc_loop_indexer[loop] for sref, loop in info.loop_map.items()} == {
        sch.get(j): 0, sch.get(k): 1,
    }  # fmt: skip
    assert sch.get_sref(i) not in info.loop_map
    tile = tile_with_tensor_intrin(sch, block, VNNI_DOT_16x4_INTRIN)
    assert tile is not None
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.tensorize(tile, VNNI_DOT_16x4_INTRIN)
    assert "dot_16x4_vnni" in sch.mod.script()
    assert check(dense, sch.mod["main"])
    verify_trace_roundtrip(sch, dense)
    with pytest.raises(Unsupported, match="the instruction dot_16x4_vnni has no spelling in numba-cpu"):
        build(sch.mod)


@T.prim_func
def product(A: T.Buffer((16, 32), "float16"), B: T.Buffer((16, 32), "float16"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vj, vk])


def test_a_product_by_fragments() -> None:
    group = get_wmma_intrin_group("shared", "global", "float16", "float32", trans_b=True)
    sch = tir.Schedule(product)
    block = sch.get_block("C")
    tile = tile_with_tensor_intrin(sch, block, group["compute"])
    assert tile is not None
    step = sch.get_loops(block)[2]
    copies = []
    for k, side in enumerate("ab"):
        fragment = sch.cache_read(block, k, f"wmma.matrix_{side}")
        shared = sch.cache_read(fragment, 0, "shared")
        sch.compute_at(fragment, step)
        sch.compute_at(shared, step)
        copies.append(fragment)
    result = sch.cache_write(block, 0, "wmma.accumulator")
    start = sch.decompose_reduction(block, step)
    for fragment, part in zip(copies, ("load_a", "load_b"), strict=True):
        sch.tensorize(sch.get_loops(fragment)[-2], group[part])
    sch.tensorize(sch.get_loops(start)[-2], group["init"])
    sch.tensorize(sch.get_loops(result)[-2], group["store"])
    sch.tensorize(tile, group["compute"])
    assert check(product, sch.mod["main"])
    verify_trace_roundtrip(sch, product)


def test_a_description_needs_an_instruction_or_an_implementation() -> None:
    with pytest.raises(Exception, match="neither an implementation nor an instruction"):
        tir.TensorIntrin.register("nothing", rows_by_vector(4, 4, "int8", "int8", "int32"))
