# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""TVM's instructions on fragments of tensor cores, under its names: `wmma_load_16x16x16_f16_a_shared`, ...

Like `dot_products`, they have a meaning and no spelling. `tensor_cores` has those that kernels of minitvm use.
"""

from __future__ import annotations

import re

from ...expr import const
from ..nodes import PrimFunc
from . import TensorIntrin

_NAME = re.compile(
    r"wmma_(?:load_16x16x16_(?P<load>f16|s8)_(?P<side>[ab])(?P<columns>_trans)?_(?P<from>shared|shared_dyn)"
    r"|fill_16x16x16_(?P<fill>f32|f16|s32)"
    r"|store_16x16x16_(?P<store>f32|f16|s32)_(?P<to>global|shared|shared_dyn)"
    r"|sync_16x16x16_(?P<sync>f16f16f32|f16f16f16|s8s8s32)(?P<transposed>_trans)?)"
)
_DTYPES = {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}
_PRODUCTS = {
    "f16f16f32": ("float16", "float32"), "f16f16f16": ("float16", "float16"), "s8s8s32": ("int8", "int32"),
}  # fmt: skip


def register_named(name: str) -> None:
    """Make the instruction of that name known, where it is one of TVM's and not known yet."""
    match = _NAME.fullmatch(name)
    if match is None or name in TensorIntrin.KNOWN:
        return
    if match["load"]:
        desc = moved(_DTYPES[match["load"]], _scope(match["from"]), f"wmma.matrix_{match['side']}")
    elif match["fill"]:
        desc = filled(_DTYPES[match["fill"]])
    elif match["store"]:
        desc = moved(_DTYPES[match["store"]], "wmma.accumulator", _scope(match["to"]))
    else:
        desc = product(*_PRODUCTS[match["sync"]], transposed=bool(match["transposed"]))
    TensorIntrin.register(name, desc, instruction={}, together=32)


def _scope(text: str) -> str:
    return text.replace("_", ".")


def moved(dtype: str, source: str, target: str) -> PrimFunc:
    """The description of a load or store: a tile of 16 x 16 from one scope to another."""
    from ..script import builtins as T

    @T.prim_func
    def desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (16, 16), dtype, align=64, offset_factor=16, scope=source)
        C = T.match_buffer(c, (16, 16), dtype, align=64, offset_factor=16, scope=target)
        with T.block("root"):
            T.reads(A[0:16, 0:16])
            T.writes(C[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.block("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    return desc


def filled(dtype: str) -> PrimFunc:
    """The description of a fill: zeros in a fragment of sums."""
    from ..script import builtins as T

    zero = const(0, dtype)

    @T.prim_func
    def desc(c: T.handle) -> None:
        C = T.match_buffer(c, (16, 16), dtype, align=64, offset_factor=16, scope="wmma.accumulator")
        with T.block("root"):
            T.reads()
            T.writes(C[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = zero

    return desc


def product(operands: str, sums: str, transposed: bool) -> PrimFunc:
    """The description of a product of 16 x 16 x 16; `transposed`: the rows of the second operand are its columns."""
    from ..script import builtins as T

    def widened(value):
        return value if operands == sums else T.Cast(sums, value)

    def place(row, column):
        return (column, row) if transposed else (row, column)

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (16, 16), operands, align=64, offset_factor=16, scope="wmma.matrix_a")
        B = T.match_buffer(b, (16, 16), operands, align=64, offset_factor=16, scope="wmma.matrix_b")
        C = T.match_buffer(c, (16, 16), sums, align=64, offset_factor=16, scope="wmma.accumulator")
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
            T.writes(C[0:16, 0:16])
            for i, j, k in T.grid(16, 16, 16):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    row, column = T.meta_var(place(vk, vj))
                    C[vi, vj] = C[vi, vj] + widened(A[vi, vk]) * widened(B[row, column])

    return desc
