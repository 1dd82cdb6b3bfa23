"""Scalar functions and conditions for bodies of computes, under TVM's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import InputError
from ..expr import And, Call, Div, DType, Expr, Max, Min, Mod, Or, Select, as_expr, binary, call, const, match
from ..expr import FloorDiv as FloorDivNode
from ..expr import FloorMod as FloorModNode


def _function(name: str) -> Callable[..., Expr]:
    def apply(*args: Any) -> Expr:
        return call(name, *args)

    apply.__name__ = name
    apply.__doc__ = f"`{name}` of its arguments, in their dtype; see `expr.intrin`."
    return apply


exp, exp2, exp10 = _function("exp"), _function("exp2"), _function("exp10")
log, log2, log10, log1p = _function("log"), _function("log2"), _function("log10"), _function("log1p")
sqrt, rsqrt = _function("sqrt"), _function("rsqrt")
sin, cos, tan = _function("sin"), _function("cos"), _function("tan")
asin, acos, atan = _function("asin"), _function("acos"), _function("atan")
sinh, cosh, tanh = _function("sinh"), _function("cosh"), _function("tanh")
asinh, acosh, atanh = _function("asinh"), _function("acosh"), _function("atanh")
sigmoid, erf = _function("sigmoid"), _function("erf")
floor, ceil, trunc = _function("floor"), _function("ceil"), _function("trunc")
round, nearbyint = _function("round"), _function("nearbyint")
abs = _function("abs")
power, atan2, hypot, copysign = _function("pow"), _function("atan2"), _function("hypot"), _function("copysign")
fmod, fma = _function("fmod"), _function("fma")
isnan, isinf, isfinite = _function("isnan"), _function("isinf"), _function("isfinite")
popcount = _function("popcount")


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """`true_value` where `condition` holds, else `false_value`; only the side taken is evaluated: it guards loads."""
    return call("if_then_else", condition, true_value, false_value)


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """Like `if_then_else`, both sides evaluated: vectorises, and guards nothing."""
    return Select(as_expr(condition), *match(true_value, false_value))


def all(*conditions: Any) -> Expr:
    """Whether every condition holds; evaluated left to right, as far as needed."""
    return _chain(And, "all", conditions)


def any(*conditions: Any) -> Expr:
    """Whether some condition holds; evaluated left to right, as far as needed."""
    return _chain(Or, "any", conditions)


def _chain(kind: type[And] | type[Or], name: str, conditions: tuple[Any, ...]) -> Expr:
    if not conditions:
        raise InputError(f"{name}() needs at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = binary(kind, result, condition)
    return result


def minimum(a: Any, b: Any) -> Expr:
    """The smaller of two values; NaN if either is."""
    return binary(Min, a, b)


def maximum(a: Any, b: Any) -> Expr:
    """The larger of two values; NaN if either is."""
    return binary(Max, a, b)


def floordiv(a: Any, b: Any) -> Expr:
    """Integer division rounded toward minus infinity."""
    return binary(FloorDivNode, a, b)


def floormod(a: Any, b: Any) -> Expr:
    """Remainder with the sign of the divisor."""
    return binary(FloorModNode, a, b)


def truncdiv(a: Any, b: Any) -> Expr:
    """Integer division rounded toward zero, as in C."""
    return binary(Div, a, b)


def truncmod(a: Any, b: Any) -> Expr:
    """Remainder with the sign of the dividend, as in C."""
    return binary(Mod, a, b)


def min_value(dtype: str) -> Expr:
    """The smallest finite value of a dtype."""
    return const(DType(dtype).min, dtype)


def max_value(dtype: str) -> Expr:
    """The largest finite value of a dtype."""
    return const(DType(dtype).max, dtype)


def infinity(dtype: str, negative: bool = False) -> Expr:
    """Plus (or minus) infinity of a float dtype."""
    return const(-math.inf if negative else math.inf, dtype)


def reinterpret(dtype: str, value: Any) -> Expr:
    """The same bits read as another dtype of the same width."""
    return Call(DType(dtype), "reinterpret", (as_expr(value),))
