"""Tiles of words in registers, which instructions of matrix units load, multiply and store.

    t = tile_zero(rows)                       t: rows of sixteen words (int32)
    t = tile_load(A, i, step, rows)           rows of sixteen words; they begin `step` words apart
    t = tile_dot_u8i8(t, a, b, rows)          t[m, n] += the sum over k < 16 of dot4_u8i8(a[m, k], b[k, n])
    t = tile_dot_bf16(t, a, b, rows)          the same of float32 by dot2_bf16
    tile_store(A, i, step, t, rows)           A: int32 or float32

`rows` is a literal of at most sixteen; `b` has sixteen rows. These are the instructions `tilezero`, `tileloadd`,
`tdpbusd`, `tdpbf16ps` and `tilestored` of Intel's AMX. The order in which products of bfloat16 are added depends on the
machine. A variable holds a tile as a vector of 256 words, which LLVM keeps in a tile register. Machines register their
tiles in `MACHINES`; other machines compute row by row in vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from llvmlite import ir
from numba.core import types

from .dot2 import dot2
from .dot4 import dot4_add
from .lanes import F32, I32, Value, VectorType, architecture
from .memory import operation

ROWS, WORDS = 16, 16
TILE = VectorType(I32, ROWS * WORDS)
_I64 = ir.IntType(64)


class TileMachine(Protocol):
    """The operations of a machine with tile registers. Tiles are LLVM values of `VectorType(I32, 256)`."""

    def zero(self, builder: ir.IRBuilder, rows: int) -> ir.Value:
        """Return a tile of zeros."""

    def load(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value) -> ir.Value:
        """Load a tile from memory. `at` points to bytes, and rows are `step` bytes apart."""

    def dot(self, builder: ir.IRBuilder, kind: str, rows: int, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Return c + a * b, for words of the kind "u8i8" or "bf16"."""

    def store(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value, tile: ir.Value) -> None:
        """Store a tile to memory."""


@dataclass(frozen=True)
class _Vectors:
    """A machine without tile registers, in which each row is a vector."""

    def zero(self, builder: ir.IRBuilder, rows: int) -> ir.Value:  # noqa: ARG002 (as any machine has it)
        return ir.Constant(_llvm(), [0] * (ROWS * WORDS))

    def load(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value) -> ir.Value:
        parts = [builder.load(_row(builder, at, step, m), align=1) for m in range(rows)]
        return _joined(builder, parts)

    def dot(self, builder: ir.IRBuilder, kind: str, rows: int, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        add = _PRODUCTS[kind]
        columns = [_part(builder, b, k) for k in range(WORDS)]
        sums = []
        for m in range(rows):
            total, words = _part(builder, c, m), _part(builder, a, m)
            for k, column in enumerate(columns):
                total = add(total, words.lane(k).splat(WORDS), column)
            sums.append(total.llvm)
        return _joined(builder, sums)

    def store(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value, tile: ir.Value) -> None:
        for m in range(rows):
            builder.store(_part(builder, tile, m).llvm, _row(builder, at, step, m), align=1)


_PRODUCTS: dict[str, Callable[[Value, Value, Value], Value]] = {
    "u8i8": lambda c, a, b: dot4_add(a, b, c),
    "bf16": lambda c, a, b: dot2(c.bitcast(F32), a, b).bitcast(I32),
}

# For an architecture: whether this CPU has tile registers, and what they do.
MACHINES: dict[str, Any] = {}


def _machine(builder: ir.IRBuilder) -> TileMachine:
    choose = MACHINES.get(architecture(builder))
    found: TileMachine | None = None if choose is None else choose()
    return _Vectors() if found is None else found


def _llvm() -> ir.Type:
    return ir.VectorType(I32.llvm, ROWS * WORDS)


def _row(builder: ir.IRBuilder, at: ir.Value, step: ir.Value, m: int) -> ir.Value:
    place = builder.gep(at, [builder.mul(step, ir.Constant(_I64, m))])
    return builder.bitcast(place, ir.VectorType(I32.llvm, WORDS).as_pointer())


def _part(builder: ir.IRBuilder, tile: ir.Value, m: int) -> Value:
    return Value(builder, I32, ROWS * WORDS, tile).shuffle(None, range(m * WORDS, (m + 1) * WORDS))


def _joined(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """Join rows into a tile. The rows after them are undefined."""
    parts = [Value(builder, I32, WORDS, row) for row in rows]
    while len(parts) > 1 or parts[0].lanes < ROWS * WORDS:
        if len(parts) % 2:
            parts.append(parts[-1])
        lanes = 2 * parts[0].lanes
        parts = [a.shuffle(b, range(lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0].llvm


def _rows(ty: types.Type) -> int | None:
    rows = ty.literal_value if isinstance(ty, types.IntegerLiteral) else 0
    return rows if 0 < rows <= ROWS else None


def _is_words(ty: types.Type) -> bool:
    return isinstance(ty, types.CPointer) and ty.dtype in (types.int32, types.float32)


def _place(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Value]:
    at = builder.bitcast(builder.gep(pointer, [_wide(builder, index)]), ir.IntType(8).as_pointer())
    return at, builder.mul(_wide(builder, step), ir.Constant(_I64, I32.itemsize))


def _wide(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    return builder.sext(number, _I64) if number.type.width < 64 else number


def _zero_type(rows: types.Type) -> types.Type | None:
    return TILE if _rows(rows) else None


@operation("tile_zero", _zero_type, "a tile of zeros")
def tile_zero(builder: ir.IRBuilder, sig: Any, *_: ir.Value) -> ir.Value:
    return _machine(builder).zero(builder, _rows(sig.args[0]) or ROWS)


def _load_type(pointer: types.Type, index: types.Type, step: types.Type, rows: types.Type) -> types.Type | None:
    numbers = isinstance(index, types.Integer) and isinstance(step, types.Integer)
    return TILE if _is_words(pointer) and numbers and _rows(rows) else None


@operation("tile_load", _load_type, "a tile from memory: rows of sixteen words, so many elements apart")
def tile_load(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, step: ir.Value, *_: Any) -> Any:
    at, far = _place(builder, pointer, index, step)
    return _machine(builder).load(builder, _rows(sig.args[3]) or ROWS, at, far)


def _dot_type(c: types.Type, a: types.Type, b: types.Type, rows: types.Type) -> types.Type | None:
    return TILE if c == a == b == TILE and _rows(rows) else None


def _define_dot(kind: str, words: str) -> None:
    @operation(f"tile_dot_{kind}", _dot_type, f"c + the product of two tiles of words of {words}")
    def tile_dot(builder: ir.IRBuilder, sig: Any, c: ir.Value, a: ir.Value, b: ir.Value, *_: Any) -> ir.Value:
        return _machine(builder).dot(builder, kind, _rows(sig.args[3]) or ROWS, c, a, b)


_define_dot("u8i8", "bytes, unsigned ones by signed ones")
_define_dot("bf16", "two bfloat16, in float32")


def _store_type(
    pointer: types.Type, index: types.Type, step: types.Type, tile: types.Type, rows: types.Type
) -> types.Type | None:
    numbers = isinstance(index, types.Integer) and isinstance(step, types.Integer)
    return types.none if _is_words(pointer) and numbers and tile == TILE and _rows(rows) else None


@operation("tile_store", _store_type, "a tile to memory")
def tile_store(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, step: ir.Value, *rest: Any) -> None:
    at, far = _place(builder, pointer, index, step)
    _machine(builder).store(builder, _rows(sig.args[4]) or ROWS, at, far, rest[0])
