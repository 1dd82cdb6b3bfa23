"""e^x, 2^x, 10^x, e^x - 1, the hyperbolic functions and the sigmoid, for float32 and float64.

An argument is n ln 2 + r with an integer n and |r| <= ln(2) / 2. A polynomial gives t = e^r - 1, and e^x = 2^n (1 + t).
"""

from __future__ import annotations

import math

from .float_formats import FloatFormat, fma, format_of, horner, product, where
from .lanes import F32, Value

# e^r = 1 + r + r^2 q(r) on |r| <= ln(2)/2; relative error before rounding 1.2e-10 and 1.1e-18
_EXP_F32 = (
    0.5, 0.1666666716337204, 0.04166644811630249, 0.008333198726177216, 0.001393660088069737, 0.00019952398724853992,
)  # fmt: skip
_EXP_F64 = (
    0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316715, 0.001388888888885868, 0.00019841269897124535,
    2.4801587373009807e-05, 2.755723417426018e-06, 2.7557234067951714e-07, 2.5112259772819242e-08,
    2.092671451341146e-09,
)  # fmt: skip
# ln(2), log10(2) and ln(10), each in two parts. The high part of log10(2) has few bits in float32: n times it is exact.
_LN2 = {True: (0.6931471824645996, -1.904654299957768e-09), False: (0.6931471805599453, 2.319046813846299615e-17)}
_LOG10_2 = {True: (0.30102539062500, 4.6050389811952137e-06), False: (0.3010299956639812, -2.803728127785170339e-18)}
_LN10 = {True: (2.3025851249694824, -3.1975436520782386e-08), False: (2.302585092994046, -2.170756223382249450e-16)}
_TINY = 2.0**-64  # e^x - 1, sinh x and tanh x round to x


# The bounds of e^x: below the first, the result is not a normal number, and above the second it overflows.
_LEAST = {True: -87.33654, False: -708.3964185322641}
_MOST = {True: 88.72283, False: 709.782712893384}


def exp(x: Value) -> Value:
    """Return e^x within 2 ulp. Results below the least normal number become zero.

    Subnormal numbers make Intel's processors a hundred times slower, here and in each product that reads them. The
    masked scores of attention would all be subnormal: e^-100 next to 1.
    """
    form, single = format_of(x), x.element is F32
    t, n = _reduced(x, 0)
    # n goes into the exponent of 1 + t, whose product is a normal number between the bounds. Beyond them t may be
    # anything.
    value = ((t + 1.0).bitcast(form.integer) + (n << form.mantissa)).bitcast(form.element)
    value = where(x < _LEAST[single], 0.0, value)
    return where(x <= _MOST[single], value, x * math.inf)


def _exp_below_zero(x: Value) -> Value:
    """Return e^x for x up to 0, or NaN. Results below the least normal number become zero."""
    form, least = format_of(x), _LEAST[x.element is F32]
    gone = x < least
    t, n = _reduced(where(gone, least, x), form.bias)
    return where(gone, 0.0, t + 1.0) * (n << form.mantissa).bitcast(form.element)


def exp_normal(x: Value) -> Value:
    """Return e^x if the result is a normal number (x from -87 to 88, in float64 from -708 to 709), or NaN for NaN."""
    form = format_of(x)
    t, n = _reduced(x, form.bias)
    return (t + 1.0) * (n << form.mantissa).bitcast(form.element)


def _reduced(x: Value, bias: int) -> tuple[Value, Value]:
    """Return (t, an integer whose low bits are n + bias) with e^x = 2^n (1 + t)."""
    form = format_of(x)
    rounded = fma(x, 1.0 / math.log(2.0), form.round + bias)
    n = rounded - (form.round + bias)
    r = fma(n, -form.ln2_low, fma(n, -form.ln2_high, x))
    return _exp_minus_one(r), rounded.bitcast(form.integer)


def _exp_minus_one(r: Value, low: Value | None = None) -> Value:
    """Return e^(r + low) - 1 for r up to ln(2) / 2 and a `low` that is small compared with an ulp of 1."""
    q = horner(r, _EXP_F32 if r.element is F32 else _EXP_F64)
    return (r * r * q + low) + r if low is not None else fma(r * r, q, r)


def _scaled(p: Value, n: Value, form: FloatFormat) -> Value:
    """Return p * 2^n; the caller has already added twice the exponent bias to the low bits of `n`."""
    # Use two factors, because n may exceed one exponent field. Half of (n + twice the bias) is n / 2 + the bias; the
    # shift drops all other bits.
    half = n >> 1
    factors = [(part << form.mantissa).bitcast(form.element) for part in (half, n - half)]
    return p * factors[0] * factors[1]


def exp2(x: Value) -> Value:
    """Return 2^x within 1 ulp. It is exact for integers."""
    return exp2_of_sum(x, x.constant(0.0))


def exp2_of_sum(x: Value, addend: Value) -> Value:
    """Return 2^(x + addend), where the addend is small compared with 1."""
    form = format_of(x)
    x, gone = _limited(x, 1.0, form)
    rounded = x + (form.round + 2 * form.bias)
    r = x - (rounded - (form.round + 2 * form.bias))
    high, low = _LN2[x.element is F32]
    whole, rest = product(r, high)
    rest = fma(r, low, fma(addend, high, rest))
    total = whole + rest
    t = _exp_minus_one(total, (whole - total) + rest)
    return _scaled(where(gone, 0.0, t + 1.0), rounded.bitcast(form.integer), form)


def exp10(x: Value) -> Value:
    """Return 10^x within 2 ulp."""
    form, single = format_of(x), x.element is F32
    x, gone = _limited(x, math.log10(2.0), form)
    rounded = fma(x, 1.0 / math.log10(2.0), form.round + 2 * form.bias)
    n = rounded - (form.round + 2 * form.bias)
    r = fma(n, -_LOG10_2[single][1], fma(n, -_LOG10_2[single][0], x))
    high, low = product(r, _LN10[single][0])
    t = _exp_minus_one(high, fma(r, _LN10[single][1], low))
    return _scaled(where(gone, 0.0, t + 1.0), rounded.bitcast(form.integer), form)


def _limited(x: Value, unit: float, form: FloatFormat) -> tuple[Value, Value]:
    """Return x, clamped to the powers that neither overflow nor underflow, and a mask of the lanes that underflow."""
    top = (form.bias + 2) * unit
    bottom = -(form.bias + form.mantissa + 2) * unit
    gone = x < bottom
    return where(gone, bottom, where(x > top, top, x)), gone


def _eighths(x: Value) -> tuple[Value, Value]:
    """Return (s, t) with e^x / 8 = s (1 + t), for x from -60 to where sinh x overflows. s never overflows in this
    range.
    """
    form = format_of(x)
    t, n = _reduced(x, form.bias - 3)
    return (n << form.mantissa).bitcast(form.element), t


def expm1(x: Value) -> Value:
    """Return e^x - 1 within 2 ulp."""
    low, high = (-60.0, 90.0) if x.element is F32 else (-60.0, 711.0)
    s, t = _eighths(where(x < low, low, where(x > high, high, x)))
    # n > 0: s (1 + t) is far from 1/8; n <= 0: s - 1/8 is exact.
    result = fma(s, t, s - 0.125) * 8.0
    return where(x.intrinsic("fabs") < _TINY, x, result)


def _half_of_growth(magnitude: Value) -> tuple[Value, Value]:
    """Return (s, t) as `_eighths` does, for numbers that are not negative."""
    top = 90.0 if magnitude.element is F32 else 711.0  # sinh has overflowed
    return _eighths(where(magnitude > top, top, magnitude))


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine, within 3 ulp."""
    magnitude = x.intrinsic("fabs")
    s, t = _half_of_growth(magnitude)
    h = fma(s, t, s - 0.125) * 4.0  # (e^|x| - 1) / 2
    bounded = where(h > 2.0**64, 2.0**64, h)  # not infinite: the quotient is 1/2
    result = (h + bounded / fma(bounded, 2.0, 1.0)).intrinsic("copysign", x)
    return where(magnitude < _TINY, x, result)


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine, within 2 ulp."""
    s, t = _half_of_growth(x.intrinsic("fabs"))
    h = fma(s, t, s) * 4.0  # e^|x| / 2
    return h + 0.25 / h


# tanh x = x + x^3 p(x^2) on |x| < 0.625
_TANH = (-0.3333328068256378, 0.13331419229507446, -0.053738292306661606, 0.02063542976975441, -0.005701635032892227)


def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent, within 3 ulp."""
    magnitude = x.intrinsic("fabs")
    top = 10.0 if x.element is F32 else 20.0  # beyond, the result rounds to 1
    bounded = where(magnitude > top, top, magnitude)
    if x.element is F32:
        square = x * x
        near = fma(magnitude * square, horner(square, _TANH), magnitude)
        far = 1.0 - 2.0 / (exp_normal(bounded + bounded) + 1.0)
        return where(magnitude < 0.625, near, far).intrinsic("copysign", x)
    s, t = _eighths(bounded + bounded)
    grown = fma(s, t, s - 0.125)  # (e^(2|x|) - 1) / 8
    return where(magnitude < _TINY, x, (grown / (grown + 0.25)).intrinsic("copysign", x))


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + e^-x) within 4 ulp, without an overflow in any intermediate result."""
    e = _exp_below_zero(-x.intrinsic("fabs"))
    return where(x < 0.0, e, 1.0) / (e + 1.0)
