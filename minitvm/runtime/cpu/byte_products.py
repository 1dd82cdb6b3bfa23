"""Sums of four products of bytes, `c + dot4_u8i8(a, b)`: one instruction where the machine has it.

x86 with VNNI has `vpdpbusd`. Any other multiplies 16-bit halves and sums neighbours, which is `pmaddwd` on x86. Both
are exact; `pmaddubsw`, the older instruction for bytes, saturates.
"""

from __future__ import annotations

from llvmlite import ir

from .lanes import ELEMENTS, Value, declare
from .loader import cpu_description

_I16, _I32 = ELEMENTS["i16"], ELEMENTS["i32"]


def dot4_add(a: Value, b: Value, c: Value) -> Value:
    """c + the sum over the four bytes of a word of (unsigned byte of a) * (signed byte of b), on int32."""
    if not has_instruction(a.lanes):
        return c + dot4(a, b)
    vector = ir.VectorType(_I32.llvm, a.lanes)
    function = declare(a.builder, f"llvm.x86.avx512.vpdpbusd.{32 * a.lanes}", ir.FunctionType(vector, [vector] * 3))
    return a.wrap(a.builder.call(function, [c.llvm, a.llvm, b.llvm]))


def dot4(a: Value, b: Value) -> Value:
    """The sum of the four products."""
    if has_instruction(a.lanes):
        return dot4_add(a, b, a.constant(0))
    if not a.lanes:
        return dot4(a.splat(1), b.splat(1)).lane(0)
    left, right = _halves(a), _halves(b)
    even = _sum_of_pairs(left & 255, (right << 8) >> 8)
    return even + _sum_of_pairs((left >> 8) & 255, right >> 8)


def has_instruction(lanes: int) -> bool:
    """Whether the machine that kernels are compiled for has the instruction, for vectors of so many words."""
    features = {name[1:] for name in cpu_description()[1].split(",") if name.startswith("+")}
    narrow = "avxvnni" in features or {"avx512vnni", "avx512vl"} <= features
    return (lanes == 16 and "avx512vnni" in features) or (lanes in (4, 8) and narrow)


def _halves(a: Value) -> Value:
    """Words as twice as many int16, the low half first."""
    halves = ir.VectorType(_I16.llvm, 2 * a.lanes)
    return Value(a.builder, _I16, 2 * a.lanes, a.builder.bitcast(a.llvm, halves))


def _sum_of_pairs(a: Value, b: Value) -> Value:
    """The products of int16 as int32, neighbours added."""
    products = a.cast(_I32) * b.cast(_I32)
    return products.shuffle(None, range(0, a.lanes, 2)) + products.shuffle(None, range(1, a.lanes, 2))
