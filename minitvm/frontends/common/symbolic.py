"""Operators on arrays of symbolic numbers: the arithmetic that exporters write between Shape and Reshape.

An element is a Python number, an `Expr` (an integer or a condition), or, for float dtypes, a `Quotient` of integers.
Results are simplified if possible: for a dimension n, `equal(n, -1)` is false, and `minimum(n, 2**63 - 1)` is n. A
condition that depends on sizes stays an expression, and `where` on it becomes a `Select`. So there are three truth
values: true, false and an expression. `fold` returns None for results without an exact form; these are computed at run
time.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ... import te
from ...expr import EQ, GE, LT, And, Div, Expr, Mod, Not, Or, as_expr
from ...expr import Max as MaxOf
from ...expr import Min as MinOf
from ...graph.nodes import Dim
from ...topi import registry
from ...topi.shapes import is_one, product, same, simple

# Exporters write "to the end" as a very large number.
_UNBOUNDED = 2**31 - 1

# Products with factors of a few bits are exact in float32 for all sizes that fit in memory.
_EXACT_BITS = 12


# The largest extent for which a fraction is compared with a scale.
_MOST_SCALED = 2**20


# Whether results may be computed exactly although floats would round.
_NEARLY: ContextVar[bool] = ContextVar("nearly", default=False)


class Inexact(Exception):
    """The result has no exact form."""


@dataclass(frozen=True, eq=False)
class Quotient:
    """The float `above / below`, a quotient of integers. `below` is positive."""

    above: Dim
    below: Dim

    @staticmethod
    def of(value: Any) -> Quotient:
        if isinstance(value, Quotient):
            return value
        if isinstance(value, Expr):
            return Quotient(value, 1)
        if not math.isfinite(value):
            raise Inexact
        fraction = Fraction(value)
        if _NEARLY.get():
            fraction = fraction.limit_denominator(1000)
        elif max(fraction.numerator.bit_length(), fraction.denominator.bit_length()) > _EXACT_BITS:
            raise Inexact
        return Quotient(fraction.numerator, fraction.denominator)

    def __repr__(self) -> str:
        return f"{self.above} / {self.below}"


def _quotient(above: Dim, below: Dim) -> Any:
    """Return a quotient in lowest terms as far as its numbers allow, or a plain number if it is one."""
    if same(above, below):
        return 1.0
    if isinstance(above, int) and isinstance(below, int):
        if not below:
            raise Inexact
        return above / below
    if isinstance(below, int) and below < 0:
        above, below = simple(-above), -below
    elif isinstance(below, Expr) and not _holds(GE(below, as_expr(0))):
        raise Inexact
    if isinstance(below, int) and below > 1:
        reduced = simple(above // below)
        if same(simple(reduced * below), above):
            return Quotient(reduced, 1)
    return Quotient(above, below)


def _holds(condition: Expr) -> bool:
    decided = simple(condition)
    return isinstance(decided, int) and bool(decided)


def _decided(condition: Expr) -> Any:
    """Return a condition as a bool if its value is known."""
    value = simple(condition)
    return bool(value) if isinstance(value, int) else value


def _is_float(*values: Any) -> bool:
    return any(isinstance(v, float | Quotient) for v in values)


def _add(a: Any, b: Any) -> Any:
    if not _is_float(a, b):
        return simple(a + b)
    x, y = Quotient.of(a), Quotient.of(b)
    if same(x.below, y.below):
        return _quotient(simple(x.above + y.above), x.below)
    return _quotient(simple(x.above * y.below + y.above * x.below), product([x.below, y.below]))


def _subtract(a: Any, b: Any) -> Any:
    return _add(a, _negative(b))


def _negative(a: Any) -> Any:
    if not _is_float(a):
        return simple(-a) if isinstance(a, Expr) else -a
    x = Quotient.of(a)
    return _quotient(simple(-as_expr(x.above)), x.below)


def _multiply(a: Any, b: Any) -> Any:
    if not _is_float(a, b):
        return product([a, b])
    x, y = Quotient.of(a), Quotient.of(b)
    if same(x.above, y.below) and not isinstance(x.above, int):
        return _quotient(y.above, x.below)
    if same(y.above, x.below) and not isinstance(y.above, int):
        return _quotient(x.above, y.below)
    return _quotient(product([x.above, y.above]), product([x.below, y.below]))


def _divide(a: Any, b: Any) -> Any:
    """Divide integers by truncation, as ONNX does, and floats exactly."""
    if _is_float(a, b):
        x, y = Quotient.of(a), Quotient.of(b)
        if isinstance(y.above, int) and not y.above:
            raise Inexact
        return _quotient(product([x.above, y.below]), product([x.below, y.above]))
    if not isinstance(b, Expr) and not b:
        raise Inexact
    if isinstance(b, int) and b > 0 and _holds(GE(as_expr(a), as_expr(1 - b))):
        # Above -b, truncation takes what is negative to 0: the (n - 1) / b of a rounded quotient.
        return simple(MaxOf(*_matched(a, 0)) // b)
    return simple(Div(*_matched(a, b)))


def scaled(dim: Dim, scale: Any) -> Dim | None:
    """Return the floor of a dimension times a float32 or a `Quotient`, or None if it has no exact form."""
    try:
        if isinstance(scale, float):
            ratio = _ratio(scale)
            return None if ratio is None else simple(dim * ratio.numerator // ratio.denominator)
        floor = _floor(_multiply(Quotient.of(dim), scale))
        whole = floor.above if isinstance(floor, Quotient) else int(floor)
    except Inexact:
        return None
    return whole


@functools.cache
def _ratio(scale: float) -> Fraction | None:
    """Return a fraction p/q such that floor(n p/q) equals the floor of the float32 product n * scale for all n up to
    2**20.

    Rounding a product can move it up to a whole number. For example, 10 * 0.7 is 7, although the float32 0.7 is less
    than 7/10. So the fraction that was probably rounded to the scale is tried, and all n are compared.
    """
    numbers = np.arange(_MOST_SCALED + 1)
    products = np.floor(numbers.astype(np.float32) * np.float32(scale)).astype(np.int64)
    for most in (16, 256, 1000):
        ratio = Fraction(scale).limit_denominator(most)
        fits = 0 < ratio.numerator < 2**31 // _MOST_SCALED
        if fits and np.array_equal(products, numbers * ratio.numerator // ratio.denominator):
            return ratio
    return None


def _matched(a: Any, b: Any) -> tuple[Expr, Expr]:
    from ...expr import match

    left, right = match(as_expr(a), as_expr(b))
    return left, right


def _integers(kind: Callable[[Expr, Expr], Expr]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if _is_float(a, b) or (not isinstance(b, Expr) and not b):
            raise Inexact
        return simple(kind(*_matched(a, b)))

    return apply


def _minimum(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Expr | Quotient) and one >= _UNBOUNDED:
            return other
    if _is_float(a, b):
        return a if _less_equal(a, b) is True else b if _less_equal(b, a) is True else _either(a, b, a, b)
    return simple(MinOf(*_matched(a, b)))


def _maximum(a: Any, b: Any) -> Any:
    if _is_float(a, b):
        return b if _less_equal(a, b) is True else a if _less_equal(b, a) is True else _either(a, b, b, a)
    return simple(MaxOf(*_matched(a, b)))


def _either(a: Any, b: Any, first: Any, second: Any) -> Quotient:
    """Return the first of two floats if a is not more than b, and the second otherwise, as a quotient of selections."""
    if not _NEARLY.get():
        raise Inexact
    condition, x, y = as_expr(_less_equal(a, b)), Quotient.of(first), Quotient.of(second)
    above, below = (simple(te.select(condition, *_matched(*pair))) for pair in ((x.above, y.above), (x.below, y.below)))
    return Quotient(above, below)


def _comparison(kind: Callable[[Expr, Expr], Expr], plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if not any(isinstance(v, Expr | Quotient) for v in (a, b)):
            return bool(plain(a, b))
        if _is_float(a, b):
            x, y = Quotient.of(a), Quotient.of(b)
            a, b = product([x.above, y.below]), product([y.above, x.below])
        left, right = as_expr(a), as_expr(b)
        if left.dtype.is_bool or right.dtype.is_bool:
            left, right = left.astype("int32"), right.astype("int32")
        return _decided(kind(*_matched(left, right)))

    return apply


_less = _comparison(LT, operator.lt)
_equal = _comparison(EQ, operator.eq)


def _less_equal(a: Any, b: Any) -> Any:
    return _not(_less(b, a))


def _not(a: Any) -> Any:
    return _decided(Not(a)) if isinstance(a, Expr) else not a


def _logical(kind: type[And] | type[Or]) -> Callable[[Any, Any], Any]:
    return lambda a, b: _decided(kind(as_expr(a).astype("bool"), as_expr(b).astype("bool")))


def _where(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Expr):
        return a if condition else b
    if _is_float(a, b):
        x, y = Quotient.of(a), Quotient.of(b)
        if same(x.above, y.above) and same(x.below, y.below):
            return a
        raise Inexact
    left, right = as_expr(a), as_expr(b)
    return a if same(left, right) else simple(te.select(condition, *_matched(left, right)))


def _sign(a: Any) -> Any:
    if _is_float(a):
        raise Inexact
    return _where(_less(a, 0), -1, _where(_equal(a, 0), 0, 1))


def _abs(a: Any) -> Any:
    return _where(_less(a, 0), _negative(a), a)


def _floor(a: Any) -> Any:
    if not isinstance(a, Quotient):
        return math.floor(a) * 1.0 if isinstance(a, float) else a
    return Quotient(simple(a.above // a.below), 1)


def _ceil(a: Any) -> Any:
    if not isinstance(a, Quotient):
        return math.ceil(a) * 1.0 if isinstance(a, float) else a
    return Quotient(simple((a.above + (a.below - 1)) // a.below), 1)


def _power(a: Any, b: Any) -> Any:
    if isinstance(b, Expr | Quotient) or b != int(b) or not 0 <= b <= 4:
        raise Inexact
    result: Any = 1.0 if _is_float(a) else 1
    for _ in range(int(b)):
        result = _multiply(result, a)
    return result


def _clip(a: Any, *, a_min: Any, a_max: Any) -> Any:
    low = a if a_min is None else _maximum(a, a_min)
    return low if a_max is None else _minimum(low, a_max)


def _cast(a: Any, *, dtype: str) -> Any:
    """Convert symbolic numbers. Integers keep their value, because a dimension fits in every integer dtype that
    exporters use.
    """
    if dtype.startswith("float"):
        return a if isinstance(a, Quotient | float) else Quotient.of(_number(a))
    if dtype == "bool":
        return _not(_equal(a, 0))
    if isinstance(a, Quotient):
        return a.above if is_one(a.below) else _divide(a.above, a.below)  # rounded towards zero
    return int(a) if not isinstance(a, Expr) else _number(a)


def _number(a: Any) -> Any:
    return simple(te.select(a, as_expr(1), as_expr(0))) if isinstance(a, Expr) and a.dtype.is_bool else a


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "add": _add,
    "cast": _cast,
    "ceil": _ceil,
    "clip": _clip,
    "divide": _divide,
    "equal": _equal,
    "floor": _floor,
    "floor_divide": _integers(lambda a, b: a // b),
    "floor_mod": _integers(lambda a, b: a % b),
    "greater": lambda a, b: _less(b, a),
    "greater_equal": lambda a, b: _not(_less(a, b)),
    "less": _less,
    "less_equal": _less_equal,
    "logical_and": _logical(And),
    "logical_not": _not,
    "logical_or": _logical(Or),
    "logical_xor": lambda a, b: _not(_equal(a, b)),
    "maximum": _maximum,
    "minimum": _minimum,
    "mod": _integers(Mod),
    "multiply": _multiply,
    "negative": _negative,
    "nn.relu": lambda a: _maximum(a, 0),
    "not_equal": lambda a, b: _not(_equal(a, b)),
    "power": _power,
    "sign": _sign,
    "subtract": _subtract,
    "where": _where,
}

_REDUCED: dict[str, Callable[[Any, Any], Any]] = {
    "all": _logical(And), "any": _logical(Or), "max": _maximum, "min": _minimum, "prod": _multiply, "sum": _add,
}  # fmt: skip

# Operators that only move elements: their NumPy folds hold for elements of any kind.
_MOVING = frozenset({
    "broadcast_to", "concatenate", "copy", "expand_dims", "repeat", "reshape", "reverse", "split", "squeeze", "stack",
    "strided_slice", "tile", "transpose",
})  # fmt: skip


def fold(op: registry.Operator, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any], *, nearly: bool = False) -> Any:
    """Return the result of an operator as an array of dtype object, or a tuple of results; None if it has no exact
    form.

    `arrays` are the operands, at least one of which contains symbolic numbers. With `nearly`, the result ignores the
    rounding of floats.
    """
    token = _NEARLY.set(nearly)
    try:
        if op.name in _ELEMENTWISE:
            return _mapped(_ELEMENTWISE[op.name], arrays, attrs)
        if nearly and op.name == "reciprocal":  # with the rounding of floats, n * (1 / n) may be less than 1
            return _mapped(functools.partial(_divide, 1.0), arrays, attrs)
        if op.name in _REDUCED and not attrs.get("exclude"):
            return _reduced(_REDUCED[op.name], arrays[0], attrs["axis"], attrs["keepdims"])
        if op.name == "cumsum" and not attrs.get("exclusive") and not attrs.get("reverse"):
            return _objects(np.frompyfunc(_add, 2, 1).accumulate(_objects(arrays[0]), attrs["axis"] or 0))
        if op.name == "take":
            return _taken(arrays[0], arrays[1], attrs["axis"])
        if op.name in _MOVING and op.fold is not None:
            return op.fold(*map(_objects, arrays), **attrs)
    except Inexact:
        pass
    finally:
        _NEARLY.reset(token)
    return None


def _mapped(function: Callable[..., Any], arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray:
    operands = np.broadcast_arrays(*map(_objects, arrays))
    result = np.empty(operands[0].shape, object)
    for place in np.ndindex(result.shape):
        result[place] = function(*(o[place] for o in operands), **attrs)
    return result


def _objects(array: Any) -> np.ndarray:
    """Return an array of Python numbers, which do not wrap, and expressions."""
    return np.asarray(array).astype(object)


def _reduced(function: Callable[[Any, Any], Any], array: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray | None:
    axes = tuple(range(array.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if not array.size:
        return None
    result = _objects(array)
    ufunc = np.frompyfunc(function, 2, 1)
    for a in sorted((a % array.ndim for a in axes), reverse=True):
        result = _objects(ufunc.reduce(result, axis=a, keepdims=keepdims))
    return result


def _taken(data: np.ndarray, indices: np.ndarray, axis: Any) -> np.ndarray | None:
    return None if indices.dtype == object else _objects(np.take(data, indices, axis, mode="raise"))
