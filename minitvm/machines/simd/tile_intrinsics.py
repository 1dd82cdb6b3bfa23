# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Tile registers of a CPU, as those of Intel's AMX: products of small matrices of words, as instructions.

    tile_zero_16x16_i32             a tile = 0
    tile_load_16x16_i32             memory -> a tile
    tile_dot_16x16x16_u8i8          tile[m, n] += the sum over k of dot4_u8i8(a[m, k], b[k, n])
    tile_dot_16x16x16_bf16          the same of float32 by dot2_bf16
    tile_load_16x16_i32_by2         the same, every second row
    tile_store_16x16_i32            a tile -> memory
    tile_store_16x16_i32_local      the same, to the stack

The first number is that of rows, at most sixteen; an intrinsic becomes known when its name is first asked for. A word
holds four bytes, unsigned ones of the first factor and signed ones of the second, or two bfloat16: a product is of 64
steps, or of 32. Sums of bfloat16 are float32, in tiles whose names end in "f32". A tile is storage of the scope
"local.tile", which only these instructions touch: it has no address. Rows in memory may lie any number of words apart.
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
    """The name of the intrinsic that sets a tile of so many rows to 0."""
    return f"tile_zero_{rows}x{WORDS}_{_SHORT[dtype]}"


def load(rows: int, step: int = 1) -> str:
    """The name of the intrinsic that loads a tile of words, from every `step`-th row in memory, up to every ninth."""
    return f"tile_load_{rows}x{WORDS}_i32{'' if step == 1 else f'_by{step}'}"


def store(rows: int, dtype: str = "int32", scope: str = "global") -> str:
    """The name of the intrinsic that stores a tile to storage of a scope, "global" or "local"."""
    return f"tile_store_{rows}x{WORDS}_{_SHORT[dtype]}{'' if scope == 'global' else '_local'}"


def dot(rows: int, words: str = "u8i8") -> str:
    """The name of the intrinsic that multiplies words, "u8i8" or "bf16"."""
    return f"tile_dot_{rows}x{WORDS}x{WORDS}_{words}"


def rows_of(name: str) -> int:
    """The rows of a tile, by the name of an intrinsic of this file."""
    match = _matched(name)
    return int(match["rows"] or match["height"])


def step_of(name: str) -> int:
    """How many rows of memory apart those of a tile are that an intrinsic loads, by its name."""
    return int(_matched(name)["step"] or 1)


def words_of(name: str) -> str:
    """What the words of a product are, by its name."""
    return str(_matched(name)["words"])


def _matched(name: str) -> re.Match[str]:
    match = _NAME.fullmatch(name)
    assert match is not None
    return match


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of this file."""
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
