"""Scalar operators under TVM's names (`tir.exp`, `tir.if_then_else`, `tir.all`, ...), which `T` and `te` share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import expr as ex
from ..errors import TypeMismatch


def if_then_else(condition: Any, true_value: Any, false_value: Any, dtype: str | None = None) -> ex.Expr:
    """Return `true_value` if `condition` holds, otherwise `false_value`. Only the selected value is evaluated, so you
    can use it to guard loads.

    `dtype` is the dtype of the result, which text printed by older versions of TVM includes; raises `TypeMismatch` if
    it differs.
    """
    choice = ex.call("if_then_else", condition, true_value, false_value)
    if dtype is not None and choice.dtype != dtype:
        raise TypeMismatch(f"if_then_else of {choice.dtype}: the text says dtype={dtype}")
    return choice


def select(condition: Any, true_value: Any, false_value: Any) -> ex.Expr:
    """Like `if_then_else`, but both values are evaluated. It can be vectorised, but it cannot guard a load."""
    return ex.Select(ex.as_expr(condition), *ex.match(true_value, false_value))


def all(*conditions: Any) -> ex.Expr:
    """Return an expression that is true if every condition holds. Conditions are evaluated from left to right, stopping
    at the first that does not hold.
    """
    return _chain(ex.And, "all", conditions)


def any(*conditions: Any) -> ex.Expr:
    """Return an expression that is true if at least one condition holds. Conditions are evaluated from left to right,
    stopping at the first that holds.
    """
    return _chain(ex.Or, "any", conditions)


def _chain(kind: type[ex.BinaryOp], name: str, conditions: tuple[Any, ...]) -> ex.Expr:
    if not conditions:
        raise TypeMismatch(f"{name}() needs at least one condition")
    result = ex.as_expr(conditions[0])
    for condition in conditions[1:]:
        result = ex.binary(kind, result, condition)
    return result


def binary_of(kind: type[ex.BinaryOp], name: str = "", meaning: str = "") -> Callable[[Any, Any], ex.Expr]:
    """Return a function that builds a node of this kind from two values, after converting them to a common dtype."""

    def apply(a: Any, b: Any) -> ex.Expr:
        return ex.binary(kind, a, b)

    apply.__name__ = apply.__qualname__ = name or kind.__name__
    apply.__doc__ = meaning or kind.__doc__
    return apply


min = binary_of(ex.Min, "min", "The smaller of two values; NaN if either is.")
max = binary_of(ex.Max, "max", "The larger of two values; NaN if either is.")
floordiv = binary_of(ex.FloorDiv, "floordiv", "Integer division rounded toward minus infinity.")
floormod = binary_of(ex.FloorMod, "floormod", "Remainder with the sign of the divisor.")
truncdiv = binary_of(ex.Div, "truncdiv", "Integer division rounded toward zero, as in C.")
truncmod = binary_of(ex.Mod, "truncmod", "Remainder with the sign of the dividend, as in C.")
indexdiv, indexmod = floordiv, floormod


def div(a: Any, b: Any) -> ex.Expr:
    """Divide as in C: floats are divided as usual, integer quotients are truncated toward zero."""
    return ex.binary(ex.Div, a, b)


def ceildiv(a: Any, b: Any) -> ex.Expr:
    """Divide integers and round up: `(a + b - 1) // b`."""
    return (ex.as_expr(a) + b - 1) // b


def min_value(dtype: str) -> ex.Expr:
    """Return the smallest finite value of a dtype."""
    return ex.const(ex.DType(dtype).min, dtype)


def max_value(dtype: str) -> ex.Expr:
    """Return the largest finite value of a dtype."""
    return ex.const(ex.DType(dtype).max, dtype)


def infinity(dtype: str, negative: bool = False) -> ex.Expr:
    """Return positive (or negative) infinity of a float dtype."""
    return ex.const(-math.inf if negative else math.inf, dtype)


def lowest(dtype: str) -> ex.Expr:
    """Return the neutral element of the maximum in a dtype: -inf for floats, otherwise the smallest value.

    TVM uses the lowest finite number for floats. That number is not neutral: if all values were -inf, their maximum
    would be that number.
    """
    return infinity(dtype, negative=True) if ex.DType(dtype).is_float else min_value(dtype)


def highest(dtype: str) -> ex.Expr:
    """Return the neutral element of the minimum in a dtype: inf for floats, otherwise the largest value."""
    return infinity(dtype) if ex.DType(dtype).is_float else max_value(dtype)


def reinterpret(dtype: str, value: Any) -> ex.Expr:
    """Reinterpret the bits of a value as another dtype of the same width."""
    return ex.Call(ex.DType(dtype), "reinterpret", (ex.as_expr(value),))


def cast(value: Any, dtype: str) -> ex.Expr:
    """Convert a value to a dtype as C does. A value that already has this dtype is returned unchanged."""
    return ex.as_expr(value).astype(dtype)


def abs(value: Any) -> ex.Expr:
    """Return the absolute value."""
    return ex.call("abs", value)


def call_intrin(dtype: str, op: str, *args: Any) -> ex.Expr:
    """Call an intrinsic by name, with an explicit dtype. `op` may begin with TVM's "tir." or "tirx."."""
    return ex.Call(
        ex.DType(dtype), str(op).removeprefix("tir.").removeprefix("tirx."), tuple(ex.as_expr(a) for a in args)
    )


def _intrinsic(name: str) -> Callable[..., ex.Expr]:
    def apply(*args: Any) -> ex.Expr:
        return ex.call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The intrinsic `{name}` of its arguments; see `expr.intrin`."
    return apply


# Every intrinsic of `expr.intrin` that has no function above, and TVM's other names for some of them.
NAMED: dict[str, Callable[..., ex.Expr]] = {
    name: _intrinsic(name) for name in ex.INTRINSICS if name not in ("if_then_else", "reinterpret", "abs")
}
NAMED.update(power=NAMED["pow"], fabs=abs, Cast=lambda dtype, value: ex.Cast(ex.DType(dtype), ex.as_expr(value)))


def __getattr__(name: str) -> Any:
    if name in NAMED:
        return NAMED[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMED})


__all__ = [
    "abs", "all", "any", "call_intrin", "cast", "ceildiv", "div", "floordiv", "floormod",
    "if_then_else", "indexdiv", "indexmod", "infinity", "max", "max_value", "min", "min_value", "reinterpret", "select",
    "truncdiv", "truncmod",
]  # fmt: skip
