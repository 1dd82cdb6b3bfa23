"""Elementwise functions of several tensors, which broadcast as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

from .table import OPERATORS, operator, wide

_SAME: dict[str, Callable[..., Any]] = {
    "add": np.add, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "equal": np.equal, "floor_mod": np.mod, "greater": np.greater, "greater_equal": np.greater_equal,
    "left_shift": np.left_shift, "less": np.less, "less_equal": np.less_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "maximum": np.maximum, "minimum": np.minimum,
    "mod": np.fmod, "multiply": np.multiply, "not_equal": np.not_equal, "right_shift": np.right_shift,
    "subtract": np.subtract,
}  # fmt: skip
OPERATORS.update(_SAME)


@operator("divide")
def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the quotient; for integers it is rounded toward zero."""
    if is_floating(a.dtype):
        return a / b
    return np.asarray((a - np.fmod(a, b)) // b)


@operator("floor_divide")
def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.floor(a / b) if is_floating(a.dtype) else a // b


@operator("power")
def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if is_floating(a.dtype):
        return np.power(wide(a), wide(b)).astype(a.dtype)
    return np.rint(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)


@operator("atan2")
def atan2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.arctan2(wide(a), wide(b)).astype(a.dtype)


@operator("where")
def where(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(condition, a, b)


@operator("elementwise_sum")
def elementwise_sum(*data: np.ndarray) -> np.ndarray:
    total = data[0]
    for other in data[1:]:
        total = total + other
    return total


@operator("nn.bias_add")
def bias_add(data: np.ndarray, bias: np.ndarray, axis: int) -> np.ndarray:
    shape = [1] * data.ndim
    shape[axis] = -1
    return data + bias.reshape(shape)


@operator("broadcast_to")
def broadcast_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(x, shape).copy()


@operator("full")
def full(shape: tuple[int, ...], fill_value: float, dtype: str) -> np.ndarray:
    return np.full(shape, np.asarray(fill_value).astype(dtype))


@operator("arange")
def arange(start: float, stop: float, step: float, dtype: str) -> np.ndarray:
    return np.arange(start, stop, step).astype(dtype)
