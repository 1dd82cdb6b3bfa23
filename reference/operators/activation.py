"""Elementwise functions of one tensor; float functions are computed in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

from .table import OPERATORS, operator, wide

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, in float64."""
    return np.asarray(_erf(x)).astype(np.float64)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), without intermediate overflow."""
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, power) / (1 + power)


def softplus(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(x))."""
    return np.logaddexp(0.0, x)


def _floating(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: np.ndarray, **attrs: Any) -> np.ndarray:
        return np.asarray(function(wide(x), **attrs)).astype(x.dtype)

    return apply


_FLOAT: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "erf": erf, "exp": np.exp, "log": np.log, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "nn.hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "nn.mish": lambda x: x * np.tanh(softplus(x)),
    "nn.silu": lambda x: x * sigmoid(x),
    "nn.softplus": softplus,
    "nn.softsign": lambda x: x / (1 + np.abs(x)),
    "nn.celu": lambda x, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "nn.elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "nn.hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "nn.leaky_relu": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "nn.selu": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
}  # fmt: skip
OPERATORS.update({name: _floating(function) for name, function in _FLOAT.items()})


@operator("abs")
def absolute(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


@operator("negative")
def negative(x: np.ndarray) -> np.ndarray:
    return np.negative(x)


@operator("sign")
def sign(x: np.ndarray) -> np.ndarray:
    return np.sign(x)


@operator("floor")
def floor(x: np.ndarray) -> np.ndarray:
    return np.floor(x) if is_floating(x.dtype) else x


@operator("ceil")
def ceil(x: np.ndarray) -> np.ndarray:
    return np.ceil(x) if is_floating(x.dtype) else x


@operator("trunc")
def trunc(x: np.ndarray) -> np.ndarray:
    return np.trunc(x) if is_floating(x.dtype) else x


@operator("round")
def round_half_to_even(x: np.ndarray) -> np.ndarray:
    return np.rint(x) if is_floating(x.dtype) else x


@operator("logical_not")
def logical_not(x: np.ndarray) -> np.ndarray:
    return np.logical_not(x)


@operator("bitwise_not")
def bitwise_not(x: np.ndarray) -> np.ndarray:
    return np.invert(x)


@operator("isnan")
def isnan(x: np.ndarray) -> np.ndarray:
    return np.isnan(x)


@operator("isinf")
def isinf(x: np.ndarray) -> np.ndarray:
    return np.isinf(x)


@operator("isfinite")
def isfinite(x: np.ndarray) -> np.ndarray:
    return np.isfinite(x)


@operator("copy")
def identity(x: np.ndarray) -> np.ndarray:
    return x


@operator("nn.dropout")
def dropout(x: np.ndarray, rate: float) -> np.ndarray:
    return x


@operator("cast")
def cast(x: np.ndarray, dtype: str) -> np.ndarray:
    """Convert as C does: floats are truncated toward zero, integers wrap."""
    return x.astype(dtype)


@operator("clip")
def clip(x: np.ndarray, a_min: float | None, a_max: float | None) -> np.ndarray:
    low = x if a_min is None else np.maximum(x, np.asarray(a_min).astype(x.dtype))
    return low if a_max is None else np.minimum(low, np.asarray(a_max).astype(x.dtype))


@operator("nn.relu")
def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.zeros((), x.dtype))


@operator("nn.gelu")
def gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    v = wide(x)
    if approximate == "tanh":
        result = 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    else:
        result = 0.5 * v * (1 + erf(v / math.sqrt(2)))
    return result.astype(x.dtype)


@operator("nn.shrink")
def shrink(x: np.ndarray, lambd: float, bias: float) -> np.ndarray:
    v = x.astype(np.float64)
    return np.where(v < -lambd, v + bias, np.where(v > lambd, v - bias, 0)).astype(x.dtype)


@operator("nn.thresholded_relu")
def thresholded_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > np.asarray(alpha, x.dtype), x, np.zeros((), x.dtype))


@operator("nn.prelu")
def prelu(x: np.ndarray, alpha: np.ndarray, axis: int) -> np.ndarray:
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.where(x > 0, x, x * alpha.reshape(shape))
