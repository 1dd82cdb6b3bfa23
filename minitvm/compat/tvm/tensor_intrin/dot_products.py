# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""TVM's dot products of bytes, under its names: `dot_16x4_vnni`, `dot_4x4_i8i8s32_sdot`, `dp4a_s8s8s32`, `sdot4`, ...

Each is an instruction with a meaning and without a spelling: programs are tensorized with it, and interpreters run its
description, but no code generator of minitvm writes it. `cpu.DOT_4X16_U8I8I32` is such a product that kernels have.
"""

from __future__ import annotations

import re

from ....tir.nodes import PrimFunc
from ....tir.tensor_intrin import TensorIntrin

# (rows, depth, dtypes of the vector, the rows and the sums, scope) of each product with a register of sums.
_ROWS = {
    "dot_16x4_vnni": (16, 4, "uint8", "int8", "int32", "global"),
    "dot_16x4_avx512": (16, 4, "uint8", "int8", "int32", "global"),
    "dot_4x4_i8i8s32_neon": (4, 4, "int8", "int8", "int32", "global"),
    "dot_4x4_i8i8s32_sdot": (4, 4, "int8", "int8", "int32", "global"),
    "dot_4x4_u8u8u32_udot": (4, 4, "uint8", "uint8", "uint32", "global"),
    "dot_4x4_u8u8i32_hdot": (4, 4, "uint8", "uint8", "int32", "global"),
    "dot_32x4_u8u8i32_vrmpy": (32, 4, "uint8", "uint8", "int32", "global"),
    "dot_32x4_u8i8i32_vrmpy": (32, 4, "uint8", "int8", "int32", "global"),
    "dot_32x4_u8u8i32_vtcm_vrmpy": (32, 4, "uint8", "uint8", "int32", "global.vtcm"),
    "dot_32x4_u8i8i32_vtcm_vrmpy": (32, 4, "uint8", "int8", "int32", "global.vtcm"),
    "dot_product_32x2_i16i16i32_vdmpy": (32, 2, "int16", "int16", "int32", "global"),
}
_SINGLE = re.compile(r"dp4a_([su]8)([su]8)([su]32)|sdot4")
_DTYPES = {"s8": "int8", "u8": "uint8", "s32": "int32", "u32": "uint32"}


def register_named(name: str) -> None:
    """Make the product of that name known, where it is one of TVM's and not known yet."""
    single = _SINGLE.fullmatch(name)
    if name in TensorIntrin.KNOWN or (single is None and name not in _ROWS):
        return
    if single is None:
        desc = rows_by_vector(*_ROWS[name])
    else:
        desc = four_products(*(_DTYPES[part] for part in single.groups() if part))
    TensorIntrin.register(name, desc, instruction={})


def rows_by_vector(rows: int, depth: int, vector: str, matrix: str, sums: str, scope: str = "global") -> PrimFunc:
    """The description: each of the rows times one vector, added to a register of sums."""
    from ....tir.script import builtins as T

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (depth,), vector, offset_factor=1, scope=scope)
        B = T.match_buffer(b, (rows, depth), matrix, offset_factor=1, scope=scope)
        C = T.match_buffer(c, (rows,), sums, offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:rows], A[0:depth], B[0:rows, 0:depth])
            T.writes(C[0:rows])
            for i, k in T.grid(rows, depth):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast(sums, A[vk]) * T.Cast(sums, B[vi, vk])

    return desc


def four_products(first: str = "int8", second: str = "int8", total: str = "int32") -> PrimFunc:
    """The description: four bytes of shared storage times four others, added to one number in a register."""
    from ....tir.script import builtins as T

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), first, align=4, offset_factor=1, scope="shared")
        B = T.match_buffer(b, (4,), second, align=4, offset_factor=1, scope="shared")
        C = T.match_buffer(c, (1,), total, align=4, offset_factor=1, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for k in range(4):
                with T.block("update"):
                    vk = T.axis.reduce(4, k)
                    C[0] = C[0] + T.Cast(total, A[vk]) * T.Cast(total, B[vk])

    return desc
