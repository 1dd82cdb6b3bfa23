"""The two float formats in which elementary functions are computed, and tools that these functions share."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from .lanes import BF16, F16, F32, F64, I32, I64, LIBRARIES, Element, Value, architecture


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A float format, with the constants that elementary functions need.

    `integer` is the integer type of the same width. `mantissa` is the number of stored bits, and `bias` is the bias of
    the exponent. If you add `round` to a number below 2^(mantissa - 1), the number is rounded to an integer, which is
    then in the low bits. ln 2 is `ln2_high + ln2_low`. Subtracting a multiple of `ln2_high` from a number near it by
    `fma` is exact.
    """

    element: Element
    integer: Element
    mantissa: int
    bias: int
    ln2_high: float
    ln2_low: float

    @property
    def round(self) -> float:
        """The constant 1.5 * 2^mantissa."""
        return 1.5 * 2.0**self.mantissa

    @property
    def least_normal(self) -> float:
        """The smallest number that is not subnormal."""
        return 2.0 ** (1 - self.bias)


SINGLE = FloatFormat(F32, I32, 23, 127, 0.693145751953125, 1.42860682030941723212e-6)
DOUBLE = FloatFormat(F64, I64, 52, 1023, math.log(2.0), 2.319046813846299615494855e-17)


def format_of(x: Value) -> FloatFormat:
    """Return the format of a float32 or float64 value."""
    return SINGLE if x.element is F32 else DOUBLE


# Whether the CPU that a kernel is compiled for has fused multiply-adds. Without them LLVM calls a function of the C
# library for each lane.
FUSES: ContextVar[bool] = ContextVar("fuses", default=True)


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """Return a * b + c, rounded once.

    A CPU that does not fuse adds in float64, to which the product of float32 is exact. The sum is rounded twice, which
    makes no difference if the result is exact, as that of `product` is.
    """
    if FUSES.get() or a.element is not F32:
        return a.intrinsic("fma", a.like(b), a.like(c))
    wide = [x.cast(F64) for x in (a, a.like(b), a.like(c))]
    return (wide[0] * wide[1] + wide[2]).cast(F32)


def multiply_add(a: Value, b: Value | float, c: Value | float) -> Value:
    """Return a * b + c, rounded once where that costs nothing."""
    return a.intrinsic("fma" if FUSES.get() else "fmuladd", a.like(b), a.like(c))


def horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Return c0 + c1 x + c2 x^2 + ..., computed with multiply-adds, fused if the CPU can."""
    total = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = multiply_add(total, x, c)
    return total


def product(a: Value, b: Value | float) -> tuple[Value, Value]:
    """Return a * b as an exact sum of two values: the rounded product and its rounding error."""
    high = a * b
    return high, fma(a, b, -high)


def where(mask: Value, a: Value | float, b: Value | float) -> Value:
    """Return `a` in the lanes in which the mask is set, and `b` elsewhere. At least one of the two is a `Value`."""
    like = a if isinstance(a, Value) else b
    assert isinstance(like, Value)
    return mask.select(like.like(a), like.like(b))


def libm(name: str) -> Callable[..., Value]:
    """Return a C library function that is called once per lane: `sinf` for float32, `sin` for float64."""

    def scalar(*xs: Value) -> Value:
        return xs[0].library_call(name + "f" if xs[0].element is F32 else name, *xs[1:])

    return lambda *xs: xs[0].lane_by_lane(scalar, *xs[1:])


def has_device_library(x: Value) -> bool:
    """Return whether the code is for a GPU, whose math library has functions for a single lane."""
    return architecture(x.builder) in LIBRARIES


def in_float32(f: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that computes floats of 16 bits in float32."""

    def apply(*xs: Value) -> Value:
        element = xs[0].element
        return f(*(x.cast(F32) for x in xs)).cast(element) if element in (F16, BF16) else f(*xs)

    return apply


def in_float64(f: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that computes float32 in float64, and rounds once."""
    return lambda *xs: f(*(x.cast(F64) for x in xs)).cast(F32)
