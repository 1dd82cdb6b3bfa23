"""The value of a scalar expression of an executable, once its symbolic dimensions are known.

Integers are exact Python integers: sizes and offsets are checked against memory, so they must not wrap silently.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from .. import expr as e
from ..errors import InputError, Unsupported

Number = int | float
Environment = Mapping[e.Var, Number]


def _truncated_quotient(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: _truncated_quotient,
    e.Mod: lambda a, b: a - b * _truncated_quotient(a, b),
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: min,
    e.Max: max,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
}
_BITS: dict[str, Callable[[int, int], int]] = {
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def evaluate(x: int | float | e.Expr, env: Environment) -> Number:
    """The value of `x` if the variables have the values in `env`.

    Raises `InputError` for a variable without a value and for a division by zero, `Unsupported` for an expression that
    executables do not contain (a load, for example).
    """
    return Evaluation(env)(x)


_MOST_FUNCTIONS = 200  # nodes of an expression, as a tree


class Evaluation:
    """`evaluate` for many expressions in one environment: a node that several of them share is evaluated once.

    The offsets in an arena are sums that contain each other, so without this their cost is quadratic in their number.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._values: dict[e.Expr, Number] = {}

    def __call__(self, x: int | float | e.Expr) -> Number:
        if not isinstance(x, e.Expr):
            return x
        if isinstance(x, e.IntImm):
            return x.value
        value = self._values.get(x)
        if value is None:
            value = self._values[x] = self._value(x)
        return value

    def _value(self, x: e.Expr) -> Number:
        if isinstance(x, e.FloatImm):
            return float(x.value)
        if isinstance(x, e.Var):
            if x not in self.env:
                raise InputError(f"the symbolic dimension {x.name} has no value")
            return self.env[x]
        if isinstance(x, e.And):
            return self(x.a) and self(x.b)
        if isinstance(x, e.Or):
            return self(x.a) or self(x.b)
        if isinstance(x, e.Not):
            return not self(x.a)
        if isinstance(x, e.Select):
            return self(x.true_value if self(x.condition) else x.false_value)
        if isinstance(x, e.Cast):
            return _cast(self(x.value), x.dtype)
        if isinstance(x, e.Let):
            return evaluate(x.body, {**self.env, x.var: self(x.value)})
        if isinstance(x, e.Call):
            return self._call(x)
        operation = _BINARY.get(type(x))
        if operation is None or not isinstance(x, e.BinaryOp):
            raise Unsupported(f"{type(x).__name__} in an executable's expression: {x}")
        a, b = self(x.a), self(x.b)
        try:
            result: Number = operation(a, b)
        except ZeroDivisionError:
            raise InputError(f"{x} divides by zero where {_bindings(self.env)}") from None
        return result

    def _call(self, x: e.Call) -> Number:
        if x.op == "if_then_else":
            return self(x.args[1] if self(x.args[0]) else x.args[2])
        if x.op == "likely":
            return self(x.args[0])
        if x.op == "abs":
            return abs(self(x.args[0]))
        if x.op in _BITS:
            return _BITS[x.op](int(self(x.args[0])), int(self(x.args[1])))
        raise Unsupported(f"{x.op} in an executable's expression: {x}")


def function_of(x: int | float | e.Expr) -> Callable[[Environment], Number]:
    """`evaluate` of one expression for many environments: a tree of functions that is made once."""
    if not isinstance(x, e.Expr):
        return lambda _: x
    if sum(1 for _ in itertools.islice(e.walk(x), _MOST_FUNCTIONS + 1)) > _MOST_FUNCTIONS:
        return lambda env: evaluate(x, env)  # its nodes may share much
    inner = _function(x)

    def evaluated(env: Environment) -> Number:
        try:
            return inner(env)
        except (KeyError, ZeroDivisionError):
            return evaluate(x, env)  # says what is wrong

    return evaluated


def _function(x: e.Expr) -> Callable[[Environment], Number]:
    if isinstance(x, e.IntImm):
        number = x.value
        return lambda _: number
    if isinstance(x, e.Var):
        return lambda env: env[x]
    if isinstance(x, e.Select):
        condition, first, second = map(_function, (x.condition, x.true_value, x.false_value))
        return lambda env: first(env) if condition(env) else second(env)
    if isinstance(x, e.Not):
        value = _function(x.a)
        return lambda env: not value(env)
    if isinstance(x, e.Cast):
        value, dtype = _function(x.value), x.dtype
        return lambda env: _cast(value(env), dtype)
    operation = _BINARY.get(type(x))
    if isinstance(x, e.BinaryOp) and (operation is not None or isinstance(x, e.And | e.Or)):
        a, b = _function(x.a), _function(x.b)
        if isinstance(x, e.And):
            return lambda env: a(env) and b(env)
        if isinstance(x, e.Or):
            return lambda env: a(env) or b(env)
        assert operation is not None
        return lambda env: operation(a(env), b(env))
    return lambda env: evaluate(x, env)


def _cast(value: Number, dtype: e.DType) -> Number:
    if dtype.is_float:
        return float(value)
    if dtype.is_bool:
        return value != 0
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    negative = dtype.kind == "int" and wrapped >> (dtype.bits - 1)
    return wrapped - (1 << dtype.bits) if negative else wrapped


def _bindings(env: Environment) -> str:
    return ", ".join(f"{v.name} = {n}" for v, n in env.items()) or "nothing is symbolic"
