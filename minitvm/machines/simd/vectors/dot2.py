"""Sums of two products of bfloat16, `dot2_bf16(c, a, b)`, in one instruction if the machine has it.

Machines register their instruction in `INSTRUCTIONS`. Other machines split the words and compute exactly the same bits
as `vdpbf16ps`: first the high halves, then the low ones. Each product is added with one rounding, and subnormal numbers
are flushed to zero whenever they are read or written.
"""

from __future__ import annotations

from collections.abc import Callable

from .lanes import F32, U32, Value, architecture

_EXPONENT, _SIGN, _HIGH = 0x7F800000, 0x80000000, 0xFFFF0000

# For an architecture: (c, a, b) -> dot2_bf16(c, a, b), or None for a number of lanes without an instruction.
INSTRUCTIONS: dict[str, Callable[[Value, Value, Value], Value | None]] = {}


def dot2(c: Value, a: Value, b: Value) -> Value:
    """Return c plus the two products of the bfloat16 in the int32 words a and b, in float32."""
    instruction = INSTRUCTIONS.get(architecture(c.builder))
    result = None if instruction is None else instruction(c, a, b)
    return _by_halves(c, a, b) if result is None else result


def _by_halves(c: Value, a: Value, b: Value) -> Value:
    (a_low, a_high), (b_low, b_high) = _halves(a), _halves(b)
    total = _flushed(a_high.intrinsic("fma", b_high, _flushed(c)))
    return _flushed(a_low.intrinsic("fma", b_low, total))


def _halves(words: Value) -> tuple[Value, Value]:
    """Return the two bfloat16 of words as float32, the low one first."""
    bits = words.bitcast(U32)
    return _flushed((bits << 16).bitcast(F32)), _flushed((bits & _HIGH).bitcast(F32))


def _flushed(x: Value) -> Value:
    """Return a float32 value with subnormal numbers replaced by zeros of the same sign."""
    bits = x.bitcast(U32)
    return ((bits & _EXPONENT) == 0).select(bits & _SIGN, bits).bitcast(F32)
