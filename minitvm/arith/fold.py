"""Folding of constants and neutral elements in all dtypes: only what keeps every value, bit for bit.

Integers other than int32 and int64 wrap, so here `x + 1 - 1` stays; floats keep NaN, infinities and the sign of zero:
`x * 0.0` stays, and so does `x + 0.0` (it turns -0.0 into 0.0), while `x - 0.0` is x. Rational constants stay.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Call,
    Cast,
    Div,
    DType,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    const,
)


def arithmetic(e: Expr) -> Expr:
    """One operation of any dtype with its operands simplified already."""
    if e.dtype.lanes > 1:
        return e
    a, b = e.a, e.b  # type: ignore[attr-defined]
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _fold_int(e, a.value, b.value)
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return _fold_float(e, a, b)
    return _neutral_float(e, a, b) if e.dtype.is_float else _neutral_int(e, a, b)


_BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip


def bits(e: Expr) -> Expr:
    """A bitwise operation on two constants; everything else stays. Python's integers are in two's complement, too."""
    if not isinstance(e, Call) or e.op not in _BITS or not all(isinstance(a, IntImm) for a in e.args):
        return e
    a, b = (arg.value for arg in e.args)  # type: ignore[attr-defined]
    return IntImm(wrap(_BITS[e.op](a, b), e.dtype), e.dtype)


def wrap(value: int, dtype: DType) -> int:
    """An integer brought into a dtype's range as hardware does."""
    if dtype.is_bool:
        return int(value != 0)
    low, high = int(dtype.min), int(dtype.max)
    return (value - low) % (high - low + 1) + low


def _fold_int(e: Expr, a: int, b: int) -> Expr:
    if isinstance(e, Div | Mod | FloorDiv | FloorMod) and b == 0:
        return e
    if e.dtype.is_bool:
        return e
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    table: dict[type, Any] = {
        Add: lambda: a + b, Sub: lambda: a - b, Mul: lambda: a * b, FloorDiv: lambda: a // b, FloorMod: lambda: a % b,
        Div: lambda: quotient, Mod: lambda: a - b * quotient, Min: lambda: min(a, b), Max: lambda: max(a, b),
    }  # fmt: skip
    return IntImm(wrap(table[type(e)](), e.dtype), e.dtype)


def _fold_float(e: Expr, a: FloatImm, b: FloatImm) -> Expr:
    if isinstance(a.value, Fraction) or isinstance(b.value, Fraction):
        return e
    scalar = e.dtype.numpy.type
    x, y = scalar(a.value), scalar(b.value)
    with np.errstate(all="ignore"):
        if isinstance(e, Add):
            value = x + y
        elif isinstance(e, Sub):
            value = x - y
        elif isinstance(e, Mul):
            value = x * y
        elif isinstance(e, Div):
            value = x / y
        elif isinstance(e, Min | Max) and x != y:
            value = np.minimum(x, y) if isinstance(e, Min) else np.maximum(x, y)
        else:
            return e
    return FloatImm(float(value), e.dtype)


def _is(e: Expr, value: float) -> bool:
    """A constant of exactly that value, the sign of zero included."""
    if not isinstance(e, FloatImm) or isinstance(e.value, Fraction):
        return False
    return e.value == value and np.signbit(e.value) == np.signbit(value)


def _neutral_float(e: Expr, a: Expr, b: Expr) -> Expr:
    if isinstance(e, Add) and _is(b, -0.0):
        return a
    if isinstance(e, Add) and _is(a, -0.0):
        return b
    if isinstance(e, Sub) and _is(b, 0.0):
        return a
    if isinstance(e, Mul | Div) and _is(b, 1.0):
        return a
    if isinstance(e, Mul) and _is(a, 1.0):
        return b
    return e


def _neutral_int(e: Expr, a: Expr, b: Expr) -> Expr:
    x = a.value if isinstance(a, IntImm) else None
    y = b.value if isinstance(b, IntImm) else None
    if e.dtype.is_bool:
        return e
    if isinstance(e, Add | Sub) and y == 0:
        return a
    if isinstance(e, Add) and x == 0:
        return b
    if isinstance(e, Mul):
        if x == 1 or y == 0:
            return b
        if y == 1 or x == 0:
            return a
    if isinstance(e, FloorDiv | Div) and y == 1:
        return a
    if isinstance(e, FloorMod | Mod) and y == 1:
        return IntImm(0, e.dtype)
    return e


def compare(e: Expr) -> Expr:
    """Fold a comparison of two constants to true or false; any other comparison is returned unchanged."""
    a, b = e.a, e.b  # type: ignore[attr-defined]
    if not isinstance(a, IntImm | FloatImm) or not isinstance(b, IntImm | FloatImm):
        return e
    scalar = a.dtype.numpy.type
    if isinstance(a.value, Fraction) or isinstance(b.value, Fraction):
        return e
    x, y = scalar(a.value), scalar(b.value)
    table: dict[type, Any] = {EQ: x == y, NE: x != y, LT: x < y, LE: x <= y, GT: x > y, GE: x >= y}
    return const(bool(table[type(e)]))


def cast(e: Expr) -> Expr:
    """A conversion of a constant; one to the dtype that the value has already goes away."""
    assert isinstance(e, Cast)
    value = e.value
    if value.dtype == e.dtype:
        return value
    if e.dtype.lanes > 1:
        return e
    if isinstance(value, IntImm) and (e.dtype.is_int or e.dtype.is_bool):
        return IntImm(wrap(value.value, e.dtype), e.dtype)
    if isinstance(value, IntImm) and e.dtype.is_float:
        return FloatImm(float(e.dtype.numpy.type(value.value)), e.dtype)
    if isinstance(value, FloatImm) and e.dtype.is_float and not isinstance(value.value, Fraction):
        with np.errstate(all="ignore"):
            return FloatImm(float(e.dtype.numpy.type(value.dtype.numpy.type(value.value))), e.dtype)
    return e
