"""Evaluate formulas at many points at once: every node of a few expressions is an array with a number for each point.

Nothing raises an error. If an operation has no meaning at a point (an integer divided by zero, a cast of a float out of
range, a shift by a negative amount, an element that was never written), the point is `bad` in all nodes above, unless a
choice uses the other operand. On request, it also records where a float operation `rounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x

from ...meaning import operations
from ...meaning.intrinsics import meaning
from ...meaning.steps import POINTS, spend

UNDEFINED = "undefined"  # the name of a variable that stands for what nobody wrote
_DIVISIONS = (x.Div, x.Mod, x.FloorDiv, x.FloorMod)
_SHIFTS = ("shift_left", "shift_right")
_EXACT_CALLS = ("abs", "floor", "ceil", "trunc", "round", "nearbyint", "copysign", "fmod", "isnan", "isinf", "isfinite",
                "likely", "reinterpret", "if_then_else")  # fmt: skip
Values = np.ndarray


def in_order(roots: Iterable[x.Expr]) -> list[x.Expr]:
    """Return every node of some expressions once, operands first."""
    seen: dict[int, x.Expr] = {}
    stack: list[tuple[Any, bool]] = [(e, False) for e in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if id(node) in seen:
            continue
        if ready:
            seen[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in x.children(node))
    return list(seen.values())


class Batch:
    """The values of the nodes of `order` at `count` points, given the values of the variables."""

    def __init__(self, order: Sequence[x.Expr], leaves: Mapping[x.Var, Values], count: int, rounding: bool = False):
        spend(len(order) * (1 + count // POINTS))
        self.count, self.leaves, self.rounding = count, leaves, rounding
        self._values: dict[int, Values] = {}
        self._bad: dict[int, Values] = {}
        self._rounds: dict[int, Values] = {}
        with np.errstate(all="ignore"):
            for e in order:
                self._values[id(e)] = self._value(e)

    def __getitem__(self, e: x.Expr) -> Values:
        return self._values[id(e)]

    def bad(self, e: x.Expr) -> Values:
        """Return the points at which an expression is not defined."""
        return self._bad.get(id(e), _NOWHERE)

    def rounds(self, e: x.Expr) -> Values:
        """Return the points at which an expression was rounded, if this was recorded."""
        return self._rounds.get(id(e), _NOWHERE)

    def _note(self, e: x.Expr, bad: Values, rounds: Values | None = None) -> None:
        if bad is not _NOWHERE and bad.any():
            self._bad[id(e)] = bad
        if rounds is not None and rounds is not _NOWHERE and rounds.any():
            self._rounds[id(e)] = rounds

    def _either(self, parts: Iterable[x.Expr], where: dict[int, Values]) -> Values:
        values = _NOWHERE
        for p in parts:
            mine = where.get(id(p))
            if mine is not None:
                values = mine if values is _NOWHERE else values | mine
        return values

    def _value(self, e: Any) -> Values:
        if isinstance(e, x.Var):
            if e.name == UNDEFINED:
                self._bad[id(e)] = np.ones(1, np.bool_)
                return np.zeros(1, e.dtype.numpy)
            return self.leaves[e]
        if isinstance(e, x.IntImm | x.FloatImm):
            return np.asarray(operations.constant(e), e.dtype.numpy).reshape(1)
        parts = [p for p in x.children(e) if isinstance(p, x.Expr)]
        bad, rounds = self._either(parts, self._bad), self._either(parts, self._rounds)
        values = [self[p] for p in parts]
        if isinstance(e, x.And | x.Or):
            first, second = values
            left, right = (self.bad(p) for p in parts)
            open_ = first if isinstance(e, x.And) else ~first
            self._note(e, left | (open_ & right) if bad is not _NOWHERE else bad, rounds)
            return first & second if isinstance(e, x.And) else first | second
        if isinstance(e, x.Not):
            self._note(e, bad, rounds)
            return ~values[0]
        if isinstance(e, x.Select) or (isinstance(e, x.Call) and e.op == "if_then_else"):
            condition, yes, no = values
            if isinstance(e, x.Call) and bad is not _NOWHERE:
                own = [self.bad(p) for p in parts]
                bad = own[0] | np.where(condition, own[1], own[2])
            if rounds is not _NOWHERE:
                own = [self.rounds(p) for p in parts]
                rounds = own[0] | np.where(condition, own[1], own[2])
            self._note(e, bad, rounds)
            return np.where(condition, yes, no)
        if isinstance(e, x.Cast):
            result, wrong = _converted(values[0], e.value.dtype, e.dtype)
        elif isinstance(e, x.BinaryOp):
            result, wrong = _operated(e, values)
        elif isinstance(e, x.Call):
            result, wrong = _called(e, values)
        else:
            raise NotImplementedError(type(e).__name__)
        if self.rounding and e.dtype.is_float:
            rounds = rounds | _rounded(e, values, result)
        self._note(e, bad if wrong is None else bad | wrong, rounds)
        return result


_NOWHERE = np.zeros(1, np.bool_)


def values_of(roots: Sequence[x.Expr], leaves: Mapping[x.Var, Values], count: int, rounding: bool = False) -> Batch:
    """Evaluate all nodes of these expressions at some points."""
    return Batch(in_order(roots), leaves, count, rounding)


def _operated(e: x.BinaryOp, values: list[Values]) -> tuple[Values, Values | None]:
    first, second = values
    dtype = e.a.dtype
    wrong = None
    if isinstance(e, _DIVISIONS) and dtype.is_int:
        wrong = second == 0
        second = np.where(wrong, 1, second).astype(second.dtype)
    return np.asarray(operations.on_arrays(type(e), dtype)(first, second, None)), wrong


def _converted(value: Values, source: x.DType, target: x.DType) -> tuple[Values, Values | None]:
    convert = operations.cast_array(source, target)
    if not (source.is_float and target.is_int) or target.is_bool:
        return np.asarray(convert(value, None)), None
    wide = value.astype(np.float64)
    fits = (wide > float(target.min) - 1.0) & (wide < float(int(target.max) + 1))
    return np.asarray(convert(np.where(fits, value, 0).astype(value.dtype), None)), ~fits


def _called(e: x.Call, values: list[Values]) -> tuple[Values, Values | None]:
    wrong = None
    if e.op in _SHIFTS:
        wrong = values[1] < 0
        values = [values[0], np.where(wrong, 0, values[1]).astype(values[1].dtype)]
    return np.atleast_1d(np.asarray(meaning(e.op, e.dtype, e.args[0].dtype)(*values))), wrong


def _rounded(e: Any, values: list[Values], result: Values) -> Values:
    """Return the points at which a float operation does not give its exact result."""
    wide = [v.astype(np.longdouble) for v in values]
    if isinstance(e, x.Cast):
        return np.asarray(~(result.astype(np.longdouble) == wide[0]))
    if isinstance(e, x.Call):
        return _NOWHERE if e.op in _EXACT_CALLS else np.ones(1, np.bool_)
    if isinstance(e, x.Min | x.Max | x.Mod):
        return _NOWHERE
    if isinstance(e, x.Add | x.Sub | x.Mul) and e.dtype.bits < 64:
        # Products of two 24-bit significands are exact in 64 bits; the error of a sum is itself a float.
        exact = wide[0] + wide[1] if isinstance(e, x.Add) else wide[0] - wide[1] if isinstance(e, x.Sub) else None
        if exact is None:
            return np.asarray(wide[0] * wide[1] != result.astype(np.longdouble))
        back = exact - wide[0]
        other = wide[1] if isinstance(e, x.Add) else -wide[1]
        lost = (wide[0] - (exact - back)) + (other - back)
        return np.asarray((exact != result.astype(np.longdouble)) | (lost != 0))
    if isinstance(e, x.Div) and e.dtype.bits < 64:
        return np.asarray(result.astype(np.longdouble) * wide[1] != wide[0])
    return np.ones(1, np.bool_)
