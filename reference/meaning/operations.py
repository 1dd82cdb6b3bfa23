"""The meaning of the binary operators and conversions: once on single values, once on arrays.

A single integer is a Python `int` reduced to the range of its dtype after every operation (the same as NumPy scalars,
without their warnings). A single bool is a Python bool. A single float is a NumPy scalar of the declared dtype, never a
Python float. Arrays have the declared dtype. Both forms give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr import DType

Value = Any
Operation = Callable[[Value, Value], Value]


def wrapping(dtype: DType) -> Callable[[int], int]:
    """Return a function that reduces an integer to the range of a dtype, like overflow in two's complement."""
    modulus, low, high = 1 << dtype.bits, int(dtype.min), int(dtype.max)
    if dtype.kind == "uint":
        return lambda v: v & (modulus - 1)
    return lambda v: v if low <= v <= high else ((v - low) & (modulus - 1)) + low


def constant(e: x.IntImm | x.FloatImm) -> Value:
    """Return the value of a constant; a rational is rounded once, to nearest."""
    if isinstance(e, x.IntImm):
        return bool(e.value) if e.dtype.is_bool else e.value
    kind: Any = e.dtype.numpy.type
    with np.errstate(all="ignore"):
        return _nearest(e.value, kind) if isinstance(e.value, Fraction) else kind(e.value)


def _nearest(value: Fraction, kind: Any) -> Any:
    try:
        guess = kind(float(value))
    except OverflowError:
        return kind("inf") if value > 0 else kind("-inf")
    if not np.isfinite(guess):
        return guess
    around = [v for v in (np.nextafter(guess, kind("-inf")), guess, np.nextafter(guess, kind("inf"))) if np.isfinite(v)]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - value), int(v.view(f"u{v.itemsize}")) & 1))


# --- single values ------------------------------------------------------------------------------------------------


def _divisor_zero(a: Value, b: Value) -> ExecutionError:
    return ExecutionError(f"integer division of {a} by zero")


def _truncated(a: int, b: int) -> int:
    if b == 0:
        raise _divisor_zero(a, b)
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _floored(a: int, b: int) -> int:
    if b == 0:
        raise _divisor_zero(a, b)
    return a // b


def _least(a: Value, b: Value) -> Value:
    return a if a < b or a != a else b


def _most(a: Value, b: Value) -> Value:
    return a if a > b or a != a else b


_COMPARE: dict[type, Operation] = {
    x.EQ: lambda a, b: a == b, x.NE: lambda a, b: a != b, x.LT: lambda a, b: a < b,
    x.LE: lambda a, b: a <= b, x.GT: lambda a, b: a > b, x.GE: lambda a, b: a >= b,
}  # fmt: skip
_INTEGER: dict[type, Operation] = {
    x.Add: lambda a, b: a + b,
    x.Sub: lambda a, b: a - b,
    x.Mul: lambda a, b: a * b,
    x.Div: _truncated,
    x.Mod: lambda a, b: a - b * _truncated(a, b),
    x.FloorDiv: _floored,
    x.FloorMod: lambda a, b: a - b * _floored(a, b),
    x.Min: _least,
    x.Max: _most,
}
_FLOAT: dict[type, Operation] = {
    x.Add: lambda a, b: a + b,
    x.Sub: lambda a, b: a - b,
    x.Mul: lambda a, b: a * b,
    x.Div: lambda a, b: a / b,
    x.Mod: np.fmod,
    x.FloorDiv: lambda a, b: np.floor(a / b),
    x.FloorMod: np.remainder,
    x.Min: _least,
    x.Max: _most,
}
_NEVER_OVERFLOWS = (x.Min, x.Max, x.Mod, x.FloorMod)


def on_values(kind: type, dtype: DType) -> Operation:
    """Return the function that applies a binary operator to two single values of `dtype`."""
    if kind in _COMPARE:
        return _COMPARE[kind]
    if dtype.is_float and kind in _FLOAT:
        return _FLOAT[kind]
    if dtype.is_bool and kind in (x.Min, x.Max):
        return _INTEGER[kind]
    if dtype.is_int and kind in _INTEGER:
        exact = _INTEGER[kind]
        if kind in _NEVER_OVERFLOWS:
            return exact
        wrap = wrapping(dtype)
        return lambda a, b: wrap(exact(a, b))
    raise Unsupported(f"the reference interpreter has no meaning for {kind.__name__} on {dtype}")


# --- arrays -------------------------------------------------------------------------------------------------------


def _array_divisor(b: Value, needed: Any) -> Value:
    """Return the divisor with 1 at points that do not matter; raise an error if it is zero at a point that does."""
    zero = np.asarray(b == 0)
    if not zero.any():
        return b
    if needed is None or (zero & needed).any():
        raise ExecutionError("integer division by zero")
    return np.where(zero, np.asarray(1, np.asarray(b).dtype), b)


def _array_truncated(a: Value, b: Value) -> Value:
    quotient = np.floor_divide(a, b)
    inexact = (a - quotient * b != 0) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(quotient.dtype)


_ARRAY_INTEGER: dict[type, Operation] = {
    x.Add: np.add,
    x.Sub: np.subtract,
    x.Mul: np.multiply,
    x.Div: _array_truncated,
    x.Mod: np.fmod,
    x.FloorDiv: np.floor_divide,
    x.FloorMod: np.remainder,
    x.Min: np.minimum,
    x.Max: np.maximum,
}
_ARRAY_FLOAT: dict[type, Operation] = {
    x.Add: np.add,
    x.Sub: np.subtract,
    x.Mul: np.multiply,
    x.Div: np.divide,
    x.Mod: np.fmod,
    x.FloorDiv: lambda a, b: np.floor(np.divide(a, b)),
    x.FloorMod: np.remainder,
    # Spelled out: NumPy's own minimum leaves open which of two zeros it gives.
    x.Min: lambda a, b: np.where((a < b) | (a != a), a, b),
    x.Max: lambda a, b: np.where((a > b) | (a != a), a, b),
}
_DIVISIONS = (x.Div, x.Mod, x.FloorDiv, x.FloorMod)


def on_arrays(kind: type, dtype: DType) -> Callable[[Value, Value, Any], Value]:
    """Return the function (a, b, needed) that applies a binary operator to arrays; `needed` is a mask of points or
    None.

    An operand may be a single value; then it has the same dtype.
    """
    if kind in _COMPARE:
        compare = _COMPARE[kind]
        return lambda a, b, needed: compare(a, b)
    if dtype.is_float and kind in _ARRAY_FLOAT:
        function = _ARRAY_FLOAT[kind]
        return lambda a, b, needed: function(a, b)
    if dtype.is_bool and kind in (x.Min, x.Max):
        both = np.logical_and if kind is x.Min else np.logical_or
        return lambda a, b, needed: both(a, b)
    if dtype.is_int and kind in _ARRAY_INTEGER:
        integer, numpy = _ARRAY_INTEGER[kind], dtype.numpy
        if kind not in _DIVISIONS:
            return lambda a, b, needed: integer(a, b)

        def divide(a: Value, b: Value, needed: Any) -> Value:
            # A single operand gets the dtype here, so that a quotient of two has that dtype, too.
            return integer(np.asarray(a, numpy), np.asarray(_array_divisor(b, needed), numpy))

        return divide
    raise Unsupported(f"the reference interpreter has no meaning for {kind.__name__} on {dtype}")


# --- conversions --------------------------------------------------------------------------------------------------


def cast_value(source: DType, target: DType) -> Callable[[Value], Value]:
    """Return C's conversion of a single value.

    A float is truncated. If the result is outside of the target's range (as for NaN and infinities), the cast is
    undefined and raises `ExecutionError`.
    """
    if target.is_bool:
        return lambda v: bool(v != 0)
    if target.is_float:
        numpy = target.numpy
        if source.is_float:
            return lambda v: v.astype(numpy)
        inner = source.numpy
        if target.bits == 16:  # NumPy goes through float32 and would round twice
            return lambda v: inner.type(v).astype(np.float64).astype(numpy)
        return lambda v: inner.type(v).astype(numpy)
    if not target.is_int:
        raise Unsupported(f"the reference interpreter has no meaning for a cast to {target}")
    wrap = wrapping(target)
    if not source.is_float:
        return lambda v: wrap(int(v))
    low, high = int(target.min), int(target.max)

    def truncate(v: Value) -> Value:
        wide = float(v)  # exact; the dtypes of `ml_dtypes` become integers by way of int64, and wrap there
        if not math.isfinite(wide) or not low <= int(wide) <= high:
            raise ExecutionError(f"cast of {v} to {target} is undefined: out of its range")
        return int(wide)

    return truncate


def cast_array(source: DType, target: DType) -> Callable[[Value, Any], Value]:
    """Return C's conversion of an array, as a function (values, needed)."""
    numpy = target.numpy
    if target.is_bool:
        return lambda v, needed: v != 0
    if target.is_float and target.bits == 16 and not source.is_float:
        return lambda v, needed: v.astype(np.float64).astype(numpy)
    if not (source.is_float and target.is_int):
        return lambda v, needed: v.astype(numpy)
    # Both bounds are exact in float64, which holds every float16 and float32 value too.
    low, high = float(target.min) - 1.0, float(int(target.max) + 1)
    closed = target.bits == 64 and target.kind == "int"

    def truncate(v: Value, needed: Any) -> Value:
        wide = v.astype(np.float64)
        inside = (wide >= low if closed else wide > low) & (wide < high)
        wrong = ~inside if needed is None else ~inside & needed
        if wrong.any():
            first = np.broadcast_to(v, wrong.shape)[wrong].flat[0]
            raise ExecutionError(f"cast of {first} to {target} is undefined: out of its range")
        return np.where(inside, wide, 0).astype(numpy)

    return truncate
