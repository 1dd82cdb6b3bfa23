"""Evaluate integer and boolean expressions at many points at once with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import expr as ex

Points = Mapping[ex.Var, Any]  # a number, or an array with one value for each point


class NotAnIndex(Exception):
    """Raised if the value of an expression depends on memory."""


def _quotient(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ex.Add: lambda a, b: a + b,
    ex.Sub: lambda a, b: a - b,
    ex.Mul: lambda a, b: a * b,
    ex.Div: _quotient,
    ex.Mod: lambda a, b: a - b * _quotient(a, b),
    ex.FloorDiv: lambda a, b: a // b,
    ex.FloorMod: lambda a, b: a % b,
    ex.Min: np.minimum,
    ex.Max: np.maximum,
    ex.EQ: lambda a, b: a == b,
    ex.NE: lambda a, b: a != b,
    ex.LT: lambda a, b: a < b,
    ex.LE: lambda a, b: a <= b,
    ex.GT: lambda a, b: a > b,
    ex.GE: lambda a, b: a >= b,
    ex.And: np.logical_and,
    ex.Or: np.logical_or,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "likely": lambda a: a,
    "if_then_else": np.where,
    "abs": np.abs,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def values(x: ex.Expr, points: Points) -> Any:
    """Return the value of `x` at each point, as an array, or as a single number if it is the same at all points.

    Raises `NotAnIndex` for parts that are known only at run time: loads, floats, and variables without a value.
    """
    if isinstance(x, ex.IntImm):
        return x.value
    if isinstance(x, ex.Var):
        if x not in points:
            raise NotAnIndex(x.name)
        return points[x]
    if isinstance(x, ex.BinaryOp) and type(x) in _BINARY and not x.a.dtype.is_float:
        return _BINARY[type(x)](values(x.a, points), values(x.b, points))
    if isinstance(x, ex.Not):
        return np.logical_not(values(x.a, points))
    if isinstance(x, ex.Select):
        return np.where(*(values(part, points) for part in (x.condition, x.true_value, x.false_value)))
    if isinstance(x, ex.Cast) and not x.dtype.is_float:
        operand = values(x.value, points)
        # A narrower dtype wraps, and truth values must be converted to numbers before they are added.
        exact = x.dtype.bits >= x.value.dtype.bits and x.dtype.kind == x.value.dtype.kind
        return operand if exact else np.asarray(operand).astype(x.dtype.scalar.numpy)
    if isinstance(x, ex.Call) and x.op in _CALLS:
        return _CALLS[x.op](*(values(a, points) for a in x.args))
    raise NotAnIndex(str(x))
