"""The meaning of every intrinsic of `expr/intrin.py`, on NumPy scalars and arrays alike.

A transcendental function is evaluated in NumPy's `longdouble` and rounded once to the declared dtype. This is accurate
and also reproducible: NumPy's float32 and float64 loops give different last bits for different strides. Roundings, sign
manipulations, `sqrt` and `fma` are exact or correctly rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr import DType

Value = Any  # a NumPy scalar or array of the declared dtype; Python int or bool for a single integer
_WIDE = np.longdouble


def meaning(op: str, dtype: DType, arg: DType) -> Callable[..., Value]:
    """Return the function that computes an intrinsic from its evaluated arguments; `arg` is the dtype of the first."""
    if op in _WIDENED and arg.is_float:
        return _widened(_WIDENED[op], arg)
    if op in _NATIVE_FLOAT and arg.is_float:
        return _NATIVE_FLOAT[op]
    if op == "fma" and arg.is_float:
        return _fma_wide if arg.bits == 64 else functools.partial(_fma_narrow, numpy=arg.numpy)
    if op in _INTEGER and (arg.is_int or arg.is_bool):
        function, numpy = _INTEGER[op], arg.numpy
        return lambda *args: as_value(function(*[np.asarray(a, numpy) for a in args]), dtype)
    if op == "dot2_bf16":
        return dot2_bf16
    if op == "likely":
        return lambda a: a
    if op == "reinterpret":
        return _reinterpret(dtype, arg)
    raise Unsupported(f"the reference interpreter has no meaning for {op} on {arg}")


def as_value(result: Any, dtype: DType) -> Value:
    """Return an array unchanged, a single integer or bool as a Python value, and a single float as a NumPy scalar."""
    if not hasattr(result, "ndim") or result.ndim:
        return result
    return result[()] if dtype.is_float else result.item()


def _widened(function: Callable[..., Any], dtype: DType) -> Callable[..., Value]:
    numpy = dtype.numpy

    def evaluate(*args: Value) -> Value:
        return function(*(np.asarray(a).astype(_WIDE) for a in args)).astype(numpy)[()]

    return evaluate


def _erf(x: Any) -> Any:
    # NumPy has no erf; C's has less than one unit in the last place of float64.
    return np.asarray(np.frompyfunc(lambda v: math.erf(float(v)), 1, 1)(x)).astype(_WIDE)


def _round_half_away(x: Any) -> Any:
    # Exact: longdouble holds x + 1/2 for every float64 x that has a fraction.
    return np.copysign(np.floor(np.abs(x) + _WIDE(0.5)), x)


_WIDENED: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "hypot": np.hypot,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp10": lambda x: np.power(_WIDE(10), x),
    "pow": np.power,
    "rsqrt": lambda x: _WIDE(1) / np.sqrt(x),
    "sigmoid": lambda x: _WIDE(1) / (_WIDE(1) + np.exp(-x)),
    "erf": _erf,
    "round": _round_half_away,
}  # fmt: skip


def round_tf32(a: Any) -> Any:
    """Round a float32 to 10 bits of mantissa, ties away from zero, with integer arithmetic on its bits."""
    bits = np.asarray(a, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(a), rounded, a)[()]


_NATIVE_FLOAT: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint, "abs": np.abs,
    "copysign": np.copysign, "fmod": np.fmod, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "round_tf32": round_tf32,
}  # fmt: skip


def _shift(a: Any, b: Any, left: bool) -> Any:
    width = a.dtype.itemsize * 8
    if np.any(b < 0):
        raise ExecutionError(f"a shift by {np.min(b)}: the amount must not be negative")
    far = b >= width
    amount = np.where(far, 0, b).astype(a.dtype)
    if left:
        return np.where(far, np.zeros_like(a), np.left_shift(a, amount))
    return np.where(far, np.where(a < 0, -1, 0).astype(a.dtype), np.right_shift(a, amount))


def _q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Any:
    """Return x * 2**s * y / 2**q on int32, rounded to nearest with ties up; computed in int64, which wraps."""
    left, places = np.maximum(s, 0).astype(np.int64), q.astype(np.int64) + np.maximum(-s.astype(np.int64), 0)
    if np.any((places < 1) | (places > 63) | (left > 63)):
        raise ExecutionError("q_multiply_shift: a shift by less than 1 or more than 63 places")
    product = (x.astype(np.int64) << left) * y.astype(np.int64)
    return ((product + (np.int64(1) << (places - 1))) >> places).astype(np.int32)


def _dot4_u8i8(a: Any, b: Any) -> Any:
    """Return the dot product of the four bytes of int32 words, unsigned in a and signed in b. It never overflows."""
    left, right = (np.asarray(x, np.int32, order="C")[..., None].view(dtype) for x, dtype in ((a, "u1"), (b, "i1")))
    return np.sum(left.astype(np.int32) * right.astype(np.int32), axis=-1, dtype=np.int32)


_INTEGER: dict[str, Callable[..., Any]] = {
    "q_multiply_shift": _q_multiply_shift,
    "dot4_u8i8": _dot4_u8i8,
    "abs": np.abs,
    "shift_left": lambda a, b: _shift(a, b, True),
    "shift_right": lambda a, b: _shift(a, b, False),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "popcount": lambda a: np.bitwise_count(a.view(f"u{a.dtype.itemsize}")).astype(a.dtype),
    "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


def _fma_narrow(a: Value, b: Value, c: Value, numpy: Any) -> Value:
    """Return a * b + c rounded once, for float16 and float32.

    The product is exact in float64. The sum is first rounded to odd (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums", 2008), so that rounding it again gives the correct result.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    if not error.any():  # the sum is exact
        return total.astype(numpy)[()]
    total = np.asarray(total)
    nudge = np.isfinite(total) & np.isfinite(error) & (error != 0) & ((total.view(np.int64) & 1) == 0)
    toward = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(nudge, toward, total).astype(numpy)[()]


def halves_of_words(words: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the two bfloat16 of int32 words as float32, the low one first; subnormal numbers become zeros of their
    sign.
    """
    bits = np.asarray(words).astype(np.int32).view(np.uint32)
    return flushed((bits << np.uint32(16)).view(np.float32)), flushed((bits & np.uint32(0xFFFF0000)).view(np.float32))


def flushed(x: Any) -> np.ndarray:
    """Return float32 values in which subnormal numbers are replaced by zeros of their sign."""
    x = np.asarray(x, np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def dot2_bf16(acc: Value, a: Value, b: Value) -> Value:
    """Compute `vdpbf16ps` of AVX-512 BF16: acc + a[1] * b[1] rounded, then + a[0] * b[0] rounded, for words of two
    bfloat16.

    Each product is added with one rounding to nearest even. Subnormal operands and sums become zeros of their sign
    (Intel's Software Developer's Manual: DAZ and FTZ, whatever MXCSR says).
    """
    (a_low, a_high), (b_low, b_high) = halves_of_words(a), halves_of_words(b)
    with np.errstate(all="ignore"):
        high = flushed(_fma_narrow(a_high, b_high, flushed(acc), np.float32))
        return flushed(_fma_narrow(a_low, b_low, high, np.float32))[()]


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of a zero follows the ordinary rule
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_fma_each = np.frompyfunc(lambda a, b, c: _fma_exact(float(a), float(b), float(c)), 3, 1)


def _fma_wide(a: Value, b: Value, c: Value) -> Value:
    return np.asarray(_fma_each(a, b, c)).astype(np.float64)[()]


def _reinterpret(dtype: DType, arg: DType) -> Callable[[Value], Value]:
    if dtype.scalar.bytes != arg.scalar.bytes or dtype.lanes != arg.lanes:
        raise Unsupported(f"reinterpret from {arg} to {dtype}: the sizes differ")
    return lambda a: as_value(np.asarray(a, arg.numpy).view(dtype.numpy), dtype)


VECTOR_REDUCTIONS: dict[str, str] = {
    "vector_reduce_add": "add",
    "vector_reduce_mul": "mul",
    "vector_reduce_min": "min",
    "vector_reduce_max": "max",
}
