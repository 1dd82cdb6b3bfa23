"""Sums of two products of bfloat16, `dot2_bf16(c, a, b)`: one instruction where the machine has it.

Machines put theirs into `INSTRUCTIONS`. Any other takes the words apart and computes what `vdpbf16ps` does, bit by bit:
first the high halves, then the low ones, each product added with one rounding, numbers that are subnormal flushed to
zero wherever they are read or written.
"""

from __future__ import annotations

from collections.abc import Callable

from .lanes import F32, U32, Value, architecture

_EXPONENT, _SIGN, _HIGH = 0x7F800000, 0x80000000, 0xFFFF0000

# For an architecture: (c, a, b) -> dot2_bf16(c, a, b), or None for a number of lanes without an instruction.
INSTRUCTIONS: dict[str, Callable[[Value, Value, Value], Value | None]] = {}


def dot2(c: Value, a: Value, b: Value) -> Value:
    """c + the sum over the two bfloat16 of int32 words a and b of their products, in float32."""
    instruction = INSTRUCTIONS.get(architecture(c.builder))
    result = None if instruction is None else instruction(c, a, b)
    return _by_halves(c, a, b) if result is None else result


def _by_halves(c: Value, a: Value, b: Value) -> Value:
    (a_low, a_high), (b_low, b_high) = _halves(a), _halves(b)
    total = _flushed(a_high.intrinsic("fma", b_high, _flushed(c)))
    return _flushed(a_low.intrinsic("fma", b_low, total))


def _halves(words: Value) -> tuple[Value, Value]:
    """The two bfloat16 of words as float32, the low one first."""
    bits = words.bitcast(U32)
    return _flushed((bits << 16).bitcast(F32)), _flushed((bits & _HIGH).bitcast(F32))


def _flushed(x: Value) -> Value:
    """float32 with zeros, of the same sign, for subnormal numbers."""
    bits = x.bitcast(U32)
    return ((bits & _EXPONENT) == 0).select(bits & _SIGN, bits).bitcast(F32)
