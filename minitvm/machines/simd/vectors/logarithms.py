"""Logarithms and the inverse hyperbolic functions, for float32 and float64.

An argument is 2^e (1 + f) with sqrt(1/2) <= 1 + f <= sqrt(2), and ln(1 + f) = f - f^2/2 + c(f).
"""

from __future__ import annotations

import math

from .float_formats import fma, format_of, horner, where
from .lanes import F32, Value

# c(f) = f^3 p(f), in float32
_LOG_F32 = (
    0.3333331048488617, -0.25, 0.20002226531505585, -0.16668526828289032, 0.14218121767044067, -0.12396421283483505,
    0.11888592690229416, -0.11725828796625137, 0.06804917752742767,
)  # fmt: skip
# With s = f / (2 + f) and z = s^2: ln(1 + f) = 2 s + s z p(z), relative error 2^-59; in float64
_LOG_F64 = (
    0.6666666666666734, 0.3999999999941567, 0.2857142874218674, 0.22222198591857983, 0.1818356344836749,
    0.15314070853039827, 0.14795766206928945,
)  # fmt: skip
_SQRT_HALF_BITS = {True: 0x3F3504F3, False: 0x3FE6A09E667F3BCD}


def split(x: Value) -> tuple[Value, Value]:
    """Return (f, e) of a positive number with x = 2^e (1 + f). Subnormal numbers are supported."""
    form, bits = format_of(x), _SQRT_HALF_BITS[x.element is F32]
    tiny = x < form.least_normal
    scaled = where(tiny, x * 2.0**form.mantissa, x)
    # The exponent counts from sqrt(1/2) up.
    offset = scaled.bitcast(form.integer) - bits
    e = (offset >> form.mantissa).cast(form.element) - where(tiny, x.constant(form.mantissa), 0.0)
    m = ((offset & ((1 << form.mantissa) - 1)) + bits).bitcast(form.element)
    return m - 1.0, e


def _beyond_square(f: Value) -> Value:
    """Return c(f) = ln(1 + f) - f + f^2/2."""
    square = f * f
    if f.element is F32:
        return square * (f * horner(f, _LOG_F32))
    # ln(1 + f) = f - s f + s z p(z) since 2 s = f - s f, and s f = f^2/2 - s f^2/2.
    s = f / (f + 2.0)
    z = s * s
    return s * fma(z, horner(z, _LOG_F64), square * 0.5)


def _special(x: Value, result: Value) -> Value:
    """Return the result, corrected to -inf for 0, NaN for a negative number, and x itself for infinity and NaN."""
    result = where(x == 0.0, -math.inf, result)
    result = where(x == math.inf, x, result)
    return where(x < 0.0, math.nan, where(x.is_nan(), x, result))


def log(x: Value) -> Value:
    """Return the natural logarithm within 2 ulp. It is -inf for 0, and NaN for a negative number."""
    form = format_of(x)
    f, e = split(x)
    tail = fma(f * f, -0.5, fma(e, form.ln2_low, _beyond_square(f)))
    return _special(x, fma(e, form.ln2_high, f + tail))


# 1 / ln(2), 1 / ln(10) and log10(2), each in two parts: (high, low) in float32, and in float64
_PER_LN2 = {True: (1.4426950216293335, 1.9259629911266175e-08), False: (1.4426950408889634, 2.0355273740931033e-17)}
_PER_LN10 = {True: (0.4342944920063019, -1.0103050118726031e-08), False: (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_2 = {True: (0.30102539062500, 4.6050389811952137e-06), False: (0.30102999566406652, -8.5323443170571066e-14)}


def _in_base(x: Value, per: dict[bool, tuple[float, float]], unit: tuple[float, float]) -> Value:
    """Return ln x times a constant in two parts. `unit` is the logarithm of 2, whose high part times e is exact."""
    high, low = per[x.element is F32]
    f, e = split(x)
    tail = fma(f * f, -0.5, _beyond_square(f))
    natural = f + tail
    rest = (f - natural) + tail
    part = natural * high
    part_low = fma(natural, high, -part) + fma(natural, low, rest * high)
    whole = e * unit[0]
    total = whole + part  # e is 0 or the larger one: what the sum leaves out is exact
    total_low = (whole - total) + part
    return _special(x, total + (total_low + fma(e, unit[1], part_low)))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2, within 1 ulp. It is exact for powers of two."""
    return _in_base(x, _PER_LN2, (1.0, 0.0))


def log10(x: Value) -> Value:
    """Return the logarithm to base 10, within 1 ulp."""
    return _in_base(x, _PER_LN10, _LOG10_2[x.element is F32])


def log1p(x: Value) -> Value:
    """Return ln(1 + x) within 3 ulp. It is -inf for -1, and NaN below."""
    u, rest = _one_more(x)
    return where(u == 1.0, x, log(u) + rest)


def _one_more(x: Value) -> tuple[Value, Value]:
    """Return (u, rest) with ln(1 + x) = ln(u) + rest."""
    # u = 1 + x is rounded, and ln(1 + x) = ln(u) + (x - (u - 1)) / u but for terms below half an ulp: u - 1 is exact
    # where the second summand counts.
    u = x + 1.0
    ordinary = (u < math.inf) & (u > 0.0)
    return u, where(ordinary, (x - (u - 1.0)) / u, 0.0)


_LARGE = 2.0**30  # asinh and acosh are ln(2 x) there


def _log1p_or_double(x: Value, grown: Value) -> Value:
    """Return ln(1 + grown), or ln(2 x) if x is large."""
    large = x > _LARGE
    u, rest = _one_more(grown)
    result = log(where(large, x, u)) + where(large, math.log(2.0), rest)
    return where(u == 1.0, grown, result)


def asinh(x: Value) -> Value:
    """Return the inverse hyperbolic sine, within 3 ulp."""
    magnitude = x.intrinsic("fabs")
    bounded = where(magnitude > _LARGE, _LARGE, magnitude)
    square = bounded * bounded
    # |x| + sqrt(x^2 + 1) = 1 + |x| + x^2 / (1 + sqrt(x^2 + 1))
    grown = bounded + square / ((square + 1.0).intrinsic("sqrt") + 1.0)
    result = _log1p_or_double(magnitude, grown)
    return where(x.is_nan(), x, result.intrinsic("copysign", x))


def acosh(x: Value) -> Value:
    """Return the inverse hyperbolic cosine, within 3 ulp. It is NaN below 1."""
    above = where(x > _LARGE, _LARGE, x) - 1.0
    grown = above + fma(above, above, above + above).intrinsic("sqrt")
    return where(x < 1.0, math.nan, _log1p_or_double(x, grown))


def atanh(x: Value) -> Value:
    """Return the inverse hyperbolic tangent, within 3 ulp. It is infinite for 1 and -1, and NaN beyond."""
    magnitude = x.intrinsic("fabs")
    grown = (magnitude + magnitude) / (1.0 - magnitude)
    return (log1p(grown) * 0.5).intrinsic("copysign", x)
