"""Exact mode: find inputs on which float arithmetic makes no rounding errors, so that results can be compared with
`==`.

The inputs are random integers, so small that all intermediate results are integers below 2^24 in float32 (2^11 in
float16, 2^53 in float64). A run on absolute values shows how large intermediate results can become: subtractions become
additions, constants lose their signs, and both branches of data-dependent choices count. The bound of a sum holds for
any order and any fused multiply-adds. Integers wrap around, which does not depend on the order. A program with
fractional constants (1/6), divisions, roots or exponentials is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported
from minitvm.expr.dtypes import is_floating
from minitvm.tir import nodes as t

from ..fast.grid import GridCompiler
from ..fast.lockstep import LockstepCompiler
from ..kernel import LockstepKernels
from ..meaning.intrinsics import halves_of_words
from ..meaning.scalar import Evaluate, Execute, Value

EXACT_BELOW = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
MAGNITUDES = (16, 8, 4, 2, 1)  # tried in turn
_KEEP = ("abs", "floor", "ceil", "trunc", "round", "nearbyint", "likely", "copysign")


class Peaks:
    """Records the largest magnitude, as a fraction of the largest integer that its dtype holds exactly."""

    def __init__(self) -> None:
        self.filled = 0.0

    def note(self, dtype: x.DType, value: Value) -> Value:
        if np.size(value):
            self.filled = max(self.filled, float(np.max(value)) / EXACT_BELOW[dtype.scalar])
        return value


class MagnitudeCompiler(GridCompiler):
    """Compiles expressions so that a float is a bound of its magnitude. Integers are ordinary."""

    peaks: Peaks

    def _constant(self, e: Any) -> Evaluate:
        if not isinstance(e, x.FloatImm):
            return super()._constant(e)
        kind: Any = e.dtype.numpy.type
        if is_identity(e):
            return lambda env: kind(0)  # where Min and Max start; no operand of a sum (see _binary)
        if e.value != e.value or Fraction(e.value).denominator != 1:
            raise Unsupported(f"exact mode: the constant {e} is not an integer")
        return lambda env: kind(abs(e.value))

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        dtype = e.a.dtype
        if not dtype.is_float or isinstance(e, x.CompareOp):
            return super()._binary(e)
        a, b, peaks = self.expr(e.a), self.expr(e.b), self.peaks
        if isinstance(e, x.Min | x.Max):
            return lambda env: np.maximum(a(env), b(env))
        if is_identity(e.a) or is_identity(e.b):
            raise Unsupported(f"exact mode: arithmetic on the largest number of {dtype} in {e}")
        if isinstance(e, x.Add | x.Sub):
            return lambda env: peaks.note(dtype, a(env) + b(env))
        if isinstance(e, x.Mul):
            return lambda env: peaks.note(dtype, a(env) * b(env))
        raise Unsupported(f"exact mode: {type(e).__name__} on {dtype} may round: {e}")

    def _cast(self, e: x.Cast) -> Evaluate:
        source, target = e.value.dtype, e.dtype
        if source.is_float and not target.is_float:
            raise Unsupported(f"exact mode: a conversion from {source} to {target}: {e}")
        convert, peaks = super()._cast(e), self.peaks
        if not target.is_float:
            return convert
        return lambda env: peaks.note(target, np.abs(convert(env)))

    def _select(self, e: x.Select) -> Evaluate:
        if not _on_data(e.condition):
            return super()._select(e)
        return self._either(e, self.expr(e.true_value), self.expr(e.false_value))

    def _if_then_else(self, e: x.Call) -> Evaluate:
        if not _on_data(e.args[0]):
            return super()._if_then_else(e)
        return self._either(e, self.expr(e.args[1]), self.expr(e.args[2]))

    def _either(self, e: x.Expr, yes: Evaluate, no: Evaluate) -> Evaluate:
        if not e.dtype.is_float:
            raise Unsupported(f"exact mode: integers that depend on a comparison of floats: {e}")
        return lambda env: np.maximum(yes(env), no(env))

    def _call(self, e: x.Call) -> Evaluate:
        floats = [a for a in e.args if a.dtype.is_float]
        if not floats or e.op in ("if_then_else", "vector_reduce_max"):
            return super()._call(e)
        peaks, dtype = self.peaks, e.dtype
        if e.op in _KEEP:
            return self.expr(e.args[0])
        if e.op == "fma":
            a, b, c = (self.expr(arg) for arg in e.args)
            return lambda env: peaks.note(dtype, a(env) * b(env) + c(env))
        if e.op == "round_tf32":  # as many bits of mantissa as a float16
            value = self.expr(e.args[0])
            return lambda env: peaks.note(x.DType("float16"), value(env))
        if e.op == "dot2_bf16":
            acc, left, right = (self.expr(arg) for arg in e.args)
            return lambda env: peaks.note(dtype, acc(env) + _sizes_of_products(left(env), right(env), e))
        if e.op == "vector_reduce_add":
            total = super()._call(e)
            return lambda env: peaks.note(dtype, total(env))
        if e.op == "vector_reduce_min":
            return self._vector_reduce(x.Call(dtype, "vector_reduce_max", e.args))
        raise Unsupported(f"exact mode: {e.op} rounds: {e}")


def _sizes_of_products(a: Value, b: Value, e: x.Expr) -> Value:
    """Return a bound of a product of bfloat16 words; raises `Unsupported` if one of them is not an integer."""
    parts = [np.abs(half) for half in (*halves_of_words(a), *halves_of_words(b))]
    if not all((half == np.trunc(half)).all() for half in parts):
        raise Unsupported(f"exact mode: a bfloat16 of a word that is not an integer: {e}")
    (a_low, a_high, b_low, b_high) = parts
    return (a_low * b_low + a_high * b_high)[()]


def is_identity(e: x.Expr) -> bool:
    """Return whether a constant is an infinity or the largest number of its dtype, the initial values of max and
    min.
    """
    if isinstance(e, x.Broadcast):
        return is_identity(e.value)
    if not isinstance(e, x.FloatImm) or isinstance(e.value, Fraction):
        return False
    with np.errstate(over="ignore"):
        return bool(abs(e.dtype.numpy.type(e.value)) >= e.dtype.numpy.type(e.dtype.max))


def _on_data(condition: x.Expr) -> bool:
    """Return whether a condition depends on floats, whose values are unknown here. Integers are known."""
    return any(isinstance(n, x.Expr) and n.dtype.is_float for n in x.walk(condition))


class _Branches(MagnitudeCompiler, LockstepCompiler):
    def if_(self, s: t.If) -> Execute:
        if _on_data(s.condition):
            raise Unsupported(f"exact mode: a branch on data: if {s.condition}")
        return super().if_(s)


class MagnitudeStatements(_Branches):
    """Computes the magnitudes of a loop program."""


class MagnitudeKernels(_Branches, LockstepKernels):
    """Computes the magnitudes of a lowered program."""


def with_peaks(kind: type, peaks: Peaks) -> type:
    """Return the compiler class that reports to these peaks, also from the kernels that are called."""
    return type(kind.__name__, (kind,), {"peaks": peaks})


def integers(rng: np.random.Generator, shape: Sequence[int], dtype: x.DType, magnitude: int) -> np.ndarray:
    """Return an array of random integers from -magnitude (unsigned: 0) to magnitude."""
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = 0 if dtype.kind == "uint" else -magnitude
    return rng.integers(low, magnitude + 1, shape).astype(dtype.numpy)


def absolute(array: np.ndarray) -> np.ndarray:
    """Return the absolute values of a float array; other arrays are unchanged, because they may be indices."""
    return np.abs(array) if is_floating(array.dtype) else array


def magnitudes(inputs: Sequence[Any]) -> list[Any]:
    """Return the arguments with absolute values of floats."""
    # NumPy makes scalars of arrays of rank 0.
    return [np.asarray(absolute(a)) if isinstance(a, np.ndarray) else a for a in inputs]


def exact_inputs(draw: Callable[[int], list[Any]], measure: Callable[[list[Any], Peaks], None]) -> list[Any]:
    """Return inputs on which a program computes exactly.

    `draw(magnitude)` makes inputs, and `measure(inputs, peaks)` runs the program on their magnitudes. Raises
    `Unsupported` if even the smallest integers give results that are too large.
    """
    for magnitude in MAGNITUDES:
        inputs = draw(magnitude)
        peaks = Peaks()
        measure(magnitudes(inputs), peaks)
        if peaks.filled <= 1.0:
            return inputs
    raise Unsupported(
        f"exact mode: even inputs of -1, 0 and 1 lead to intermediates {peaks.filled:.3g} times as large as is exact"
    )
