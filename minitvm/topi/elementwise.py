"""Element-wise functions of one tensor, activations among them: each keeps the shape and, unless stated, the dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import DType, Expr, Not, call, const
from ..te import Tensor
from ..tir import op
from .shapes import agree, axis_of, dims

Unary = Callable[[Tensor], Tensor]


def elementwise(x: Tensor, function: Callable[[Expr], Any], name: str) -> Tensor:
    """`function` of each element."""
    return te.compute(x.shape, lambda *i: function(x[i]), name=f"T_{name}")


def _unary(name: str, function: Callable[[Expr], Any], doc: str) -> Unary:
    def apply(x: Tensor) -> Tensor:
        return elementwise(x, function, name)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


def _rounding(name: str, intrinsic: str, doc: str) -> Unary:
    # An integer is its own floor.
    return _unary(name, lambda v: call(intrinsic, v) if v.dtype.is_float else v, doc)


def _float_test(name: str, for_ints: bool) -> Unary:
    def test(v: Expr) -> Expr:
        return call(name, v) if v.dtype.is_float else const(for_ints)

    return _unary(name, test, f"bool: `{name}` of each element.")


def _sign(v: Expr) -> Expr:
    if v.dtype.kind == "uint":
        return te.minimum(v, const(1, v.dtype))
    # The sign of zero is zero, that of NaN is NaN.
    one = const(1, v.dtype)
    return te.select(v > const(0, v.dtype), one, te.select(v < const(0, v.dtype), const(-1, v.dtype), v))


def _unit(v: Expr) -> Expr:
    return te.maximum(te.minimum(v, const(1, v.dtype)), const(0, v.dtype))


def _softplus(v: Expr) -> Expr:
    # log(exp(v) + 1) without overflow.
    return te.maximum(v, const(0, v.dtype)) + te.log1p(te.exp(-te.abs(v)))


def _mish(v: Expr) -> Expr:
    # With e = exp(v), tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1). From the limit on it rounds to 1.
    limit = 5.0 if v.dtype.scalar == "float16" else 20.0
    e = te.exp(te.minimum(v, const(limit, v.dtype)))
    grown = e * (e + const(2, v.dtype))
    return v * (grown / (grown + const(2, v.dtype)))


exp = _unary("exp", te.exp, "e to the power of x.")
log = _unary("log", te.log, "Natural logarithm.")
log2 = _unary("log2", te.log2, "Logarithm to base 2.")
log10 = _unary("log10", te.log10, "Logarithm to base 10.")
log1p = _unary("log1p", te.log1p, "log(1 + x).")
sqrt = _unary("sqrt", te.sqrt, "Square root.")
rsqrt = _unary("rsqrt", lambda v: const(1, v.dtype) / call("sqrt", v), "1 / sqrt(x).")
sin, cos, tan = (_unary(n, getattr(te, n), f"{n} of x in radians.") for n in ("sin", "cos", "tan"))
asin, acos, atan = (_unary(n, getattr(te, n), f"{n} of x, in radians.") for n in ("asin", "acos", "atan"))
sinh, cosh, tanh = (_unary(n, getattr(te, n), f"{n} of x.") for n in ("sinh", "cosh", "tanh"))
asinh, acosh, atanh = (_unary(n, getattr(te, n), f"{n} of x.") for n in ("asinh", "acosh", "atanh"))
sigmoid = _unary("sigmoid", te.sigmoid, "1 / (1 + exp(-x)).")
erf = _unary("erf", te.erf, "The error function.")
negative = _unary("negative", lambda v: const(0, v.dtype) - v if v.dtype.is_int else v * const(-1, v.dtype), "-x.")
abs = _unary("abs", lambda v: v if v.dtype.kind == "uint" else te.abs(v), "|x|.")
sign = _unary("sign", _sign, "-1, 0 or 1; NaN of NaN.")
floor = _rounding("floor", "floor", "The largest integer not above x.")
ceil = _rounding("ceil", "ceil", "The smallest integer not below x.")
trunc = _rounding("trunc", "trunc", "x without its fraction.")
round = _rounding("round", "nearbyint", "The nearest integer, halves to even.")
reciprocal = _unary("reciprocal", lambda v: const(1, v.dtype) / v, "1 / x.")
logical_not = _unary("logical_not", lambda v: Not(v), "bool: not x.")
bitwise_not = _unary("bitwise_not", lambda v: ~v, "All bits turned over.")
isnan, isinf = _float_test("isnan", False), _float_test("isinf", False)
isfinite = _float_test("isfinite", True)
identity = _unary("identity", lambda v: v, "x itself.")
relu = _unary("relu", lambda v: te.maximum(v, const(0, v.dtype)), "max(x, 0).")
softplus = _unary("softplus", _softplus, "log(1 + exp(x)).")
softsign = _unary("softsign", lambda v: v / (te.abs(v) + 1.0), "x / (1 + |x|).")
silu = _unary("silu", lambda v: v * call("sigmoid", v), "x * sigmoid(x).")
mish = _unary("mish", _mish, "x * tanh(softplus(x)).")
hard_swish = _unary(
    "hard_swish",
    lambda v: v * _unit(v * const(Fraction(1, 6), v.dtype) + 0.5),
    "x * clip(x / 6 + 1/2, 0, 1).",
)


def cast(x: Tensor, *, dtype: str) -> Tensor:
    """x converted as C does; a float that becomes a bool is `!= 0`."""
    kind = DType(dtype)
    return elementwise(x, lambda v: v.astype(kind), "cast")


def reinterpret(x: Tensor, *, dtype: str) -> Tensor:
    """The same bits as another dtype of the same width."""
    kind = DType(dtype)
    if kind.bits != x.dtype.bits:
        raise TypeMismatch(f"reinterpret: {x.dtype} and {kind} differ in width")
    return elementwise(x, lambda v: v if kind == v.dtype else op.reinterpret(kind, v), "reinterpret")


def dropout(x: Tensor, *, rate: float = 0.5) -> Tensor:  # noqa: ARG001 (an attribute of the operator)
    """x itself: at inference nothing is dropped."""
    return elementwise(x, lambda v: v, "dropout")


def clip(x: Tensor, *, a_min: float | None = None, a_max: float | None = None) -> Tensor:
    """min(max(x, a_min), a_max); None is no limit."""

    def limit(v: Expr) -> Expr:
        low = v if a_min is None else te.maximum(v, const(a_min, v.dtype))
        return low if a_max is None else te.minimum(low, const(a_max, v.dtype))

    return elementwise(x, limit, "clip")


def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x where it is positive, else alpha * x."""
    return elementwise(x, lambda v: te.select(v > const(0, v.dtype), v, v * const(alpha, v.dtype)), "leaky_relu")


def prelu(x: Tensor, alpha: Tensor, *, axis: int = 1) -> Tensor:
    """x where it is positive, else alpha * x, with one alpha per channel along `axis`."""
    if alpha.ndim != 1:
        raise InputError(f"prelu: alpha has one dimension, found {alpha.ndim}")
    at = axis_of(axis, x.ndim)
    if not agree(dims(alpha)[0], dims(x)[at]):
        raise TypeMismatch(f"prelu: wanted an alpha for each of {dims(x)[at]} entries of axis {at}, found {alpha}")
    zero = const(0, x.dtype)
    return te.compute(x.shape, lambda *i: te.select(x[i] > zero, x[i], x[i] * alpha[i[at]]), name="T_prelu")


def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is above alpha, else 0."""
    zero = const(0, x.dtype)
    return elementwise(x, lambda v: te.select(v > const(alpha, v.dtype), v, zero), "thresholded_relu")


def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1)."""

    def function(v: Expr) -> Expr:
        return te.select(v > const(0, v.dtype), v, (te.exp(v) - 1.0) * const(alpha, v.dtype))

    return elementwise(x, function, "elu")


def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """gamma * (x where it is positive, else alpha * (exp(x) - 1))."""

    def function(v: Expr) -> Expr:
        scaled = te.exp(v) * const(alpha, v.dtype) - const(alpha, v.dtype)
        return const(gamma, v.dtype) * te.select(v > const(0, v.dtype), v, scaled)

    return elementwise(x, function, "selu")


def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""

    def function(v: Expr) -> Expr:
        zero, a = const(0, v.dtype), const(alpha, v.dtype)
        return te.maximum(v, zero) + te.minimum(zero, a * (te.exp(v / a) - 1.0))

    return elementwise(x, function, "celu")


def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """clip(alpha * x + beta, 0, 1)."""

    def function(v: Expr) -> Expr:
        line = v * const(alpha, v.dtype) + const(beta, v.dtype)
        return te.maximum(const(0, v.dtype), te.minimum(const(1, v.dtype), line))

    return elementwise(x, function, "hard_sigmoid")


def shrink(x: Tensor, *, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between."""

    def function(v: Expr) -> Expr:
        b, limit, zero = const(bias, v.dtype), const(lambd, v.dtype), const(0, v.dtype)
        return te.select(v < const(-lambd, v.dtype), v + b, te.select(v > limit, v - b, zero))

    return elementwise(x, function, "shrink")


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; `approximate="tanh"` is its usual approximation."""
    if approximate not in ("none", "tanh"):
        raise InputError(f'gelu: approximate is "none" or "tanh", found {approximate!r}')

    def exact(v: Expr) -> Expr:
        return v * 0.5 * (te.erf(v * const(math.sqrt(0.5), v.dtype)) + 1.0)

    def by_tanh(v: Expr) -> Expr:
        inner = const(math.sqrt(2 / math.pi), v.dtype) * (v + v * v * v * const(0.044715, v.dtype))
        return v * 0.5 * (te.tanh(inner) + 1.0)

    return elementwise(x, exact if approximate == "none" else by_tanh, "gelu")
