"""TVM's instructions for bytes and tensor cores: programs are tensorized with them, and mean the same."""

from __future__ import annotations

import importlib

import pytest

from minitvm import build, tir
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.compat.tvm.schedule.transform import tile_with_tensor_intrin
from minitvm.compat.tvm.tensor_intrin import cuda
from minitvm.compat.tvm.tensor_intrin.cuda import get_wmma_intrin_group
from minitvm.compat.tvm.tensor_intrin.dot_products import rows_by_vector
from minitvm.compat.tvm.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN, dot_product_16x4_u8i8i32_desc
from minitvm.errors import InputError, Unsupported
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir.schedule.analysis import get_tensorize_loop_mapping

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
            "WMMA_LOAD_16x16x16_S8_B_TRANS_DYN WMMA_FILL_16x16x16_S32 WMMA_STORE_16x16x16_F16_SHARED_DYN "
            "LDMATRIX_f16_A_TRANS_DYN LDMATRIX_i8_B MMA_f16f16f16_TRANS_A_TRANS_B MMA_i8i8i32_TRANS_B "
            "MMA_fill_16x16_i32 MMA_store_16x16_f32_shared_dyn"
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
        importlib.import_module("minitvm.compat.tvm.tensor_intrin.cuda").WMMA_SYNC_16x16x16_f16f16f3_INTRIN


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


def warp_product(operands: str, sums: str, trans_a: bool, trans_b: bool, steps: int) -> tir.PrimFunc:
    """A product of 32 x 16 x 2 * steps."""
    depth, zero = 2 * steps, tir.const(0, sums)

    @T.prim_func
    def func(
        A: T.Buffer((depth, 32) if trans_a else (32, depth), operands),
        B: T.Buffer((16, depth) if trans_b else (depth, 16), operands),
        C: T.Buffer((32, 16), sums),
    ):
        for i, j, k in T.grid(32, 16, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = zero
                a0, a1 = T.meta_var((vk, vi) if trans_a else (vi, vk))
                b0, b1 = T.meta_var((vj, vk) if trans_b else (vk, vj))
                C[vi, vj] = C[vi, vj] + T.Cast(sums, A[a0, a1]) * T.Cast(sums, B[b0, b1])

    return func


@pytest.mark.parametrize(
    ("operands", "sums", "trans_a", "trans_b"),
    [("float16", "float32", False, True), ("float16", "float32", True, False), ("int8", "int32", False, False)],
)
def test_a_product_by_fragments_of_a_warp(operands: str, sums: str, trans_a: bool, trans_b: bool) -> None:
    """`transform_layout` gives fragments the form that the hardware has, and the instructions fit."""
    steps = 16 if operands == "float16" else 32
    columns = ((steps, 16), cuda.shared_32x16_to_ldmatrix_32x16_layout)
    rows = ((16, steps), cuda.shared_16x32_to_ldmatrix_32x16_layout)
    square = ((16, 16), cuda.shared_16x16_to_ldmatrix_32x8_layout)
    layouts = (square, square) if steps == 16 else (rows, rows if trans_b else columns)
    group = cuda.get_mma_intrin_group("shared", "global", operands, sums, trans_a, trans_b, False)
    func = warp_product(operands, sums, trans_a, trans_b, steps)
    sch = tir.Schedule(func)
    block = sch.get_block("C")

    def placed(layout):
        (height, width), place = layout
        return lambda i, j: (i // height, j // width, *place(i % height, j % width))

    (_, inner), (outer, column), (step, k) = (
        sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), (16, 16, steps), strict=True)
    )
    sch.reorder(outer, step, inner, column, k)
    for which, part in enumerate(("load_a", "load_b")):
        sch.compute_at(sch.cache_read(block, which, "shared"), step)
        fragment = sch.cache_read(block, which, "warp")
        sch.transform_layout(fragment, ("write", 0), placed(layouts[which]))
        sch.tensorize(sch.get_loops(fragment)[-2], group[part])
    result = sch.cache_write(block, 0, "warp")
    sch.reverse_compute_at(result, outer)
    sch.transform_layout(block, ("write", 0), placed(square))
    start = sch.decompose_reduction(block, step)
    sch.tensorize(sch.get_loops(start)[-2], group["init"])
    sch.tensorize(sch.get_loops(result)[-2], group["store"])
    sch.tensorize(inner, group["compute"])
    assert check(func, sch.mod["main"], shrink=False)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("name", ["mma_ldmatrix_e4m3_a", "wmma_sync_8x8x32_s4s4s32_trans"])
def test_instructions_of_dtypes_that_are_absent_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="TVM has one of (int4|float8_e4m3fn), and there is no such dtype here"):
        tir.TensorIntrin.get(name)


def test_a_description_needs_an_instruction_or_an_implementation() -> None:
    with pytest.raises(Exception, match="neither an implementation nor an instruction"):
        tir.TensorIntrin.register("nothing", rows_by_vector(4, 4, "int8", "int8", "int32"))
