"""The values of integer and boolean expressions on many points at once, with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import expr as e

Points = Mapping[e.Var, Any]  # a number, or an array with one value a point


class NotAnIndex(Exception):
    """The expression's value depends on what is in memory."""


def _quotient(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: _quotient,
    e.Mod: lambda a, b: a - b * _quotient(a, b),
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.And: np.logical_and,
    e.Or: np.logical_or,
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


def values(x: e.Expr, points: Points) -> Any:
    """The value of `x` at each point: an array, or one number where it is the same everywhere.

    Raises `NotAnIndex` for what only a run can tell: loads, floats, variables without a value.
    """
    if isinstance(x, e.IntImm):
        return x.value
    if isinstance(x, e.Var):
        if x not in points:
            raise NotAnIndex(x.name)
        return points[x]
    if isinstance(x, e.BinaryOp) and type(x) in _BINARY and not x.a.dtype.is_float:
        return _BINARY[type(x)](values(x.a, points), values(x.b, points))
    if isinstance(x, e.Not):
        return np.logical_not(values(x.a, points))
    if isinstance(x, e.Select):
        return np.where(*(values(part, points) for part in (x.condition, x.true_value, x.false_value)))
    if isinstance(x, e.Cast) and not x.dtype.is_float:
        operand = values(x.value, points)
        # A narrower one wraps, and truth values are added as numbers only when they are some.
        exact = x.dtype.bits >= x.value.dtype.bits and x.dtype.kind == x.value.dtype.kind
        return operand if exact else np.asarray(operand).astype(x.dtype.scalar.numpy)
    if isinstance(x, e.Call) and x.op in _CALLS:
        return _CALLS[x.op](*(values(a, points) for a in x.args))
    raise NotAnIndex(str(x))
