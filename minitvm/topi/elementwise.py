"""Element-wise functions of one tensor, including activations. Each keeps the shape and, unless stated, the dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import DType, Expr, Not, call, const
from ..te import Tensor
from ..tir import op
from .registry import Pattern, register
from .shapes import agree, axis_of, dims
from .spelling import Aten, Onnx

Unary = Callable[[Tensor], Tensor]


def elementwise(x: Tensor, function: Callable[[Expr], Any], name: str) -> Tensor:
    """Apply `function` to each element, and return the result."""
    return te.compute(x.shape, lambda *i: function(x[i]), name=f"T_{name}")


def _unary(name: str, function: Callable[[Expr], Any], doc: str, **declared: Any) -> Unary:
    """Declare an element-wise operator of one tensor. `function` computes one element, and `declared` holds further
    arguments of `register`.
    """
    own_name = name.rpartition(".")[2]

    def apply(x: Tensor) -> Tensor:
        return elementwise(x, function, own_name)

    apply.__name__ = apply.__qualname__ = own_name
    apply.__doc__ = doc
    return register(name, pattern=Pattern.ELEMENTWISE, **declared)(apply)


def _rounding(name: str, intrinsic: str, doc: str, rounded: Callable[[Any], Any], **declared: Any) -> Unary:
    # An integer is its own floor.
    def fold(x: Any) -> Any:
        return rounded(x).astype(x.dtype)

    return _unary(name, lambda v: call(intrinsic, v) if v.dtype.is_float else v, doc, fold=fold, **declared)


def _float_test(name: str, for_ints: bool, **declared: Any) -> Unary:
    def test(v: Expr) -> Expr:
        return call(name, v) if v.dtype.is_float else const(for_ints)

    return _unary(name, test, f"bool: `{name}` of each element.", aten=Aten(name, operands="own"), **declared)


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


exp = _unary("exp", te.exp, "e to the power of x.", onnx="Exp", aten="exp", fold=np.exp)
log = _unary("log", te.log, "Natural logarithm.", onnx="Log", aten="log", fold=np.log)
log2 = _unary("log2", te.log2, "Logarithm to base 2.", aten="log2")
log10 = _unary("log10", te.log10, "Logarithm to base 10.", aten="log10")
log1p = _unary("log1p", te.log1p, "log(1 + x).", aten="log1p")
sqrt = _unary("sqrt", te.sqrt, "Square root.", onnx="Sqrt", aten="sqrt", fold=np.sqrt)
rsqrt = _unary("rsqrt", lambda v: const(1, v.dtype) / call("sqrt", v), "1 / sqrt(x).", aten="rsqrt")
sin = _unary("sin", te.sin, "sin of x in radians.", onnx="Sin", aten="sin")
cos = _unary("cos", te.cos, "cos of x in radians.", onnx="Cos", aten="cos")
tan = _unary("tan", te.tan, "tan of x in radians.", onnx="Tan", aten="tan")
asin = _unary("asin", te.asin, "asin of x, in radians.", onnx="Asin", aten="asin")
acos = _unary("acos", te.acos, "acos of x, in radians.", onnx="Acos", aten="acos")
atan = _unary("atan", te.atan, "atan of x, in radians.", onnx="Atan", aten="atan")
sinh = _unary("sinh", te.sinh, "sinh of x.", onnx="Sinh", aten="sinh")
cosh = _unary("cosh", te.cosh, "cosh of x.", onnx="Cosh", aten="cosh")
tanh = _unary("tanh", te.tanh, "tanh of x.", onnx="Tanh", aten="tanh")
asinh = _unary("asinh", te.asinh, "asinh of x.", onnx="Asinh", aten="asinh")
acosh = _unary("acosh", te.acosh, "acosh of x.", onnx="Acosh", aten="acosh")
atanh = _unary("atanh", te.atanh, "atanh of x.", onnx="Atanh", aten="atanh")
sigmoid = _unary("sigmoid", te.sigmoid, "1 / (1 + exp(-x)).", onnx="Sigmoid", aten="sigmoid")
erf = _unary("erf", te.erf, "The error function.", onnx="Erf", aten="erf")
negative = _unary(
    "negative", lambda v: const(0, v.dtype) - v if v.dtype.is_int else v * const(-1, v.dtype), "-x.",
    onnx="Neg", aten="neg", fold=lambda x: -x,
)  # fmt: skip
abs = _unary("abs", lambda v: v if v.dtype.kind == "uint" else te.abs(v), "|x|.", onnx="Abs", aten="abs", fold=np.abs)
sign = _unary("sign", _sign, "-1, 0 or 1; NaN of NaN.", onnx="Sign", fold=np.sign)
floor = _rounding("floor", "floor", "The largest integer not above x.", np.floor, onnx="Floor", aten="floor")
ceil = _rounding("ceil", "ceil", "The smallest integer not below x.", np.ceil, onnx="Ceil", aten="ceil")
trunc = _rounding("trunc", "trunc", "x without its fraction.", np.trunc, aten="trunc")
round = _rounding("round", "nearbyint", "The nearest integer, halves to even.", np.round, onnx="Round", aten="round")
reciprocal = _unary("reciprocal", lambda v: const(1, v.dtype) / v, "1 / x.", onnx="Reciprocal", aten="reciprocal")
logical_not = _unary(
    "logical_not", lambda v: Not(v), "bool: not x.", onnx="Not", aten=Aten("logical_not", operands="bool"),
    fold=np.logical_not,
)  # fmt: skip
bitwise_not = _unary(
    "bitwise_not", lambda v: ~v, "All bits turned over.", onnx="BitwiseNot",
    aten=Aten("bitwise_not", of_bools="logical_not"), fold=np.invert,
)  # fmt: skip
isnan = _float_test("isnan", False, onnx="IsNaN")
isinf = _float_test("isinf", False, onnx="IsInf")
isfinite = _float_test("isfinite", True)
relu = _unary(
    "nn.relu", lambda v: te.maximum(v, const(0, v.dtype)), "max(x, 0).", onnx="Relu", aten="relu",
    fold=lambda x: np.maximum(x, np.zeros((), x.dtype)),
)  # fmt: skip
softplus = _unary("nn.softplus", _softplus, "log(1 + exp(x)).", onnx="Softplus")
softsign = _unary("nn.softsign", lambda v: v / (te.abs(v) + 1.0), "x / (1 + |x|).", onnx="Softsign")
silu = _unary("nn.silu", lambda v: v * call("sigmoid", v), "x * sigmoid(x).", aten="silu")
mish = _unary("nn.mish", _mish, "x * tanh(softplus(x)).", onnx="Mish", aten="mish")
hard_swish = _unary(
    "nn.hard_swish", lambda v: v * _unit(v * const(Fraction(1, 6), v.dtype) + 0.5), "x * clip(x / 6 + 1/2, 0, 1).",
    onnx="HardSwish", aten="hardswish",
)  # fmt: skip


@register("copy", pattern=Pattern.ELEMENTWISE, fold=lambda x: x, view=True, onnx="Identity")
def identity(x: Tensor) -> Tensor:
    """Return x unchanged."""
    return elementwise(x, lambda v: v, "identity")


def _fold_cast(x: Any, dtype: str) -> Any:
    return x if x.dtype == object else x.astype(DType(dtype).numpy)


@register("cast", pattern=Pattern.ELEMENTWISE, fold=_fold_cast)
def cast(x: Tensor, *, dtype: str) -> Tensor:
    """Return x converted as in C, except that a float becomes a bool by `!= 0`."""
    kind = DType(dtype)
    return elementwise(x, lambda v: v.astype(kind), "cast")


@register("reinterpret", pattern=Pattern.ELEMENTWISE, fold=lambda x, dtype: x.view(DType(dtype).numpy))
def reinterpret(x: Tensor, *, dtype: str) -> Tensor:
    """Return the bits of x, read as another dtype of the same width."""
    kind = DType(dtype)
    if kind.bits != x.dtype.bits:
        raise TypeMismatch(f"reinterpret: {x.dtype} and {kind} differ in width")
    return elementwise(x, lambda v: v if kind == v.dtype else op.reinterpret(kind, v), "reinterpret")


@register("nn.dropout", pattern=Pattern.ELEMENTWISE, fold=lambda x, rate: x, view=True)
def dropout(x: Tensor, *, rate: float = 0.5) -> Tensor:  # noqa: ARG001 (an attribute of the operator)
    """Return x unchanged, because nothing is dropped at inference."""
    return elementwise(x, lambda v: v, "dropout")


def _fold_clip(x: Any, a_min: Any, a_max: Any) -> Any:
    low = x if a_min is None else np.maximum(x, np.asarray(a_min, x.dtype))
    return low if a_max is None else np.minimum(low, np.asarray(a_max, x.dtype))


# In later opsets the limits are inputs.
@register(
    "clip", pattern=Pattern.ELEMENTWISE, fold=_fold_clip, onnx=Onnx("Clip", {"a_min": "min", "a_max": "max"}),
    aten=Aten("relu6", {"a_min": 0, "a_max": 6}),
)  # fmt: skip
def clip(x: Tensor, *, a_min: float | None = None, a_max: float | None = None) -> Tensor:
    """Return min(max(x, a_min), a_max). None means no limit."""

    def limit(v: Expr) -> Expr:
        low = v if a_min is None else te.maximum(v, const(a_min, v.dtype))
        return low if a_max is None else te.minimum(low, const(a_max, v.dtype))

    return elementwise(x, limit, "clip")


@register(
    "nn.leaky_relu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("LeakyRelu", {"alpha": "alpha"}),
    aten=Aten("leaky_relu", {"alpha": "negative_slope"}),
)  # fmt: skip
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Return x where it is positive, and alpha * x elsewhere."""
    return elementwise(x, lambda v: te.select(v > const(0, v.dtype), v, v * const(alpha, v.dtype)), "leaky_relu")


@register("nn.prelu", pattern=Pattern.BROADCAST)
def prelu(x: Tensor, alpha: Tensor, *, axis: int = 1) -> Tensor:
    """Return x where it is positive, and alpha * x elsewhere, with one alpha per channel along `axis`."""
    if alpha.ndim != 1:
        raise InputError(f"prelu: alpha has one dimension, found {alpha.ndim}")
    at = axis_of(axis, x.ndim)
    if not agree(dims(alpha)[0], dims(x)[at]):
        raise TypeMismatch(f"prelu: wanted an alpha for each of {dims(x)[at]} entries of axis {at}, found {alpha}")
    zero = const(0, x.dtype)
    return te.compute(x.shape, lambda *i: te.select(x[i] > zero, x[i], x[i] * alpha[i[at]]), name="T_prelu")


@register("nn.thresholded_relu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("ThresholdedRelu", {"alpha": "alpha"}))
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where it is above alpha, and 0 elsewhere."""
    zero = const(0, x.dtype)
    return elementwise(x, lambda v: te.select(v > const(alpha, v.dtype), v, zero), "thresholded_relu")


@register("nn.elu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("Elu", {"alpha": "alpha"}))
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, and alpha * (exp(x) - 1) elsewhere."""

    def function(v: Expr) -> Expr:
        return te.select(v > const(0, v.dtype), v, (te.exp(v) - 1.0) * const(alpha, v.dtype))

    return elementwise(x, function, "elu")


@register("nn.selu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("Selu", {"alpha": "alpha", "gamma": "gamma"}))
def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """Return gamma times x where it is positive, and gamma * alpha * (exp(x) - 1) elsewhere."""

    def function(v: Expr) -> Expr:
        scaled = te.exp(v) * const(alpha, v.dtype) - const(alpha, v.dtype)
        return const(gamma, v.dtype) * te.select(v > const(0, v.dtype), v, scaled)

    return elementwise(x, function, "selu")


@register("nn.celu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("Celu", {"alpha": "alpha"}))
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""

    def function(v: Expr) -> Expr:
        zero, a = const(0, v.dtype), const(alpha, v.dtype)
        return te.maximum(v, zero) + te.minimum(zero, a * (te.exp(v / a) - 1.0))

    return elementwise(x, function, "celu")


@register(
    "nn.hard_sigmoid", pattern=Pattern.ELEMENTWISE, onnx=Onnx("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    aten=Aten("hardsigmoid", {"alpha": 1 / 6, "beta": 0.5}),
)  # fmt: skip
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return clip(alpha * x + beta, 0, 1)."""

    def function(v: Expr) -> Expr:
        line = v * const(alpha, v.dtype) + const(beta, v.dtype)
        return te.maximum(const(0, v.dtype), te.minimum(const(1, v.dtype), line))

    return elementwise(x, function, "hard_sigmoid")


@register("nn.shrink", pattern=Pattern.ELEMENTWISE, onnx=Onnx("Shrink", {"lambd": "lambd", "bias": "bias"}))
def shrink(x: Tensor, *, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    """Return x + bias where x is below -lambd, x - bias where it is above lambd, and 0 elsewhere."""

    def function(v: Expr) -> Expr:
        b, limit, zero = const(bias, v.dtype), const(lambd, v.dtype), const(0, v.dtype)
        return te.select(v < const(-lambd, v.dtype), v + b, te.select(v > limit, v - b, zero))

    return elementwise(x, function, "shrink")


@register(
    "nn.gelu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("Gelu", {"approximate": "approximate"}),
    aten=Aten("gelu", {"approximate": "approximate"}),
)  # fmt: skip
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x times the cumulative normal distribution function of x. `approximate="tanh"` is the usual
    approximation.
    """
    if approximate not in ("none", "tanh"):
        raise InputError(f'gelu: approximate is "none" or "tanh", found {approximate!r}')

    def exact(v: Expr) -> Expr:
        return v * 0.5 * (te.erf(v * const(math.sqrt(0.5), v.dtype)) + 1.0)

    def by_tanh(v: Expr) -> Expr:
        inner = const(math.sqrt(2 / math.pi), v.dtype) * (v + v * v * v * const(0.044715, v.dtype))
        return v * 0.5 * (te.tanh(inner) + 1.0)

    return elementwise(x, exact if approximate == "none" else by_tanh, "gelu")
