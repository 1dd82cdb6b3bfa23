# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Intrinsics of a *warpgroup*: products that 128 threads compute together from tiles in shared storage (`wgmma`,
sm_90a).

    wgmma_fill_64x128_f32                                   an accumulator = 0
    wgmma_64x128x64_f16, wgmma_64x128x64_f16_nt             accumulator += a * b, or a * b^T
    wgmma_store_64x128_f32, wgmma_store_64x128_f32_shared   an accumulator -> memory

and the same for bf16. The number of steps may be any multiple of 64. The number of columns may be any multiple of 64 up
to 256, or of 8 for `_nt`. An intrinsic is registered when its name is first looked up.

A tile of rows x columns in shared storage is stored in slabs of 64 columns, `tile[column // 64, row, column % 64]`,
with the scope "shared.dyn.swizzled": lines of 128 bytes, which `swizzle_shared` arranges. The accumulator is a fragment
of scope "warpgroup.accumulator", which the 128 threads along threadIdx.x hold in registers, and which only these
instructions access.

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re

from ....tir.annotations import SWIZZLED
from ....tir.nodes import PrimFunc
from ....tir.tensor_intrin import TensorIntrin

THREADS, ROWS, DEPTH = 128, 64, 16
SLAB = 64  # elements in a line of a tile
MOST_COLUMNS = 256
INPUTS = {"float16": "f16", "bfloat16": "bf16"}
ACCUMULATOR = "warpgroup.accumulator"
_SPELLINGS = "minitvm.machines.cuda.codegen.warpgroups:"
_DTYPES = {short: dtype for dtype, short in INPUTS.items()}
_PRODUCT = re.compile(r"wgmma_64x(\d+)x(\d+)_(f16|bf16)(_nt)?")
_OTHER = re.compile(r"wgmma_(fill|store)_64x(\d+)_f32(_shared)?")


def fill(columns: int) -> str:
    """Return the name of the intrinsic that sets an accumulator to 0."""
    return f"wgmma_fill_{ROWS}x{columns}_f32"


def store(columns: int, scope: str = "global") -> str:
    """Return the name of the intrinsic that stores an accumulator."""
    return f"wgmma_store_{ROWS}x{columns}_f32{'' if scope == 'global' else '_shared'}"


def multiply(columns: int, steps: int, dtype: str, transposed: bool = False) -> str:
    """Return the name of the product's intrinsic. With `transposed`, the second operand's tile is columns x steps."""
    return f"wgmma_{ROWS}x{columns}x{steps}_{INPUTS[dtype]}{'_nt' if transposed else ''}"


def columns_of(name: str) -> int:
    """Return the number of columns of an accumulator, given the name of an intrinsic of this file."""
    return int(name.split("_64x")[1].split("_")[0].split("x")[0])


def steps_of(name: str) -> int:
    """Return the number of steps of the sum of a product, given its name."""
    return int(name.split("_64x")[1].split("_")[0].split("x")[1])


def reads_by_proxy(name: str) -> bool:
    """Return whether an intrinsic reads shared storage through the async proxy, so that earlier stores need a fence."""
    return _PRODUCT.fullmatch(name) is not None


def register_named(name: str) -> None:
    """Register the intrinsic with this name, if it is one of this file."""
    if match := _PRODUCT.fullmatch(name):
        columns, steps = int(match[1]), int(match[2])
        if _is_width(columns) and (match[4] or columns % SLAB == 0) and steps and steps % SLAB == 0:
            _register(name, _product(columns, steps, _DTYPES[match[3]], bool(match[4])), "multiply")
    elif (match := _OTHER.fullmatch(name)) and _is_width(int(match[2])):
        columns, is_shared = int(match[2]), match[3] is not None
        if match[1] == "store":
            _register(name, _store(columns, is_shared), "store")
        elif not is_shared:
            _register(name, _fill(columns), "fill")


def _is_width(columns: int) -> bool:
    return 0 < columns <= MOST_COLUMNS and columns % 8 == 0


def _register(name: str, desc: PrimFunc, spelling: str) -> None:
    TensorIntrin.register(name, desc, instruction={"numba-cuda": _SPELLINGS + spelling}, together=THREADS)


def _fill(columns: int) -> PrimFunc:
    from ....tir.script import builtins as T

    @T.prim_func
    def desc(C: T.Buffer((64, columns), "float32", scope=ACCUMULATOR)) -> None:
        with T.block("root"):
            T.reads()
            T.writes(C[0:64, 0:columns])
            for i, j in T.grid(64, columns):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.float32(0)

    return desc


def _store(columns: int, shared: bool) -> PrimFunc:
    from ....tir.script import builtins as T

    scope = "shared" if shared else "global"

    @T.prim_func
    def desc(f: T.handle, c: T.handle) -> None:
        row = T.int32()
        F = T.match_buffer(f, (64, columns), "float32", scope=ACCUMULATOR)
        C = T.match_buffer(c, (64, columns), "float32", strides=[row, 1], scope=scope)
        with T.block("root"):
            T.reads(F[0:64, 0:columns])
            T.writes(C[0:64, 0:columns])
            for i, j in T.grid(64, columns):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = F[vi, vj]

    return desc


def _product(columns: int, steps: int, dtype: str, transposed: bool) -> PrimFunc:
    from ....tir.script import builtins as T

    if transposed:

        @T.prim_func
        def desc_nt(a: T.handle, b: T.handle, c: T.handle) -> None:
            apart_a, apart_b = T.int32(), T.int32()
            A = T.match_buffer(a, (steps // 64, 64, 64), dtype, strides=[apart_a, 64, 1], scope=SWIZZLED)
            B = T.match_buffer(b, (steps // 64, columns, 64), dtype, strides=[apart_b, 64, 1], scope=SWIZZLED)
            C = T.match_buffer(c, (64, columns), "float32", scope=ACCUMULATOR)
            with T.block("root"):
                T.reads(C[0:64, 0:columns], A[0 : steps // 64, 0:64, 0:64], B[0 : steps // 64, 0:columns, 0:64])
                T.writes(C[0:64, 0:columns])
                for i, j, k in T.grid(64, columns, steps):
                    with T.block("update"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vk // 64, vi, vk % 64]) * T.Cast(
                            "float32", B[vk // 64, vj, vk % 64]
                        )

        return desc_nt

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        apart_a, apart_b = T.int32(), T.int32()
        A = T.match_buffer(a, (steps // 64, 64, 64), dtype, strides=[apart_a, 64, 1], scope=SWIZZLED)
        B = T.match_buffer(b, (columns // 64, steps, 64), dtype, strides=[apart_b, 64, 1], scope=SWIZZLED)
        C = T.match_buffer(c, (64, columns), "float32", scope=ACCUMULATOR)
        with T.block("root"):
            T.reads(C[0:64, 0:columns], A[0 : steps // 64, 0:64, 0:64], B[0 : columns // 64, 0:steps, 0:64])
            T.writes(C[0:64, 0:columns])
            for i, j, k in T.grid(64, columns, steps):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vk // 64, vi, vk % 64]) * T.Cast(
                        "float32", B[vj // 64, vk, vj % 64]
                    )

    return desc
