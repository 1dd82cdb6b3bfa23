"""Element-wise and broadcasting operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import topi
from ...expr import DType
from ...expr.dtypes import is_floating
from ..registry import Pattern, register

E, B, I = Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.INJECTIVE


def _truncated_quotient(a: Any, b: Any) -> Any:
    if a.dtype == object:  # dimensions, which are not negative
        return a // b
    if is_floating(a.dtype):
        return np.divide(a, b)
    # Not by magnitudes: that of the least integer does not fit its dtype.
    inexact = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    return (a // b + inexact).astype(a.dtype)


def _clip(x: Any, a_min: Any, a_max: Any) -> Any:
    low = x if a_min is None else np.maximum(x, np.asarray(a_min, x.dtype))
    return low if a_max is None else np.minimum(low, np.asarray(a_max, x.dtype))


def _arange(start: Any, stop: Any, step: Any, dtype: str) -> Any:
    return np.arange(start, stop, step).astype(DType(dtype).numpy)


def _cast(x: Any, dtype: str) -> Any:
    return x if x.dtype == object else x.astype(DType(dtype).numpy)


# Relay's name, the te function, and the same in NumPy where shapes or weights are computed with it.
_UNARY: list[tuple[str, Callable[..., Any], Callable[..., Any] | None]] = [
    ("abs", topi.abs, np.abs),
    ("acos", topi.acos, None),
    ("acosh", topi.acosh, None),
    ("asin", topi.asin, None),
    ("asinh", topi.asinh, None),
    ("atan", topi.atan, None),
    ("atanh", topi.atanh, None),
    ("bitwise_not", topi.bitwise_not, np.invert),
    ("cast", topi.cast, _cast),
    ("ceil", topi.ceil, lambda x: np.ceil(x).astype(x.dtype)),
    ("clip", topi.clip, _clip),
    ("cos", topi.cos, None),
    ("cosh", topi.cosh, None),
    ("erf", topi.erf, None),
    ("exp", topi.exp, np.exp),
    ("floor", topi.floor, lambda x: np.floor(x).astype(x.dtype)),
    ("isfinite", topi.isfinite, None),
    ("isinf", topi.isinf, None),
    ("isnan", topi.isnan, None),
    ("log", topi.log, np.log),
    ("log10", topi.log10, None),
    ("log1p", topi.log1p, None),
    ("log2", topi.log2, None),
    ("logical_not", topi.logical_not, np.logical_not),
    ("negative", topi.negative, lambda x: -x),
    ("nn.celu", topi.celu, None),
    ("nn.elu", topi.elu, None),
    ("nn.gelu", topi.gelu, None),
    ("nn.hard_sigmoid", topi.hard_sigmoid, None),
    ("nn.hard_swish", topi.hard_swish, None),
    ("nn.leaky_relu", topi.leaky_relu, None),
    ("nn.mish", topi.mish, None),
    ("nn.relu", topi.relu, lambda x: np.maximum(x, np.zeros((), x.dtype))),
    ("nn.selu", topi.selu, None),
    ("nn.shrink", topi.shrink, None),
    ("nn.silu", topi.silu, None),
    ("nn.softplus", topi.softplus, None),
    ("nn.softsign", topi.softsign, None),
    ("nn.thresholded_relu", topi.thresholded_relu, None),
    ("reciprocal", topi.reciprocal, None),
    ("reinterpret", topi.reinterpret, lambda x, dtype: x.view(DType(dtype).numpy)),
    ("round", topi.round, lambda x: np.round(x).astype(x.dtype)),
    ("round_to_format", topi.round_to_format, None),
    ("rsqrt", topi.rsqrt, None),
    ("sigmoid", topi.sigmoid, None),
    ("sign", topi.sign, np.sign),
    ("sin", topi.sin, None),
    ("sinh", topi.sinh, None),
    ("sqrt", topi.sqrt, np.sqrt),
    ("tan", topi.tan, None),
    ("tanh", topi.tanh, None),
    ("trunc", topi.trunc, lambda x: np.trunc(x).astype(x.dtype)),
]
for _name, _te, _numpy in _UNARY:
    register(_name, pattern=E, fold=_numpy)(_te)
register("copy", pattern=E, fold=lambda x: x, view=True)(topi.identity)
register("nn.dropout", pattern=E, fold=lambda x, rate: x, view=True)(topi.dropout)


def _power(a: Any, b: Any) -> Any:
    """The power; for integers, the nearest integer to the power of floats, as `topi.power` computes it."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    return np.rint(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)


_BINARY: list[tuple[str, Callable[..., Any], Callable[..., Any] | None]] = [
    ("add", topi.add, np.add),
    ("atan2", topi.atan2, None),
    ("bitwise_and", topi.bitwise_and, np.bitwise_and),
    ("bitwise_or", topi.bitwise_or, np.bitwise_or),
    ("bitwise_xor", topi.bitwise_xor, np.bitwise_xor),
    ("divide", topi.divide, _truncated_quotient),
    ("elementwise_sum", topi.elementwise_sum, None),
    ("equal", topi.equal, np.equal),
    ("floor_divide", topi.floor_divide, np.floor_divide),
    ("floor_mod", topi.floor_mod, np.mod),
    ("greater", topi.greater, np.greater),
    ("greater_equal", topi.greater_equal, np.greater_equal),
    ("left_shift", topi.left_shift, None),
    ("less", topi.less, np.less),
    ("less_equal", topi.less_equal, np.less_equal),
    ("logical_and", topi.logical_and, np.logical_and),
    ("logical_or", topi.logical_or, np.logical_or),
    ("logical_xor", topi.logical_xor, np.logical_xor),
    ("maximum", topi.maximum, np.maximum),
    ("minimum", topi.minimum, np.minimum),
    ("mod", topi.mod, np.fmod),
    ("multiply", topi.multiply, np.multiply),
    ("nn.bias_add", topi.bias_add, None),
    ("nn.prelu", topi.prelu, None),
    ("not_equal", topi.not_equal, np.not_equal),
    ("power", topi.power, _power),
    ("right_shift", topi.right_shift, None),
    ("subtract", topi.subtract, np.subtract),
    ("where", topi.where, np.where),
]
for _name, _te, _numpy in _BINARY:
    register(_name, pattern=B, fold=_numpy)(_te)

register("broadcast_to", pattern=B, fold=lambda x, shape: np.broadcast_to(x, shape).copy())(topi.broadcast_to)
register("full", pattern=I, fold=lambda shape, fill_value, dtype: np.full(shape, fill_value, DType(dtype).numpy))(
    topi.full
)
register("arange", pattern=I, fold=_arange)(topi.arange)
