"""Fold constants and neutral elements in all dtypes, but only where every value stays the same, bit for bit.

Integers other than int32 and int64 wrap, so here `x + 1 - 1` stays; floats keep NaN, infinities and the sign of zero:
`x * 0.0` stays, and so does `x + 0.0` (it turns -0.0 into 0.0), while `x - 0.0` is x. Rational constants are not
folded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .. import expr as ex


def arithmetic(e: ex.Expr) -> ex.Expr:
    """Fold one operation of any dtype. Its operands must already be simplified."""
    if e.dtype.lanes > 1:
        return e
    a, b = e.a, e.b  # type: ignore[attr-defined]
    if isinstance(a, ex.IntImm) and isinstance(b, ex.IntImm):
        return _fold_int(e, a.value, b.value)
    if isinstance(a, ex.FloatImm) and isinstance(b, ex.FloatImm):
        return _fold_float(e, a, b)
    return _neutral_float(e, a, b) if e.dtype.is_float else _neutral_int(e, a, b)


_BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip


def bits(e: ex.Expr) -> ex.Expr:
    """Fold a bitwise operation on two constants; return any other expression unchanged."""
    if not isinstance(e, ex.Call) or e.op not in _BITS or not all(isinstance(a, ex.IntImm) for a in e.args):
        return e
    a, b = (arg.value for arg in e.args)  # type: ignore[attr-defined]
    return ex.IntImm(wrap(_BITS[e.op](a, b), e.dtype), e.dtype)


def wrap(value: int, dtype: ex.DType) -> int:
    """Wrap an integer into the range of a dtype, as hardware does."""
    if dtype.is_bool:
        return int(value != 0)
    low, high = int(dtype.min), int(dtype.max)
    return (value - low) % (high - low + 1) + low


def _fold_int(e: ex.Expr, a: int, b: int) -> ex.Expr:
    if isinstance(e, ex.Div | ex.Mod | ex.FloorDiv | ex.FloorMod) and b == 0:
        return e
    if e.dtype.is_bool:
        return e
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    table: dict[type, Any] = {
        ex.Add: lambda: a + b, ex.Sub: lambda: a - b, ex.Mul: lambda: a * b, ex.FloorDiv: lambda: a // b,
        ex.FloorMod: lambda: a % b,
        ex.Div: lambda: quotient, ex.Mod: lambda: a - b * quotient, ex.Min: lambda: min(a, b), ex.Max: lambda: max(a,
        b),
    }  # fmt: skip
    return ex.IntImm(wrap(table[type(e)](), e.dtype), e.dtype)


def _fold_float(e: ex.Expr, a: ex.FloatImm, b: ex.FloatImm) -> ex.Expr:
    if isinstance(a.value, Fraction) or isinstance(b.value, Fraction):
        return e
    scalar = e.dtype.numpy.type
    x, y = scalar(a.value), scalar(b.value)
    with np.errstate(all="ignore"):
        if isinstance(e, ex.Add):
            value = x + y
        elif isinstance(e, ex.Sub):
            value = x - y
        elif isinstance(e, ex.Mul):
            value = x * y
        elif isinstance(e, ex.Div):
            value = x / y
        elif isinstance(e, ex.Min | ex.Max) and x != y:
            value = np.minimum(x, y) if isinstance(e, ex.Min) else np.maximum(x, y)
        else:
            return e
    return ex.FloatImm(float(value), e.dtype)


def _is(e: ex.Expr, value: float) -> bool:
    """Return whether an expression is exactly the constant `value`; 0.0 and -0.0 differ."""
    if not isinstance(e, ex.FloatImm) or isinstance(e.value, Fraction):
        return False
    return e.value == value and np.signbit(e.value) == np.signbit(value)


def _neutral_float(e: ex.Expr, a: ex.Expr, b: ex.Expr) -> ex.Expr:
    if isinstance(e, ex.Add) and _is(b, -0.0):
        return a
    if isinstance(e, ex.Add) and _is(a, -0.0):
        return b
    if isinstance(e, ex.Sub) and _is(b, 0.0):
        return a
    if isinstance(e, ex.Mul | ex.Div) and _is(b, 1.0):
        return a
    if isinstance(e, ex.Mul) and _is(a, 1.0):
        return b
    return e


def _neutral_int(e: ex.Expr, a: ex.Expr, b: ex.Expr) -> ex.Expr:
    x = a.value if isinstance(a, ex.IntImm) else None
    y = b.value if isinstance(b, ex.IntImm) else None
    if e.dtype.is_bool:
        return e
    if isinstance(e, ex.Add | ex.Sub) and y == 0:
        return a
    if isinstance(e, ex.Add) and x == 0:
        return b
    if isinstance(e, ex.Mul):
        if x == 1 or y == 0:
            return b
        if y == 1 or x == 0:
            return a
    if isinstance(e, ex.FloorDiv | ex.Div) and y == 1:
        return a
    if isinstance(e, ex.FloorMod | ex.Mod) and y == 1:
        return ex.IntImm(0, e.dtype)
    return e


def compare(e: ex.Expr) -> ex.Expr:
    """Fold a comparison of two constants to true or false; return any other comparison unchanged."""
    a, b = e.a, e.b  # type: ignore[attr-defined]
    if not isinstance(a, ex.IntImm | ex.FloatImm) or not isinstance(b, ex.IntImm | ex.FloatImm):
        return e
    scalar = a.dtype.numpy.type
    if isinstance(a.value, Fraction) or isinstance(b.value, Fraction):
        return e
    x, y = scalar(a.value), scalar(b.value)
    table: dict[type, Any] = {ex.EQ: x == y, ex.NE: x != y, ex.LT: x < y, ex.LE: x <= y, ex.GT: x > y, ex.GE: x >= y}
    return ex.const(bool(table[type(e)]))


def cast(e: ex.Expr) -> ex.Expr:
    """Fold the conversion of a constant, and drop a conversion to the dtype that the value already has."""
    assert isinstance(e, ex.Cast)
    value = e.value
    if value.dtype == e.dtype:
        return value
    if e.dtype.lanes > 1:
        return e
    if isinstance(value, ex.IntImm) and (e.dtype.is_int or e.dtype.is_bool):
        return ex.IntImm(wrap(value.value, e.dtype), e.dtype)
    if isinstance(value, ex.IntImm) and e.dtype.is_float:
        return ex.FloatImm(float(e.dtype.numpy.type(value.value)), e.dtype)
    if isinstance(value, ex.FloatImm) and e.dtype.is_float and not isinstance(value.value, Fraction):
        with np.errstate(all="ignore"):
            return ex.FloatImm(float(e.dtype.numpy.type(value.dtype.numpy.type(value.value))), e.dtype)
    return e
