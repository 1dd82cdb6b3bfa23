"""Elementary functions over `Value`s, for scalars and vectors of every float dtype.

float32 has polynomial forms of the functions that networks spend time in; the stated errors are measured in
tests/runtime/test_simd_functions.py over the whole range. Everything else goes through libm, lane by lane. Floats of 16
bits are computed in float32 and rounded once. Coefficients were fitted for this file by weighted least squares on
Chebyshev nodes in extended precision; argument reductions follow Muller, "Elementary Functions", chapters 5 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from .lanes import BF16, F16, F32, F64, I32, I64, Value, library_function


def horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    """c0 + c1 x + c2 x^2 + ..., by fused multiply-adds."""
    total = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.intrinsic("fma", x, x.constant(c))
    return total


def sign(x: Value) -> Value:
    if x.kind == "u":
        return (x == 0).select(x, x.constant(1))
    result = (x > 0).select(x.constant(1), (x < 0).select(x.constant(-1), x.constant(0)))
    return x.is_nan().select(x, result) if x.kind == "f" else result


# e^r = 1 + r + r^2 q(r) on |r| <= ln(2)/2; relative error 1.2e-10 before rounding
_EXP = (
    0.5, 0.1666666716337204, 0.04166644811630249, 0.008333198726177216, 0.001393660088069737, 0.00019952398724853992,
)  # fmt: skip
_LN2_HIGH = 0.693145751953125  # 15 bits: n * _LN2_HIGH is exact for |n| < 512
_LN2_LOW = 1.42860682030941723212e-6


# Added to a number below 2^22 this rounds it to an integer, which then is in the low bits.
_ROUND = 1.5 * 2**23


# ln(2^-126): below it e^x is no normal number.
_LEAST = -87.33654
# ln(2^128), rounded down: above it e^x overflows.
_MOST = 88.72283


def exp_f32(x: Value) -> Value:
    """e^x within 2 ulp; zero below 2^-126.

    A subnormal number takes Intel's processors a hundred times as long, here and in each product that it goes into, and
    the masked scores of attention are all of this kind: e^-100 beside 1.
    """
    p, n = _exp_parts(x, 0)
    # n goes into the exponent of p, whose product is a normal number between the bounds. Beyond them p may be anything.
    value = (p.bitcast(I32) + (n << 23)).bitcast(F32)
    value = (x < _LEAST).select(x.constant(0.0), value)
    return (x <= _MOST).select(value, x * math.inf)


def _exp_below_zero(x: Value) -> Value:
    """e^x for x up to 0, or NaN; zero below 2^-126."""
    gone = x < _LEAST
    p, n = _exp_parts(gone.select(x.constant(_LEAST), x), 127)
    return gone.select(x.constant(0.0), p) * (n << 23).bitcast(F32)


def _exp_normal(x: Value) -> Value:
    """e^x for x from -87 to 88, where the result is a normal number, or NaN."""
    p, n = _exp_parts(x, 127)
    return p * (n << 23).bitcast(F32)


def _exp_parts(x: Value, bias: int) -> tuple[Value, Value]:
    """(p, n + bias in the low 9 bits) with e^x = p 2^n and p from sqrt(1/2) to sqrt(2)."""
    rounded = x.intrinsic("fma", x.constant(1.0 / math.log(2.0)), x.constant(_ROUND + bias))
    n = rounded - (_ROUND + bias)
    r = n.intrinsic("fma", n.constant(-_LN2_HIGH), x)
    r = n.intrinsic("fma", n.constant(-_LN2_LOW), r)
    return (r * r).intrinsic("fma", horner(r, _EXP), r) + 1.0, rounded.bitcast(I32)


# ln(1 + f) = f - f^2/2 + f^3 p(f) on sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.3333331048488617, -0.25, 0.20002226531505585, -0.16668526828289032, 0.14218121767044067, -0.12396421283483505,
    0.11888592690229416, -0.11725828796625137, 0.06804917752742767,
)  # fmt: skip
_SQRT_HALF_BITS = 0x3F3504F3


def log_f32(x: Value) -> Value:
    """Natural logarithm within 2 ulp; of 0 -inf, of a negative number NaN."""
    tiny = x < 2.0**-126
    scaled = tiny.select(x * 2.0**23, x)
    # Split x = 2^e m with m in [sqrt(1/2), sqrt(2)): the exponent counts from sqrt(1/2) up.
    offset = scaled.bitcast(I32) - _SQRT_HALF_BITS
    e = (offset >> 23).cast(F32) - tiny.select(x.constant(23.0), x.constant(0.0))
    m = ((offset & 0x7FFFFF) + _SQRT_HALF_BITS).bitcast(F32)
    f = m - 1.0
    square = f * f
    tail = square.intrinsic("fma", f * horner(f, _LOG), e * _LN2_LOW)
    tail = square.intrinsic("fma", x.constant(-0.5), tail)
    result = e.intrinsic("fma", e.constant(_LN2_HIGH), f + tail)
    result = (x == 0.0).select(x.constant(-math.inf), result)
    result = (x == math.inf).select(x, result)
    return (x < 0.0).select(x.constant(math.nan), x.is_nan().select(x, result))


def log1p_f32(x: Value) -> Value:
    """ln(1 + x) within 3 ulp; of -1 -inf, below NaN."""
    # u = 1 + x is rounded, and ln(1 + x) = ln(u) + (x - (u - 1)) / u but for terms below half an ulp: u - 1 is exact
    # where the second summand counts.
    u = x + 1.0
    rest = (x - (u - 1.0)) / u
    ordinary = (u < math.inf).select((u > 0.0).select(rest, x.constant(0.0)), x.constant(0.0))
    return (u == 1.0).select(x, log_f32(u) + ordinary)


# tanh x = x + x^3 p(x^2) on |x| < 0.625
_TANH = (-0.3333328068256378, 0.13331419229507446, -0.053738292306661606, 0.02063542976975441, -0.005701635032892227)


def tanh_f32(x: Value) -> Value:
    """Hyperbolic tangent within 3 ulp."""
    magnitude = x.intrinsic("fabs")
    square = x * x
    near = (x * square).intrinsic("fma", horner(square, _TANH), x)
    bounded = (magnitude > 10.0).select(x.constant(10.0), magnitude)  # beyond, the result rounds to 1
    far = 1.0 - 2.0 / (_exp_normal(bounded + bounded) + 1.0)
    return (magnitude < 0.625).select(near, far.intrinsic("copysign", x))


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), written so that no intermediate overflows; in float32 within 4 ulp."""
    exponent = -x.intrinsic("fabs")
    e = _exp_below_zero(exponent) if x.element is F32 else _exp(exponent)
    return (x < 0.0).select(e, x.constant(1.0)) / (e + 1.0)


# erf x = x p(s) with s from -1 to 1 where x^2 runs from 0 to the square of `_ERF_END`; beyond, it rounds to 1.
_ERF = (
    0.36073681712150574, -0.18010865151882172, 0.13408437371253967, -0.10917811840772629, 0.09060011804103851,
    -0.07403311133384705, 0.058375559747219086, -0.043367788195610046, 0.029759898781776428, -0.020176870748400688,
    0.014113573357462883, -0.007407058030366898, 0.001993115758523345, -0.0015727364225313067, 0.002077128505334258,
    -0.0007942196098156273,
)  # fmt: skip
_ERF_END = 3.92


def erf_f32(x: Value) -> Value:
    """The error function, absolute error below 2e-7, relative error within 4 ulp."""
    s = (x * x).intrinsic("fma", x.constant(2 / _ERF_END**2), x.constant(-1.0))
    far = x.intrinsic("fabs") > _ERF_END
    return far.select(x.constant(1.0).intrinsic("copysign", x), x * horner(s, _ERF))


# sin r = r + r^3 p(r^2) and cos r = 1 - r^2/2 + r^4 q(r^2) on |r| <= pi/4
_SIN = (-0.1666666716337204, 0.008333329111337662, -0.00019839320157188922, 2.7181924906471977e-06)
_COS = (0.0416666679084301, -0.0013888883404433727, 2.479949216649402e-05, -2.720817349199933e-07)
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_ROUND_F64 = 1.5 * 2**52  # as `_ROUND`, for numbers below 2^51
_FAR = 2.0**30  # a larger argument is not reduced here


def sin_f32(x: Value) -> Value:
    """The sine within 2 ulp."""
    return _circular(x, "sin", 0)


def cos_f32(x: Value) -> Value:
    """The cosine within 2 ulp."""
    return _circular(x, "cos", 1)


def _circular(x: Value, name: str, quarters: int) -> Value:
    """The sine of x and so many quarters of a turn; lanes whose argument is far are `name` of libm."""
    near = _circular_near(x, quarters)
    far = x.intrinsic("fabs") > _FAR
    b = x.builder
    some = b.bitcast(far.llvm, ir.IntType(x.lanes)) if x.lanes else far.llvm
    before = b.basic_block
    with b.if_then(b.icmp_unsigned("!=", some, ir.Constant(some.type, 0)), likely=False):
        rare = far.select(libm(name, 1)(x), near)
        after = b.basic_block
    result = b.phi(near.llvm.type)
    result.add_incoming(near.llvm, before)
    result.add_incoming(rare.llvm, after)
    return near.wrap(result)


def _circular_near(x: Value, quarters: int) -> Value:
    # x = n pi/2 + r. In float64 n pi/2 is exact enough for every n that occurs, and its low bits count the quarters.
    wide = x.cast(F64)
    rounded = wide.intrinsic("fma", wide.constant(2.0 / math.pi), wide.constant(_ROUND_F64))
    n = rounded - _ROUND_F64
    r_wide = n.intrinsic("fma", n.constant(-_HALF_PI_HIGH), wide)
    r = n.intrinsic("fma", n.constant(-_HALF_PI_LOW), r_wide).cast(F32)
    quarter = rounded.bitcast(I64).cast(I32) + quarters
    square = r * r
    sine = (r * square).intrinsic("fma", horner(square, _SIN), r)
    tail = (square * square) * horner(square, _COS)
    cosine = square.intrinsic("fma", square.constant(-0.5), tail) + 1.0
    value = ((quarter & 1) == 0).select(sine, cosine)
    return (value.bitcast(I32) ^ ((quarter & 2) << 30)).bitcast(F32)


def libm(name: str, arity: int) -> Callable[..., Value]:
    """The C library's function, one call a lane: `sinf` for float32, `sin` for float64."""

    def scalar(*xs: Value) -> Value:
        first = xs[0]
        symbol = name + "f" if first.element is F32 else name
        function_type = ir.FunctionType(first.llvm.type, [first.llvm.type] * arity)
        function = library_function(first.builder, symbol, function_type)
        return first.wrap(first.builder.call(function, [x.llvm for x in xs]))

    return lambda *xs: xs[0].lane_by_lane(scalar, *xs[1:])


def in_float32(f: Callable[..., Value]) -> Callable[..., Value]:
    """Floats of 16 bits by way of float32."""

    def apply(*xs: Value) -> Value:
        element = xs[0].element
        return f(*(x.cast(F32) for x in xs)).cast(element) if element in (F16, BF16) else f(*xs)

    return apply


def _with_float32(name: str, polynomial: Callable[[Value], Value]) -> Callable[..., Value]:
    general = libm(name, 1)
    return in_float32(lambda x: polynomial(x) if x.element is F32 else general(x))


def _exp10(x: Value) -> Value:
    return libm("pow", 2)(x.constant(10.0), x)


_exp = _with_float32("exp", exp_f32)

_LIBM_UNARY = (
    "exp2", "expm1", "log2", "log10", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip

UNARY: dict[str, Callable[..., Value]] = {
    "exp": _exp,
    "log": _with_float32("log", log_f32),
    "log1p": _with_float32("log1p", log1p_f32),
    "tanh": _with_float32("tanh", tanh_f32),
    "sigmoid": in_float32(sigmoid),
    "erf": _with_float32("erf", erf_f32),
    "sin": _with_float32("sin", sin_f32),
    "cos": _with_float32("cos", cos_f32),
    "exp10": in_float32(_exp10),
    **{name: in_float32(libm(name, 1)) for name in _LIBM_UNARY},
}

BINARY: dict[str, Callable[..., Value]] = {
    "pow": in_float32(libm("pow", 2)),
    "atan2": in_float32(libm("atan2", 2)),
    "hypot": in_float32(libm("hypot", 2)),
    "fmod": in_float32(libm("fmod", 2)),
}
