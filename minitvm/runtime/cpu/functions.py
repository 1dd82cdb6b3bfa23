"""Elementary functions over `Value`s, for scalars and vectors of every float dtype.

float32 has polynomial forms for what networks spend time in; the stated errors are measured in
tests/runtime/test_simd_functions.py over the whole range. Everything else goes through libm, lane by lane. float16 is
computed in float32 and rounded once. Coefficients were fitted for this file by weighted least squares on Chebyshev nodes in
extended precision; argument reductions follow Muller, "Elementary Functions", chapters 5 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from .lanes import F16, F32, F64, I32, Value, declare


def horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    """c0 + c1 x + c2 x^2 + ..., by fused multiply-adds."""
    total = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.intrinsic("fma", x, x.constant(c))
    return total


def power_of_two(n: Value) -> Value:
    """2^n as float32 for int32 n in [-126, 127], by building the exponent field."""
    return ((n + 127) << 23).bitcast(F32)


def sign(x: Value) -> Value:
    if x.kind == "u":
        return (x == 0).select(x, x.constant(1))
    result = (x > 0).select(x.constant(1), (x < 0).select(x.constant(-1), x.constant(0)))
    return x.is_nan().select(x, result) if x.kind == "f" else result


# e^r = 1 + r + r^2 q(r) on |r| <= ln(2)/2
_EXP = (0.5, 0.16666666, 0.041666612, 0.008333392, 0.0013930436, 0.00019894987)
_LN2_HIGH = 0.693145751953125  # 15 bits: n * _LN2_HIGH is exact for |n| < 512
_LN2_LOW = 1.42860682030941723212e-6


def exp_f32(x: Value) -> Value:
    """e^x within 2 ulp, subnormal results included."""
    # Beyond these bounds the result has overflowed to infinity or rounds to zero.
    clamped = (x < -104.0).select(x.constant(-104.0), (x > 89.0).select(x.constant(89.0), x))
    n = (clamped * (1.0 / math.log(2.0))).intrinsic("rint")
    r = n.intrinsic("fma", n.constant(-_LN2_HIGH), clamped)
    r = n.intrinsic("fma", n.constant(-_LN2_LOW), r)
    p = (r * r).intrinsic("fma", horner(r, _EXP), r) + 1.0
    # 2^n in two factors: n runs from -150 to 128, further than one exponent field reaches.
    k = n.cast(I32)
    half = k >> 1
    result = p * power_of_two(half) * power_of_two(k - half)
    return x.is_nan().select(x, result)


def libm(name: str, arity: int) -> Callable[..., Value]:
    """The C library's function, one call a lane: `sinf` for float32, `sin` for float64."""

    def scalar(*xs: Value) -> Value:
        first = xs[0]
        symbol = name + "f" if first.element is F32 else name
        function_type = ir.FunctionType(first.llvm.type, [first.llvm.type] * arity)
        function = declare(first.builder, symbol, function_type)
        return first.wrap(first.builder.call(function, [x.llvm for x in xs]))

    return lambda *xs: xs[0].lane_by_lane(scalar, *xs[1:])


def in_float32(f: Callable[..., Value]) -> Callable[..., Value]:
    """float16 by way of float32."""
    return lambda *xs: f(*(x.cast(F32) for x in xs)).cast(F16) if xs[0].element is F16 else f(*xs)


def _with_float32(name: str, polynomial: Callable[[Value], Value]) -> Callable[..., Value]:
    general = libm(name, 1)
    return in_float32(lambda x: polynomial(x) if x.element is F32 else general(x))


_LIBM_UNARY = (
    "exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip

UNARY: dict[str, Callable[..., Value]] = {
    "exp": _with_float32("exp", exp_f32),
    **{name: in_float32(libm(name, 1)) for name in _LIBM_UNARY},
}

BINARY: dict[str, Callable[..., Value]] = {
    "pow": in_float32(libm("pow", 2)),
    "atan2": in_float32(libm("atan2", 2)),
    "hypot": in_float32(libm("hypot", 2)),
}
