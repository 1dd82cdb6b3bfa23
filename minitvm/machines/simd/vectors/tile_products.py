"""Products of tiles of bytes, in one instruction if the machine has it: `tile_dot_i8(A, i, ra, B, j, rb, C, k, rc)`.

    C[m, n] += sum over k < 16, b < 4 of A[m, 4 k + b] * B[k, 4 n + b]        m, n < 16

A and B are bytes (int8), with sixteen rows of 64 bytes. C is int32, with sixteen rows of sixteen elements. Each begins
at an index (i, j, k), and its rows are ra, rb or rc elements apart. This is `tdpbssd` of Intel's AMX. Machines register
their instruction in `INSTRUCTIONS`. Other machines split words into bytes and multiply vectors of int32, which wrap
like the instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from .lanes import I32, Value, architecture
from .memory import operation

ROWS, WORDS = 16, 16
_I64 = ir.IntType(64)

# For an architecture: emits the product of three (pointer to bytes, bytes from row to row), or returns False.
Tile = tuple[ir.Value, ir.Value]
INSTRUCTIONS: dict[str, Callable[[ir.IRBuilder, Tile, Tile, Tile], bool]] = {}


def _typer(*arguments: types.Type) -> types.Type | None:
    dtypes = (types.int8, types.int8, types.int32)
    pointers, numbers = arguments[::3], [a for k, a in enumerate(arguments) if k % 3]
    fits = all(isinstance(p, types.CPointer) and p.dtype == t for p, t in zip(pointers, dtypes, strict=False))
    return types.none if len(arguments) == 9 and fits and all(isinstance(n, types.Integer) for n in numbers) else None


def _accept(
    a: types.Type, i: types.Type, rows_a: types.Type, b: types.Type, j: types.Type, rows_b: types.Type, c: types.Type,
    k: types.Type, rows_c: types.Type,
) -> types.Type | None:  # fmt: skip
    return _typer(a, i, rows_a, b, j, rows_b, c, k, rows_c)


@operation("tile_dot_i8", _accept, "sixteen by sixteen sums of 64 products of bytes, added to tiles of C")
def tile_dot(builder: ir.IRBuilder, sig: Any, *arguments: ir.Value) -> None:
    def tile(first: int) -> Tile:
        pointer, index, row = arguments[first : first + 3]
        size = ir.Constant(_I64, sig.args[first].dtype.bitwidth // 8)
        at = builder.gep(pointer, [_wide(builder, index)])
        return builder.bitcast(at, ir.IntType(8).as_pointer()), builder.mul(_wide(builder, row), size)

    a, b, c = tile(0), tile(3), tile(6)
    instruction = INSTRUCTIONS.get(architecture(builder))
    if instruction is None or not instruction(builder, a, b, c):
        _by_words(builder, a, b, c)


def _wide(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    return builder.sext(number, _I64) if number.type.width < 64 else number


def _by_words(builder: ir.IRBuilder, a: Tile, b: Tile, c: Tile) -> None:
    """Compute C row by row: each word of a row of A, in all lanes, times a row of words of B."""

    def row(tile: Tile, number: ir.Value) -> ir.Value:
        return builder.gep(tile[0], [builder.mul(tile[1], number)])

    def vector(at: ir.Value) -> ir.Value:
        return builder.bitcast(at, ir.VectorType(I32.llvm, WORDS).as_pointer())

    with cgutils.for_range(builder, ir.Constant(_I64, ROWS)) as outer:
        out = vector(row(c, outer.index))
        total = cgutils.alloca_once_value(builder, builder.load(out, align=1))
        words = builder.bitcast(row(a, outer.index), I32.llvm.as_pointer())
        with cgutils.for_range(builder, ir.Constant(_I64, WORDS)) as inner:
            word = Value(builder, I32, 0, builder.load(builder.gep(words, [inner.index]), align=1)).splat(WORDS)
            other = Value(builder, I32, WORDS, builder.load(vector(row(b, inner.index)), align=1))
            sums = Value(builder, I32, WORDS, builder.load(total))
            for shift in (24, 16, 8, 0):
                sums = sums + ((word << shift) >> 24) * ((other << shift) >> 24)
            builder.store(sums.llvm, total)
        builder.store(builder.load(total), out, align=1)
