"""Powers and lengths, for float32 and float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from .exponentials import exp2_of_sum
from .float_formats import fma, format_of, horner, in_float64, product, where
from .lanes import F32, Value
from .logarithms import split

# log2(1 + f) = f p(f), relative error 2^-36: what a power in float32 needs
_LOG2 = (
    1.4426950408691157, -0.721347520876955, 0.4808983611701704, -0.3606736729220932, 0.2885373124200835,
    -0.2404532927671575, 0.2061748443494564, -0.18029709775274663, 0.1587741689175072, -0.14319882495617117,
    0.14476059664325602, -0.14265324453072645, 0.07714796827162534,
)  # fmt: skip
# e^r = 1 + r + r^2 q(r), relative error 2^-34
_EXP = (
    0.5000000078779275, 0.16666666820275172, 0.04166626798670731, 0.008333273204908995, 0.0013946177297019927,
    0.0001991374308527417,
)  # fmt: skip
# With s = f / (2 + f) and z = s^2: ln(1 + f) = 2 s + 2/3 s z + s z^2 p(z), relative error 2^-65
_LOG = (
    0.40000000000002256, 0.28571428570100593, 0.222222225197799, 0.18181784376326088, 0.15386757029153267,
    0.13256822631980344, 0.1319629827634906,
)  # fmt: skip
_PER_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def power(x: Value, y: Value) -> Value:
    """Return x^y within 2 ulp, with C's results for zeros, infinities and NaN. A negative x requires an integral y."""
    usual = _USUAL.get(y.same_number())
    if usual is not None:
        return usual(x)
    size = _single(x, y) if x.element is F32 else _double(x.intrinsic("fabs"), y)
    one = x.constant(1.0)
    halved = y * 0.5
    whole, even = y.intrinsic("trunc") == y, halved.intrinsic("trunc") == halved
    form = format_of(x)
    negative = x.bitcast(form.integer) < 0
    odd = negative & whole & ~even
    signed = where(odd, -size, size)
    finite = (x < 0.0) & (x > -math.inf) & (y.intrinsic("fabs") < math.inf)
    signed = where(finite & ~whole, math.nan, signed)
    return where((x == 1.0) | (y == 0.0), one, signed)


def _root(x: Value) -> Value:
    """Return x^(1/2), which differs from the square root for -0 and minus infinity."""
    return where(x == -math.inf, math.inf, (x + 0.0).intrinsic("sqrt"))


# Powers whose exponent is known while compiling.
_USUAL: dict[float | None, Callable[[Value], Value]] = {
    2.0: lambda x: x * x, 1.0: lambda x: x, 0.5: _root, -0.5: lambda x: 1.0 / _root(x), -1.0: lambda x: 1.0 / x,
}  # fmt: skip


def _single(x: Value, y: Value) -> Value:
    def compute(x: Value, y: Value) -> Value:
        f, e = split(x)
        logarithm = fma(f, horner(f, _LOG2), e)
        exponent = y * _at_ends(x, logarithm)
        exponent = where(_unit_to_infinity(x, y), 0.0, exponent)
        bounded = where(exponent > 300.0, 300.0, where(exponent < -300.0, -300.0, exponent))
        form = format_of(x)
        rounded = bounded + (form.round + form.bias)
        r = (bounded - (rounded - (form.round + form.bias))) * math.log(2.0)
        p = fma(r * r, horner(r, _EXP), r) + 1.0
        return p * (rounded.bitcast(form.integer) << form.mantissa).bitcast(form.element)

    return in_float64(compute)(x.intrinsic("fabs"), y)


def _at_ends(x: Value, logarithm: Value) -> Value:
    """Return the logarithm of a number that is not negative, correcting the results for 0, infinity and NaN."""
    logarithm = where(x == 0.0, -math.inf, where(x == math.inf, math.inf, logarithm))
    return where(x.is_nan(), x, logarithm)


def _unit_to_infinity(x: Value, y: Value) -> Value:
    """Return a mask of powers of 1 by infinity, for which infinity times the logarithm would be NaN."""
    return (x == 1.0) & (y.intrinsic("fabs") == math.inf)


def _double(x: Value, y: Value) -> Value:
    """Return the power of a number that is not negative. Its logarithm has 65 bits, as a sum of two floats."""
    f, e = split(x)
    denominator = f + 2.0
    left_out = f - (denominator - 2.0)
    reciprocal = 1.0 / denominator
    s = f * reciprocal
    s_low = (fma(-s, denominator, f) - s * left_out) * reciprocal
    z, z_low = product(s, s)
    z_low = fma(s + s, s_low, z_low)
    # 2/3 s z, then all that is smaller
    cube, cube_low = product(s, z)
    cube_low = cube_low + fma(s, z_low, s_low * z)
    third, third_low = product(cube, _TWO_THIRDS[0])
    third_low = third_low + fma(cube, _TWO_THIRDS[1], cube_low * _TWO_THIRDS[0])
    rest = (cube * z) * horner(z, _LOG) + third_low + (s_low + s_low)
    natural, natural_low = _sum(s + s, third)
    natural_low = natural_low + rest
    part, part_low = product(natural, _PER_LN2[0])
    part_low = part_low + fma(natural, _PER_LN2[1], natural_low * _PER_LN2[0])
    high, low = _sum(e, part)
    low = low + part_low
    high, low = _sum(high, low)
    high = _at_ends(x, high)
    exponent, exponent_low = product(y, high)
    finite = exponent.intrinsic("fabs") < 4096.0
    exponent_low = where(finite, fma(y, low, exponent_low), 0.0)
    return exp2_of_sum(where(_unit_to_infinity(x, y), 0.0, exponent), exponent_low)


def _sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b as a rounded sum and its rounding error. `a` must be 0 or the larger number."""
    total = a + b
    return total, (a - total) + b


def hypot(x: Value, y: Value) -> Value:
    """Return sqrt(x^2 + y^2) within 2 ulp, without intermediate overflow."""
    if x.element is F32:
        length = in_float64(lambda a, b: fma(a, a, b * b).intrinsic("sqrt"))(x, y)
    else:
        a, b = x.intrinsic("fabs"), y.intrinsic("fabs")
        large, small = (a > 2.0**500) | (b > 2.0**500), (a < 2.0**-400) & (b < 2.0**-400)
        scale = where(large, 2.0**-600, where(small, 2.0**600, x.constant(1.0)))
        back = where(large, 2.0**600, where(small, 2.0**-600, x.constant(1.0)))
        a, b = a * scale, b * scale
        length = fma(a, a, b * b).intrinsic("sqrt") * back
    infinite = (x.intrinsic("fabs") == math.inf) | (y.intrinsic("fabs") == math.inf)
    return where(infinite, math.inf, length)
