# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""The tile registers of a CPU, such as Intel's AMX: instructions that multiply small matrices of words.

    tile_zero_16x16_i32             a tile = 0
    tile_load_16x16_i32             memory -> a tile
    tile_dot_16x16x16_u8i8          tile[m, n] += the sum over k of dot4_u8i8(a[m, k], b[k, n])
    tile_dot_16x16x16_bf16          the same of float32 by dot2_bf16
    tile_load_16x16_i32_by2         the same, every second row
    tile_store_16x16_i32            a tile -> memory
    tile_store_16x16_i32_local      the same, to the stack

The first number is the number of rows, at most sixteen. An intrinsic is registered when its name is first looked up. A
word holds two bfloat16 or four bytes, which are unsigned in the first factor and signed in the second. So a product has
32 or 64 steps. Sums of bfloat16 are float32, in tiles whose names end in "f32". A tile is storage with the scope
"local.tile". Only these instructions can access it, because it has no address. Rows in memory may be any number of
words apart.
"""

from __future__ import annotations

import re

from ...expr import const
from ...tir.nodes import PrimFunc
from ...tir.tensor_intrin import TensorIntrin

ROWS, WORDS = 16, 16
SCOPE = "local.tile"
_SPELLINGS = "minitvm.machines.cpu.codegen.tile_registers:"
SUMS = {"u8i8": "int32", "bf16": "float32"}
_SHORT = {"int32": "i32", "float32": "f32"}
_NAME = re.compile(
    r"tile_(?:(?P<kind>zero|load|store)_(?P<rows>\d+)x16_(?P<dtype>i32|f32)(?P<local>_local)?(?:_by(?P<step>[2-9]))?"
    r"|dot_(?P<height>\d+)x16x16_(?P<words>u8i8|bf16))"
)


def zero(rows: int, dtype: str = "int32") -> str:
    """Return the name of the intrinsic that sets a tile of this many rows to 0."""
    return f"tile_zero_{rows}x{WORDS}_{_SHORT[dtype]}"


def load(rows: int, step: int = 1) -> str:
    """Return the name of the intrinsic that loads a tile of words from every `step`-th row in memory (1 to 9)."""
    return f"tile_load_{rows}x{WORDS}_i32{'' if step == 1 else f'_by{step}'}"


def store(rows: int, dtype: str = "int32", scope: str = "global") -> str:
    """Return the name of the intrinsic that stores a tile to the scope "global" or "local"."""
    return f"tile_store_{rows}x{WORDS}_{_SHORT[dtype]}{'' if scope == 'global' else '_local'}"


def dot(rows: int, words: str = "u8i8") -> str:
    """Return the name of the intrinsic that multiplies words ("u8i8" or "bf16")."""
    return f"tile_dot_{rows}x{WORDS}x{WORDS}_{words}"


def rows_of(name: str) -> int:
    """Return the number of rows of a tile, given the name of an intrinsic of this file."""
    match = _matched(name)
    return int(match["rows"] or match["height"])


def step_of(name: str) -> int:
    """Return the step between the rows in memory that an intrinsic loads, given its name."""
    return int(_matched(name)["step"] or 1)


def words_of(name: str) -> str:
    """Return the kind of words that a product multiplies, given its name."""
    return str(_matched(name)["words"])


def _matched(name: str) -> re.Match[str]:
    match = _NAME.fullmatch(name)
    assert match is not None
    return match


def register_named(name: str) -> None:
    """Register the intrinsic with this name, if it is one of this file."""
    match = _NAME.fullmatch(name)
    if match is None or not 0 < rows_of(name) <= ROWS:
        return
    kind, rows = match["kind"] or "dot", rows_of(name)
    dtype = "float32" if match["dtype"] == "f32" else "int32"
    if (
        (match["local"] and kind != "store")
        or (match["step"] and kind != "load")
        or (kind, dtype) == ("load", "float32")
    ):
        return
    if kind == "load":
        desc = _load(rows, step_of(name))
    elif kind == "store":
        desc = _store(rows, dtype, "local" if match["local"] else "global")
    elif kind == "zero":
        desc = _zero(rows, dtype)
    else:
        desc = _dot(rows, match["words"])
    TensorIntrin.register(name, desc, instruction={"numba-cpu": _SPELLINGS + kind})


def _zero(rows: int, dtype: str) -> PrimFunc:
    from ...tir.script import builtins as T

    nothing = const(0, dtype)

    @T.prim_func
    def desc(C: T.Buffer((rows, 16), dtype, scope=SCOPE)) -> None:
        with T.block("root"):
            T.reads()
            T.writes(C[0:rows, 0:16])
            for i, j in T.grid(rows, 16):
                with T.block("zero"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = nothing

    return desc


def _load(rows: int, every: int) -> PrimFunc:
    from ...tir.script import builtins as T

    reach = (rows - 1) * every + 1

    @T.prim_func
    def desc(a: T.handle, t: T.handle) -> None:
        step = T.int32()
        A = T.match_buffer(a, (reach, 16), "int32", strides=[step, 1])
        C = T.match_buffer(t, (rows, 16), "int32", scope=SCOPE)
        with T.block("root"):
            T.reads(A[0:reach, 0:16])
            T.writes(C[0:rows, 0:16])
            for i, j in T.grid(rows, 16):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi * every, vj]

    return desc


def _store(rows: int, dtype: str, scope: str) -> PrimFunc:
    from ...tir.script import builtins as T

    @T.prim_func
    def desc(t: T.handle, c: T.handle) -> None:
        step = T.int32()
        A = T.match_buffer(t, (rows, 16), dtype, scope=SCOPE)
        C = T.match_buffer(c, (rows, 16), dtype, strides=[step, 1], scope=scope)
        with T.block("root"):
            T.reads(A[0:rows, 0:16])
            T.writes(C[0:rows, 0:16])
            for i, j in T.grid(rows, 16):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    return desc


def _dot(rows: int, words: str) -> PrimFunc:
    from ...tir.script import builtins as T

    dtype = SUMS[words]
    product = T.dot4_u8i8 if words == "u8i8" else lambda a, b: T.dot2_bf16(T.float32(0), a, b)

    @T.prim_func
    def desc(
        A: T.Buffer((rows, 16), "int32", scope=SCOPE),
        B: T.Buffer((16, 16), "int32", scope=SCOPE),
        C: T.Buffer((rows, 16), dtype, scope=SCOPE),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:rows, 0:16], A[0:rows, 0:16], B[0:16, 0:16])
            T.writes(C[0:rows, 0:16])
            for i, j, k in T.grid(rows, 16, 16):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + product(A[vi, vk], B[vk, vj])

    return desc
