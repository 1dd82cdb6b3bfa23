"""8-bit and 4-bit float formats. Their values are stored in a wider dtype, which represents them exactly.

No operator computes in these formats. Where a network rounds to one of them, `round_to_format(x,
format="float8_e4m3fn")` rounds the values and returns them as float16, which is exact. The names are those of
ml_dtypes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import te, tir
from ..errors import InputError, nearest
from ..expr import EQ, DType, Expr, const
from ..te import Tensor
from .elementwise import elementwise
from .registry import Pattern, register

_FRACTION = {"float32": 23, "float64": 52}  # bits
_INFINITY = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}  # bits of infinity; those of NaN are greater


@dataclass(frozen=True, slots=True)
class Format:
    """A float format: the number of fraction bits, the smallest exponent of a normal number, and the largest number.

    `beyond` is the result for numbers above the largest one if the conversion does not saturate; it is None if the
    conversion always saturates. Only some formats have a `negative_zero`. A format that always saturates has no NaN
    either: NaN becomes -0.0.
    """

    fraction: int
    least: int
    largest: float
    beyond: float | None
    negative_zero: bool


FORMATS = {
    "float8_e4m3fn": Format(3, -6, 448.0, math.nan, True),
    "float8_e4m3fnuz": Format(3, -7, 240.0, math.nan, False),
    "float8_e5m2": Format(2, -14, 57344.0, math.inf, True),
    "float8_e5m2fnuz": Format(2, -15, 57344.0, math.nan, False),
    "float4_e2m1fn": Format(1, 0, 6.0, None, True),
}


@register("round_to_format", pattern=Pattern.ELEMENTWISE)
def round_to_format(x: Tensor, *, format: str, saturate: bool = True) -> Tensor:
    """Return x rounded to the nearest number of a format, as float16. Ties go to even.

    With `saturate`, larger numbers become the largest number of the format.
    """
    if format not in FORMATS:
        raise InputError(f"round_to_format: {nearest(format, list(FORMATS))}")
    chosen = FORMATS[format]
    return elementwise(x, lambda v: _rounded(v, chosen, saturate).astype("float16"), "round_to_format")


def _rounded(v: Expr, f: Format, saturate: bool) -> Expr:
    wide = "float64" if v.dtype == "float64" else "float32"
    kind = "int64" if wide == "float64" else "int32"
    value = v.astype(wide)
    bits = tir.reinterpret(kind, value)
    magnitude = bits & const(DType(kind).max, kind)
    size = tir.reinterpret(wide, magnitude)
    # Add half of the last kept bit before cutting, or one less if that bit is 0: ties go to the even neighbour.
    cut = const(_FRACTION[wide] - f.fraction, kind)
    half = const((1 << (_FRACTION[wide] - f.fraction - 1)) - 1, kind)
    above = (magnitude >> cut) & const(1, kind)
    normal = tir.reinterpret(wide, ((magnitude + half + above) >> cut) << cut)
    # Subnormal numbers have equal steps; powers of two scale exactly.
    steps = 2.0 ** (f.fraction - f.least)
    small = te.nearbyint(size * const(steps, wide)) * const(1 / steps, wide)
    rounded = te.select(size < const(2.0**f.least, wide), small, normal)
    largest = const(f.largest, wide)
    beyond = largest if saturate or f.beyond is None else const(f.beyond, wide)
    limited = te.select(rounded > largest, beyond, rounded)
    sign = bits & const(DType(kind).min, kind)
    signed = tir.reinterpret(wide, tir.reinterpret(kind, limited) | sign)
    if not f.negative_zero:
        signed = te.select(EQ(limited, const(0, wide)), const(0, wide), signed)
    nan = const(-0.0 if f.beyond is None else math.nan, wide)
    return te.select(magnitude > const(_INFINITY[wide], kind), nan, signed)
