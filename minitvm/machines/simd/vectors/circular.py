"""The trigonometric functions and their inverses, for float32 and float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from .float_formats import fma, format_of, has_device_library, horner, libm, where
from .lanes import F32, F64, I32, I64, Value
from .large_angles import HALF_PI, reduced_if_large

# sin r = r + r^3 p(r^2) and cos r = 1 - r^2/2 + r^4 q(r^2) on |r| <= pi/4
_SIN_F32 = (-0.1666666716337204, 0.008333329111337662, -0.00019839320157188922, 2.7181924906471977e-06)
_COS_F32 = (0.0416666679084301, -0.0013888883404433727, 2.479949216649402e-05, -2.720817349199933e-07)
_SIN_F64 = (
    -0.16666666666666632, 0.008333333333322332, -0.0001984126982975308, 2.755731367545291e-06, -2.505075582704203e-08,
    1.589667604858776e-10,
)  # fmt: skip
_COS_F64 = (
    0.0416666666666666, -0.001388888888887411, 2.4801587289474785e-05, -2.7557314350514985e-07, 2.0875723066135513e-09,
    -1.1359638918943074e-11,
)  # fmt: skip
_FAR = 2.0**30  # a larger argument is reduced with integers


def sin(x: Value) -> Value:
    """Return the sine, within 2 ulp."""
    return _odd(x, _periodic(x, "sin", _wave))


def cos(x: Value) -> Value:
    """Return the cosine, within 2 ulp."""
    return _periodic(x, "cos", lambda r, quarter: _wave(r, quarter + 1))


def tan(x: Value) -> Value:
    """Return the tangent, within 3 ulp."""
    return _odd(x, _periodic(x, "tan", _slope))


def _odd(x: Value, result: Value) -> Value:
    """Return the result of an odd function, after restoring the sign of a zero argument."""
    return where(x == 0.0, x, result)


def _periodic(x: Value, name: str, wave: Callable[[Value, Value], Value]) -> Value:
    """Return `wave(reduced argument, quarter)`, and NaN for an infinity.

    Lanes with a large argument get it in a branch that is rarely taken, on a GPU from the function `name` of its
    library.
    """
    magnitude = x.intrinsic("fabs")

    def far() -> Value:
        if has_device_library(x):
            return libm(name)(x)
        return where(magnitude == math.inf, math.nan, wave(*reduced_if_large(x)))

    return wave(*_reduced(x)).unless_rare(magnitude > _FAR, far)


def _reduced(x: Value) -> tuple[Value, Value]:
    """Return (r, an integer whose low bits are those of n) with x = n pi/2 + r."""
    wide = x.cast(F64)
    bits = 1.5 * 2.0**52
    rounded = fma(wide, 2.0 / math.pi, bits)
    n = rounded - bits
    # The first step is exact: both are multiples of the last place of pi/2, and so is their difference, which is
    # below 2. The others round the result only. In float32 two steps are exact enough for every n that occurs.
    r = fma(n, -HALF_PI[1], fma(n, -HALF_PI[0], wide))
    quarter = rounded.bitcast(I64)
    if x.element is F32:
        return r.cast(F32), quarter.cast(I32)
    return fma(n, -HALF_PI[2], r), quarter


def _sine_and_cosine(r: Value) -> tuple[Value, Value]:
    square = r * r
    if r.element is F32:
        tail = (square * square) * horner(square, _COS_F32)
        return fma(r * square, horner(square, _SIN_F32), r), fma(square, -0.5, tail) + 1.0
    half = square * 0.5
    one = 1.0 - half
    rest = (1.0 - one) - half  # exact
    cosine = one + fma(square * square, horner(square, _COS_F64), rest)
    return fma(r * square, horner(square, _SIN_F64), r), cosine


def _wave(r: Value, quarter: Value) -> Value:
    """Return the sine of r plus `quarter` quarters of a turn."""
    sine, cosine = _sine_and_cosine(r)
    form = format_of(r)
    value = where((quarter & 1) == 0, sine, cosine)
    return (value.bitcast(form.integer) ^ ((quarter & 2) << (form.integer.bits - 2))).bitcast(form.element)


def _slope(r: Value, quarter: Value) -> Value:
    """Return the tangent of r plus `quarter` quarters of a turn."""
    sine, cosine = _sine_and_cosine(r)
    even = (quarter & 1) == 0
    return where(even, sine, -cosine) / where(even, cosine, sine)


# asin x = x + x^3 p(x^2) on |x| <= 1/2
_ASIN_F32 = (
    0.16666659712791443, 0.07500512152910233, 0.04451550915837288, 0.03181958943605423, 0.01439440157264471,
    0.037577588111162186,
)  # fmt: skip
_ASIN_F64 = (
    0.16666666666666763, 0.07499999999970253, 0.04464285717521491, 0.03038194267664521, 0.02237221589822212,
    0.01735159534605102, 0.013981022172266409, 0.01139725598024462, 0.010789547870336775, 0.0036713024432220988,
    0.021792797684048095, -0.021119719065427162, 0.032703994407141425,
)  # fmt: skip
_PI_2 = {True: (1.5707963705062866, -4.371139000186243e-08), False: HALF_PI[:2]}  # pi/2 in two parts


def _arcsine_parts(x: Value) -> tuple[Value, Value, Value]:
    """Return (whether |x| <= 1/2, root, rest), where root + rest is the arcsine of the root.

    The root is |x| if |x| <= 1/2, and sqrt((1 - |x|) / 2) otherwise.
    """
    magnitude = x.intrinsic("fabs")
    near = magnitude <= 0.5
    square = where(near, x * x, fma(magnitude, -0.5, 0.5))
    root = where(near, magnitude, square.intrinsic("sqrt"))
    series = horner(square, _ASIN_F32 if x.element is F32 else _ASIN_F64)
    return near, root, root * square * series


def asin(x: Value) -> Value:
    """Return the arcsine, within 2 ulp. It is NaN if |x| > 1."""
    near, root, rest = _arcsine_parts(x)
    high, low = _PI_2[x.element is F32]
    far = fma(root, -2.0, high) + fma(rest, -2.0, low)
    return where(near, root + rest, far).intrinsic("copysign", x)


def acos(x: Value) -> Value:
    """Return the arccosine, within 2 ulp. It is NaN if |x| > 1."""
    near, root, rest = _arcsine_parts(x)
    arc = root + rest
    high, low = _PI_2[x.element is F32]
    negative = x < 0.0
    inside = where(negative, arc, -arc) + low + high
    outside = where(negative, fma(arc, -2.0, 2.0 * low) + 2.0 * high, arc + arc)
    return where(near, inside, outside)


# atan t = t + t^3 p(t^2) on |t| <= tan(pi/8)
_ATAN_F32 = (-0.33333316445350647, 0.1999848484992981, -0.14243775606155396, 0.10595465451478958, -0.06082085520029068)
_ATAN_F64 = (
    -0.333333333333332, 0.19999999999953694, -0.1428571428020715, 0.11111110784089497, -0.09090897778828072,
    0.0769206063400191, -0.06663109187896861, 0.05847928651401025, -0.0503948811307875, 0.038069325309150685,
    -0.01791250028673981,
)  # fmt: skip
_TAN_PI_8 = math.sqrt(2.0) - 1.0


def _first_quarter(y: Value, x: Value) -> Value:
    """Return the angle of (x, y), neither of which is negative: atan(y / x), from a quotient of at most tan(pi/8)."""
    high, low = _PI_2[x.element is F32]
    small, large = y < x * _TAN_PI_8, y * _TAN_PI_8 > x
    numerator = where(small, y, where(large, -x, y - x))
    denominator = where(small, x, where(large, y, y + x))
    t = numerator / denominator
    square = t * t
    arc = (t * square) * horner(square, _ATAN_F32 if x.element is F32 else _ATAN_F64)
    angle = where(small, 0.0, where(large, x.constant(high), x.constant(high / 2)))
    rest = where(small, 0.0, where(large, x.constant(low), x.constant(low / 2)))
    return angle + (t + (arc + rest))


def atan(x: Value) -> Value:
    """Return the arctangent, within 2 ulp."""
    magnitude = x.intrinsic("fabs")
    return _first_quarter(magnitude, x.constant(1.0)).intrinsic("copysign", x)


def atan2(y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), within 2 ulp, with C's results for zeros and infinities."""
    form = format_of(x)
    a, b = y.intrinsic("fabs"), x.intrinsic("fabs")
    # Infinities and zeros count as ones in their direction: (inf, inf) is on the diagonal, (0, 0) on the x axis.
    infinite = (a == math.inf) | (b == math.inf)
    one, zero = x.constant(1.0), x.constant(0.0)
    a = where(infinite, where(a == math.inf, one, zero), a)
    b = where(infinite, where(b == math.inf, one, zero), b)
    b = where((a == 0.0) & (b == 0.0), one, b)
    # Sums do not overflow, and products with tan(pi/8) are not subnormal.
    large = (a > 2.0 ** (form.bias - 2)) | (b > 2.0 ** (form.bias - 2))
    small = (a < 2.0 ** (60 - form.bias)) & (b < 2.0 ** (60 - form.bias))
    scale = where(large, 0.25, where(small, 2.0**60, one))
    angle = _first_quarter(a * scale, b * scale)
    high, low = _PI_2[x.element is F32]
    behind = x.bitcast(form.integer) < 0
    angle = where(behind, (2.0 * low - angle) + 2.0 * high, angle)
    nan = x.is_nan() | y.is_nan()
    return where(nan, x + y, angle.intrinsic("copysign", y))
