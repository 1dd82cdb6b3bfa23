"""Find the dtypes in which values are rounded: evaluate in the field mode, but erase results that are rounded too
narrowly.

To a field, conversions between floats change nothing: a sum in float16 and one in float32 are the same formula. Here,
an operation with fewer bits than a threshold gives 0 in the second residue of its element; the first residue is
computed as usual. So a float32 sum in any order keeps its value, and a float16 sum loses it. Adding 0 or multiplying by
a power of two rounds nothing. If two programs round the same values to the same dtypes, they have the same second
residues at each threshold. (A product with an erased factor is 0, so it does not tell which factor was erased.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import expr as x

from ..judging.flow import computes_with_floats
from . import field_numbers as f
from .domain import Value
from .field_order import OrderedField

_POWERS = [f.of_fraction(sign * Fraction(2) ** k)[0] for k in range(-60, 61) for sign in (1, -1)]
_SCALES = np.array([0, *_POWERS], np.uint64)


class Erasing(OrderedField):
    """Elements whose second residue is 0 if they were rounded to fewer than `bits` bits."""

    def __init__(self, bits: int, span: tuple[float, float] = (-8.0, 8.0)) -> None:
        super().__init__(span)
        self.bits = bits

    def binary(self, kind: type, dtype: x.DType, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        function = super().binary(kind, dtype, at)
        if dtype.bits >= self.bits or kind not in (x.Add, x.Sub, x.Mul, x.Div):
            return function
        rounds = _products if kind is x.Mul else _quotients if kind is x.Div else _sums
        return lambda a, b, needed: _erased(function(a, b, needed), rounds(a, b))

    def cast(self, source: x.DType, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        function = super().cast(source, target, at)
        if not (source.is_float and target.is_float and target.bits < min(source.bits, self.bits)):
            return function
        return lambda v, needed: _erased(function(v, needed), True)

    def call(self, op: str, dtype: x.DType, args: Sequence[x.DType], at: x.Expr) -> Callable[..., Value]:
        function = super().call(op, dtype, args, at)
        if dtype.bits >= self.bits or not computes_with_floats(at):
            return function
        return lambda needed, *values: _erased(function(needed, *values), True)

    def divide(self, a: Value, b: Value) -> Value:
        """Return the quotient; an erased divisor does not count as a division by zero."""
        whole = np.array(b)
        whole["r"][..., 1] = np.where(whole["r"][..., 0] == 0, whole["r"][..., 1], np.maximum(whole["r"][..., 1], 1))
        quotient = np.array(super().divide(a, whole[()]))
        quotient["r"][..., 1] = f.times(np.asarray(a["r"]), f.inverse(np.asarray(b["r"])))[..., 1]
        return quotient[()]

    def _sign(self, a: Value, b: Value) -> tuple[Any, Any]:
        one, other = _unerased(a), _unerased(b)
        return super()._sign(one, other)


def _erased(value: Value, rounds: Any) -> Value:
    erased = np.array(value)
    erased["r"][..., 1] = np.where(rounds, np.uint64(0), erased["r"][..., 1])
    return erased[()]


def _unerased(value: Value) -> Value:
    restored = np.array(value)
    restored["r"][..., 1] = restored["r"][..., 0]
    return restored[()]


def _sums(a: Value, b: Value) -> Any:
    return (a["r"][..., 0] != 0) & (b["r"][..., 0] != 0)


def _products(a: Value, b: Value) -> Any:
    return ~(_scale(a) | _scale(b))


def _quotients(a: Value, b: Value) -> Any:
    return ~_scale(b)


def _scale(v: Value) -> Any:
    """Return whether an element is 0 or a power of two; a random element hardly ever is."""
    return np.isin(v["r"][..., 0], _SCALES)
