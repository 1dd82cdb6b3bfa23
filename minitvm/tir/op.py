"""Scalar operators under TVM's names: `tir.exp`, `tir.if_then_else`, `tir.all`, ...; `T` and `te` have them too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import TypeMismatch
from ..expr import (
    INTRINSICS,
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Or,
    Select,
    as_expr,
    binary,
    call,
    const,
    match,
)


def if_then_else(condition: Any, true_value: Any, false_value: Any, dtype: str | None = None) -> Expr:
    """`true_value` where `condition` holds, else `false_value`; only the side taken is evaluated: it guards loads.

    `dtype` is that of the result, where a text says it, as TVM's printer once did; raises `TypeMismatch` for another.
    """
    choice = call("if_then_else", condition, true_value, false_value)
    if dtype is not None and choice.dtype != dtype:
        raise TypeMismatch(f"if_then_else of {choice.dtype}: the text says dtype={dtype}")
    return choice


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """Like `if_then_else`, both sides evaluated: it vectorises, and guards nothing."""
    return Select(as_expr(condition), *match(true_value, false_value))


def all(*conditions: Any) -> Expr:
    """Whether every condition holds; evaluated left to right, as far as needed."""
    return _chain(And, "all", conditions)


def any(*conditions: Any) -> Expr:
    """Whether some condition holds; evaluated left to right, as far as needed."""
    return _chain(Or, "any", conditions)


def _chain(kind: type[BinaryOp], name: str, conditions: tuple[Any, ...]) -> Expr:
    if not conditions:
        raise TypeMismatch(f"{name}() needs at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = binary(kind, result, condition)
    return result


def binary_of(kind: type[BinaryOp], name: str = "", meaning: str = "") -> Callable[[Any, Any], Expr]:
    """The function that makes a node of that kind of two values brought to one dtype."""

    def apply(a: Any, b: Any) -> Expr:
        return binary(kind, a, b)

    apply.__name__ = apply.__qualname__ = name or kind.__name__
    apply.__doc__ = meaning or kind.__doc__
    return apply


min = binary_of(Min, "min", "The smaller of two values; NaN if either is.")
max = binary_of(Max, "max", "The larger of two values; NaN if either is.")
floordiv = binary_of(FloorDiv, "floordiv", "Integer division rounded toward minus infinity.")
floormod = binary_of(FloorMod, "floormod", "Remainder with the sign of the divisor.")
truncdiv = binary_of(Div, "truncdiv", "Integer division rounded toward zero, as in C.")
truncmod = binary_of(Mod, "truncmod", "Remainder with the sign of the dividend, as in C.")
indexdiv, indexmod = floordiv, floormod


def div(a: Any, b: Any) -> Expr:
    """Division as in C: exact on floats, truncated toward zero on integers."""
    return binary(Div, a, b)


def ceildiv(a: Any, b: Any) -> Expr:
    """Integer division rounded up: `(a + b - 1) // b`."""
    return (as_expr(a) + b - 1) // b


def min_value(dtype: str) -> Expr:
    """The smallest finite value of a dtype."""
    return const(DType(dtype).min, dtype)


def max_value(dtype: str) -> Expr:
    """The largest finite value of a dtype."""
    return const(DType(dtype).max, dtype)


def infinity(dtype: str, negative: bool = False) -> Expr:
    """Plus (or minus) infinity of a float dtype."""
    return const(-math.inf if negative else math.inf, dtype)


def lowest(dtype: str) -> Expr:
    """A value that no value of a dtype is below; maxima start from it.

    TVM starts a float maximum from the lowest finite number, which is no identity: -inf reduced would not give -inf.
    """
    return infinity(dtype, negative=True) if DType(dtype).is_float else min_value(dtype)


def highest(dtype: str) -> Expr:
    """A value that no value of a dtype is above; minima start from it."""
    return infinity(dtype) if DType(dtype).is_float else max_value(dtype)


def reinterpret(dtype: str, value: Any) -> Expr:
    """The same bits read as another dtype of the same width."""
    return Call(DType(dtype), "reinterpret", (as_expr(value),))


def cast(value: Any, dtype: str) -> Expr:
    """The value converted to a dtype as C does; itself when it has that dtype already."""
    return as_expr(value).astype(dtype)


def abs(value: Any) -> Expr:
    """The absolute value."""
    return call("abs", value)


def call_intrin(dtype: str, op: str, *args: Any) -> Expr:
    """A call of an intrinsic by name with its dtype given; `op` with or without TVM's "tir." or "tirx." before it."""
    return Call(DType(dtype), str(op).removeprefix("tir.").removeprefix("tirx."), tuple(as_expr(a) for a in args))


def _intrinsic(name: str) -> Callable[..., Expr]:
    def apply(*args: Any) -> Expr:
        return call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The intrinsic `{name}` of its arguments; see `expr.intrin`."
    return apply


# Every intrinsic of `expr.intrin` that has no words of its own above, and TVM's other names for some of them.
NAMED: dict[str, Callable[..., Expr]] = {
    name: _intrinsic(name) for name in INTRINSICS if name not in ("if_then_else", "reinterpret", "abs")
}
NAMED.update(power=NAMED["pow"], fabs=abs, Cast=lambda dtype, value: Cast(DType(dtype), as_expr(value)))


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
