"""Sums of four products of bytes, `c + dot4_u8i8(a, b)`, in one instruction if the machine has it.

Machines register their instruction in `INSTRUCTIONS`. Other machines multiply 16-bit halves and add neighbours, which
is `pmaddwd` on x86. Both are exact; `pmaddubsw`, the older instruction for bytes, saturates.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from .lanes import ELEMENTS, Value, architecture

_I16, _I32 = ELEMENTS["i16"], ELEMENTS["i32"]

# For an architecture: (a, b, c) -> c + dot4(a, b), or None for a number of lanes without an instruction.
INSTRUCTIONS: dict[str, Callable[[Value, Value, Value], Value | None]] = {}


def dot4_add(a: Value, b: Value, c: Value) -> Value:
    """Return c plus the four products (unsigned byte of a) * (signed byte of b) of a word, in int32."""
    instruction = INSTRUCTIONS.get(architecture(a.builder))
    result = None if instruction is None else instruction(a, b, c)
    return c + _by_halves(a, b) if result is None else result


def dot4(a: Value, b: Value) -> Value:
    """Return the sum of the four products."""
    return dot4_add(a, b, a.constant(0))


def _by_halves(a: Value, b: Value) -> Value:
    if not a.lanes:
        return _by_halves(a.splat(1), b.splat(1)).lane(0)
    left, right = _halves(a), _halves(b)
    even = _sum_of_pairs(left & 255, (right << 8) >> 8)
    return even + _sum_of_pairs((left >> 8) & 255, right >> 8)


def _halves(a: Value) -> Value:
    """Return words as twice as many int16, the low half first."""
    halves = ir.VectorType(_I16.llvm, 2 * a.lanes)
    return Value(a.builder, _I16, 2 * a.lanes, a.builder.bitcast(a.llvm, halves))


def _sum_of_pairs(a: Value, b: Value) -> Value:
    """Multiply int16 to int32, and add neighbouring products."""
    products = a.cast(_I32) * b.cast(_I32)
    return products.shuffle(None, range(0, a.lanes, 2)) + products.shuffle(None, range(1, a.lanes, 2))
