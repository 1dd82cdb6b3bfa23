# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Tile registers of a CPU, as those of Intel's AMX: products of small matrices of words, as instructions.

    tile_zero_16x16_i32             a tile = 0
    tile_load_16x16_i32             memory -> a tile
    tile_dot_16x16x16_u8i8          tile[m, n] += the sum over k of dot4_u8i8(a[m, k], b[k, n])
    tile_load_16x16_i32_by2         the same, every second row
    tile_store_16x16_i32            a tile -> memory
    tile_store_16x16_i32_local      the same, to the stack

The first number is that of rows, at most sixteen; an intrinsic becomes known when its name is first asked for. A word
holds four bytes, so a product is of 64 steps, of unsigned bytes by signed ones. A tile is storage of the scope
"local.tile", which only these instructions touch: it has no address. Rows in memory may lie any number of words apart.
"""

from __future__ import annotations

import re

from ..nodes import PrimFunc
from . import TensorIntrin

ROWS, WORDS = 16, 16
STEP_BYTES = 4 * WORDS  # of a row, which one instruction multiplies
SCOPE = "local.tile"
_SPELLINGS = "minitvm.codegen.tiles:"
_NAME = re.compile(r"tile_(?:(zero|load|store)_(\d+)x16_i32(_local|_by([2-9]))?|(dot)_(\d+)x16x16_u8i8)")


def zero(rows: int) -> str:
    """The name of the intrinsic that sets a tile of so many rows to 0."""
    return f"tile_zero_{rows}x{WORDS}_i32"


def load(rows: int, step: int = 1) -> str:
    """Of the one that loads a tile, of rows in memory every `step`-th, up to every ninth."""
    return f"tile_load_{rows}x{WORDS}_i32{'' if step == 1 else f'_by{step}'}"


def store(rows: int, scope: str = "global") -> str:
    """Of the one that stores a tile to storage of a scope, "global" or "local"."""
    return f"tile_store_{rows}x{WORDS}_i32{'' if scope == 'global' else '_local'}"


def dot(rows: int) -> str:
    """Of the product."""
    return f"tile_dot_{rows}x{WORDS}x{WORDS}_u8i8"


def rows_of(name: str) -> int:
    """The rows of a tile, by the name of an intrinsic of this file."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[2] or match[6])


def step_of(name: str) -> int:
    """How many rows of memory apart those of a tile are that an intrinsic loads, by its name."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[4] or 1)


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of this file."""
    match = _NAME.fullmatch(name)
    if match is None or not 0 < rows_of(name) <= ROWS:
        return
    kind, rows, suffix = match[1] or match[5], rows_of(name), match[3] or ""
    if suffix and kind != ("store" if suffix == "_local" else "load"):
        return
    if kind == "load":
        desc = _load(rows, step_of(name))
    elif kind == "store":
        desc = _store(rows, "local" if suffix else "global")
    else:
        desc = {"zero": _zero, "dot": _dot}[kind](rows)
    TensorIntrin.register(name, desc, instruction={"numba-cpu": _SPELLINGS + kind})


def _zero(rows: int) -> PrimFunc:
    from ..script import builtins as T

    @T.prim_func
    def desc(C: T.Buffer((rows, 16), "int32", scope=SCOPE)) -> None:
        with T.block("root"):
            T.reads()
            T.writes(C[0:rows, 0:16])
            for i, j in T.grid(rows, 16):
                with T.block("zero"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = 0

    return desc


def _load(rows: int, every: int) -> PrimFunc:
    from ..script import builtins as T

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


def _store(rows: int, scope: str) -> PrimFunc:
    from ..script import builtins as T

    @T.prim_func
    def desc(t: T.handle, c: T.handle) -> None:
        step = T.int32()
        A = T.match_buffer(t, (rows, 16), "int32", scope=SCOPE)
        C = T.match_buffer(c, (rows, 16), "int32", strides=[step, 1], scope=scope)
        with T.block("root"):
            T.reads(A[0:rows, 0:16])
            T.writes(C[0:rows, 0:16])
            for i, j in T.grid(rows, 16):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    return desc


def _dot(rows: int) -> PrimFunc:
    from ..script import builtins as T

    @T.prim_func
    def desc(
        A: T.Buffer((rows, 16), "int32", scope=SCOPE),
        B: T.Buffer((16, 16), "int32", scope=SCOPE),
        C: T.Buffer((rows, 16), "int32", scope=SCOPE),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:rows, 0:16], A[0:rows, 0:16], B[0:16, 0:16])
            T.writes(C[0:rows, 0:16])
            for i, j, k in T.grid(rows, 16, 16):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.dot4_u8i8(A[vi, vk], B[vk, vj])

    return desc
