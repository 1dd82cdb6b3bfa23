# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Intrinsics for CPUs, written as plain loops that vectorise well: tiles whose sums stay in registers.

`dot_4x4_i8i8i32` multiplies four bytes by four rows of four bytes, as `vpdpbusd` (AVX-512 VNNI) and `sdot` (ARM) do for
whole registers. `dot_4x16_u8i8i32` is that instruction for sixteen rows at once; kernels call it directly.
`tile_dot_16x16x64_i8i8i32` is `tdpbssd` of Intel's AMX: it multiplies a tile of sixteen rows of 64 bytes by another
tile, whose rows are sixteen words of four bytes each. `matmul_4x4x4_f32` computes a 4 x 4 tile of results, which stays
in registers while four steps are added.

This file and `simd/tile_intrinsics.py` describe the intrinsics, `codegen/byte_instructions.py` and
`codegen/tile_registers.py` write them in kernels, and `runtime/machine_instructions.py` has the machine instructions.
"""

from __future__ import annotations

from ...expr import Expr
from ...tir.nodes import Buffer, PrimFunc
from ...tir.tensor_intrin import TensorIntrin
from ..simd import tile_intrinsics

DOT_4X4_I8I8I32 = "dot_4x4_i8i8i32"
DOT_4_I8I8I32 = "dot_4_i8i8i32"
MATMUL_4X4X4_F32 = "matmul_4x4x4_f32"
FILL_4X4_F32 = "fill_4x4_f32"
DOT_4X16_U8I8I32 = "dot_4x16_u8i8i32"
TILE_DOT_I8I8I32 = "tile_dot_16x16x64_i8i8i32"
_DOT_SPELLING = "minitvm.machines.cpu.codegen.byte_instructions:dot_4x16"


def register_named(name: str) -> None:
    """Register the intrinsic with this name, if it is one of a CPU."""
    register_all()
    tile_intrinsics.register_named(name)


def register_all() -> None:
    """Register the intrinsics of this file that are not registered yet."""
    for name, make in (
        (DOT_4X4_I8I8I32, _dot_4x4),
        (DOT_4_I8I8I32, _dot_4),
        (MATMUL_4X4X4_F32, _matmul),
        (FILL_4X4_F32, _fill),
    ):
        if name not in TensorIntrin.KNOWN:
            desc, impl = make()
            TensorIntrin.register(name, desc, impl)
    if DOT_4X16_U8I8I32 not in TensorIntrin.KNOWN:
        spellings = {"numba-cpu": _DOT_SPELLING, "numba-cuda": _DOT_SPELLING}
        TensorIntrin.register(DOT_4X16_U8I8I32, _dot_4x16(), instruction=spellings)

    if TILE_DOT_I8I8I32 not in TensorIntrin.KNOWN:
        spellings = {"numba-cpu": "minitvm.machines.cpu.codegen.byte_instructions:tile_dot"}
        TensorIntrin.register(TILE_DOT_I8I8I32, _tile_dot(), instruction=spellings)


def _tile_dot() -> PrimFunc:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        row_a, row_b, row_c = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (16, 64), "int8", strides=[row_a, 1])
        B = T.match_buffer(b, (16, 16, 4), "int8", strides=[row_b, 4, 1])
        C = T.match_buffer(c, (16, 16), "int32", strides=[row_c, 1])
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:64], B[0:16, 0:16, 0:4])
            T.writes(C[0:16, 0:16])
            for i, j, k, b in T.grid(16, 16, 16, 4):
                with T.block("update"):
                    vi, vj, vk, vb = T.axis.remap("SSRR", [i, j, k, b])
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk * 4 + vb]) * T.Cast("int32", B[vk, vj, vb])

    return desc


def _dot_4x16() -> PrimFunc:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(
        A: T.Buffer((4,), "uint8", strides=(1,)),
        B: T.Buffer((16, 4), "int8", strides=(4, 1)),
        C: T.Buffer((16,), "int32", strides=(1,)),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])
            for i, k in T.grid(16, 4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])

    return desc


def _dot_4() -> tuple[PrimFunc, PrimFunc]:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8"), C: T.Buffer((1,), "int32")) -> None:
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for k in range(4):
                with T.block("update"):
                    vk = T.axis.reduce(4, k)
                    C[0] = C[0] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vk])

    @T.prim_func
    def impl(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8"), C: T.Buffer((1,), "int32")) -> None:
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            # Two sums of two products, as pmaddwd pairs them.
            C[0] = C[0] + (
                (T.Cast("int32", A[0]) * T.Cast("int32", B[0]) + T.Cast("int32", A[1]) * T.Cast("int32", B[1]))
                + (T.Cast("int32", A[2]) * T.Cast("int32", B[2]) + T.Cast("int32", A[3]) * T.Cast("int32", B[3]))
            )

    return desc, impl


def _dot_4x4() -> tuple[PrimFunc, PrimFunc]:
    from ...tir.script import builtins as T

    def product(A: Buffer, B: Buffer, row: Expr, k: int) -> Expr:
        return A[k].astype("int32") * B[row, k].astype("int32")

    @T.prim_func
    def desc(A: T.Buffer((4,), "int8"), B: T.Buffer((4, 4), "int8"), C: T.Buffer((4,), "int32")) -> None:
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            for i, k in T.grid(4, 4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        row = T.int32()
        A = T.match_buffer(a, (4,), "int8")
        B = T.match_buffer(b, (4, 4), "int8", strides=[row, 1])
        C = T.match_buffer(c, (4,), "int32")
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            for i in T.unroll(4):
                with T.block("lane"):
                    vi = T.axis.spatial(4, i)
                    T.reads(C[vi], A[0:4], B[vi, 0:4])
                    T.writes(C[vi])
                    first = T.meta_var(product(A, B, vi, 0) + product(A, B, vi, 1))
                    second = T.meta_var(product(A, B, vi, 2) + product(A, B, vi, 3))
                    C[vi] = C[vi] + (first + second)

    return desc, impl


def _matmul() -> tuple[PrimFunc, PrimFunc]:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(A: T.Buffer((4, 4)), B: T.Buffer((4, 4)), C: T.Buffer((4, 4))) -> None:
        with T.block("root"):
            T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j, k in T.grid(4, 4, 4):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        row_a, row_b, row_c = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (4, 4), strides=[row_a, 1])
        B = T.match_buffer(b, (4, 4), strides=[row_b, 1])
        C = T.match_buffer(c, (4, 4), strides=[row_c, 1])
        with T.block("root"):
            T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            # Steps outermost: each adds an outer product to the tile, a row at a time.
            for k in range(4):
                for i in T.unroll(4):
                    for j in T.vectorized(4):
                        with T.block("tile"):
                            vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                            T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                            T.writes(C[vi, vj])
                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return desc, impl


def _fill() -> tuple[PrimFunc, PrimFunc]:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(C: T.Buffer((4, 4)), value: T.float32) -> None:
        with T.block("root"):
            T.reads()
            T.writes(C[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = value

    @T.prim_func
    def impl(c: T.handle, value: T.float32) -> None:
        row = T.int32()
        C = T.match_buffer(c, (4, 4), strides=[row, 1])
        with T.block("root"):
            T.reads()
            T.writes(C[0:4, 0:4])
            for i in T.unroll(4):
                for j in T.vectorized(4):
                    with T.block("fill"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.reads()
                        T.writes(C[vi, vj])
                        C[vi, vj] = value

    return desc, impl
