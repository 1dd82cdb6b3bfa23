# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Intrinsics of tensor cores: products of small matrices that the 32 threads of a warp compute together.

    ldmatrix_16x16_f16_a, ldmatrix_16x8_f16_b, ldmatrix_8x16_f16_b     shared storage -> fragments
    ldmatrix_16x16_f16_b, ldmatrix_16x16_f16_b_rows                    two tiles of the second factor
    mma_fill_16x8_f32                                                  an accumulator = 0
    mma_16x8x16_f16, mma_16x8x16_f16_nt                                accumulator += a * b, or a * b^T
    mma_store_16x8_f32, mma_store_16x8_f32_shared                      an accumulator -> memory

and the same for bf16; of float32 that are rounded to 10 bits of mantissa,

    load_16x8_tf32_a, load_8x8_tf32_b, load_8x8_tf32_b_rows            shared storage -> fragments, not rounded
    mma_16x8x8_tf32, mma_16x8x8_tf32_nt                                accumulator += round(a) * round(b), or round(b)^T

A *fragment* is a tile in the registers of a warp, where each thread holds some of its elements. In a program, it is
storage of scope "warp.matrix_a", "warp.matrix_b" or "warp.accumulator", which a warp owns and only these instructions
access. So each description is about whole tiles and does not mention threads: `together` says that 32 threads run it
together. The scope determines which register of which thread holds an element (`machines.cuda.codegen.tensor_cores`).
PTX ISA, "Matrix Fragments for mma.m16n8k16", "mma.m16n8k8" and "ldmatrix".
"""

from __future__ import annotations

from functools import partial

from ....tir.nodes import PrimFunc
from ....tir.tensor_intrin import TensorIntrin

WARP = 32
INPUTS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
MATRIX_A, MATRIX_B, ACCUMULATOR = "warp.matrix_a", "warp.matrix_b", "warp.accumulator"
FILL, STORE, STORE_SHARED = "mma_fill_16x8_f32", "mma_store_16x8_f32", "mma_store_16x8_f32_shared"
_SPELLINGS = "minitvm.machines.cuda.codegen.tensor_cores:"


def depth_of(dtype: str) -> int:
    """Return the number of steps of the sum in one instruction."""
    return 8 if dtype == "float32" else 16


def load_a(dtype: str) -> str:
    """Return the name of the intrinsic that loads a tile of the first factor, 16 rows x steps."""
    if dtype == "float32":
        return "load_16x8_tf32_a"
    return f"ldmatrix_16x16_{INPUTS[dtype]}_a"


def load_b(dtype: str, transposed: bool = False, pair: bool = False) -> str:
    """Return the name of the intrinsic that loads a tile of the second factor, steps x 8, or 8 x steps if `transposed`.

    `pair` loads two adjacent tiles, which is possible only for 16-bit floats.
    """
    if dtype == "float32":
        return f"load_8x8_tf32_b{'_rows' if transposed else ''}"
    if pair:
        return f"ldmatrix_16x16_{INPUTS[dtype]}_b{'_rows' if transposed else ''}"
    return f"ldmatrix_{'8x16' if transposed else '16x8'}_{INPUTS[dtype]}_b"


def multiply(dtype: str, transposed: bool = False) -> str:
    """Return the name of the intrinsic that multiplies two tiles."""
    return f"mma_16x8x{depth_of(dtype)}_{INPUTS[dtype]}{'_nt' if transposed else ''}"


def register_all() -> None:
    """Register the intrinsics of this file that are not registered yet."""
    _register(FILL, _fill, "fill")
    _register(STORE, _store, "store")
    _register(STORE_SHARED, lambda: _store("shared"), "store")
    for dtype in INPUTS:
        steps, words = depth_of(dtype), "_words" if dtype == "float32" else ""
        _register(load_a(dtype), lambda dtype=dtype, k=steps: _load(dtype, (16, k), MATRIX_A), f"load_a{words}")
        _register(load_b(dtype), lambda dtype=dtype, k=steps: _load(dtype, (k, 8), MATRIX_B), f"load_b{words}")
        _register(
            load_b(dtype, True), lambda dtype=dtype, k=steps: _load(dtype, (8, k), MATRIX_B), f"load_b_rows{words}"
        )
        for transposed in (False, True):
            if not words:
                spelling = f"load_b{'_rows' if transposed else ''}_pair"
                _register(load_b(dtype, transposed, True), partial(_load, dtype, (16, 16), MATRIX_B), spelling)
            _register(multiply(dtype, transposed), partial(_product, dtype, transposed), "multiply")


def _register(name: str, make, spelling: str) -> None:
    if name not in TensorIntrin.KNOWN:
        TensorIntrin.register(name, make(), instruction={"numba-cuda": _SPELLINGS + spelling}, together=WARP)


def _fill() -> PrimFunc:
    from ....tir.script import builtins as T

    @T.prim_func
    def desc(C: T.Buffer((16, 8), "float32", scope=ACCUMULATOR)) -> None:
        with T.block("root"):
            T.reads()
            T.writes(C[0:16, 0:8])
            for i, j in T.grid(16, 8):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.float32(0)

    return desc


def _store(scope: str = "global") -> PrimFunc:
    from ....tir.script import builtins as T

    @T.prim_func
    def desc(f: T.handle, c: T.handle) -> None:
        row = T.int32()
        F = T.match_buffer(f, (16, 8), "float32", scope=ACCUMULATOR)
        C = T.match_buffer(c, (16, 8), "float32", strides=[row, 1], scope=scope)
        with T.block("root"):
            T.reads(F[0:16, 0:8])
            T.writes(C[0:16, 0:8])
            for i, j in T.grid(16, 8):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = F[vi, vj]

    return desc


def _load(dtype: str, shape: tuple[int, int], scope: str) -> PrimFunc:
    from ....tir.script import builtins as T

    rows, columns = shape

    @T.prim_func
    def desc(s: T.handle, f: T.handle) -> None:
        row = T.int32()
        S = T.match_buffer(s, (rows, columns), dtype, strides=[row, 1], scope="shared")
        F = T.match_buffer(f, (rows, columns), dtype, scope=scope)
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(F[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    F[vi, vj] = S[vi, vj]

    return desc


def _product(dtype: str, transposed: bool) -> PrimFunc:
    from ....tir.script import builtins as T

    steps = depth_of(dtype)
    wide = T.round_tf32 if dtype == "float32" else lambda value: T.Cast("float32", value)
    if transposed:

        @T.prim_func
        def desc_nt(
            A: T.Buffer((16, steps), dtype, scope=MATRIX_A),
            B: T.Buffer((8, steps), dtype, scope=MATRIX_B),
            C: T.Buffer((16, 8), "float32", scope=ACCUMULATOR),
        ) -> None:
            with T.block("root"):
                T.reads(C[0:16, 0:8], A[0:16, 0:steps], B[0:8, 0:steps])
                T.writes(C[0:16, 0:8])
                for i, j, k in T.grid(16, 8, steps):
                    with T.block("update"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(B[vj, vk])

        return desc_nt

    @T.prim_func
    def desc(
        A: T.Buffer((16, steps), dtype, scope=MATRIX_A),
        B: T.Buffer((steps, 8), dtype, scope=MATRIX_B),
        C: T.Buffer((16, 8), "float32", scope=ACCUMULATOR),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:16, 0:8], A[0:16, 0:steps], B[0:steps, 0:8])
            T.writes(C[0:16, 0:8])
            for i, j, k in T.grid(16, 8, steps):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(B[vk, vj])

    return desc
