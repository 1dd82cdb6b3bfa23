"""`round_tf32`, a float32 as tensor cores of NVIDIA read it, written out in operations that every back end has.

PTX ISA, "cvt.rna.tf32.f32": 10 bits of mantissa of 23, to the nearest, ties away from zero; 8 bits of exponent, as
float32 has. A number that rounds to more than the largest becomes infinite.
"""

from __future__ import annotations

from ..expr import Call, DType, Expr, call, const
from .op import select

_DROPPED = 13  # bits of mantissa


def written_out(e: Call) -> Expr:
    """`round_tf32(x)`: half of what the dropped bits count is added to the magnitude, and they become zero.

    The bits of a float are a sign and a magnitude that grows with the number; infinity comes after the largest number.
    """
    (x,) = e.args
    word = DType("int32").with_lanes(e.dtype.lanes)
    bits = Call(word, "reinterpret", (x,))
    rounded = call("bitwise_and", bits + const(1 << (_DROPPED - 1), word), const(-(1 << _DROPPED), word))
    return select(call("isfinite", x), Call(e.dtype, "reinterpret", (rounded,)), x)
