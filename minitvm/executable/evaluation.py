"""The value of a scalar expression of an executable, once its symbolic dimensions are known.

Integers are exact Python integers: sizes and offsets are checked against memory, so they must not wrap silently.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from .. import expr as ex
from ..errors import InputError, Unsupported

Number = int | float
Environment = Mapping[ex.Var, Number]


def _truncated_quotient(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ex.Add: lambda a, b: a + b,
    ex.Sub: lambda a, b: a - b,
    ex.Mul: lambda a, b: a * b,
    ex.Div: _truncated_quotient,
    ex.Mod: lambda a, b: a - b * _truncated_quotient(a, b),
    ex.FloorDiv: lambda a, b: a // b,
    ex.FloorMod: lambda a, b: a % b,
    ex.Min: min,
    ex.Max: max,
    ex.EQ: lambda a, b: a == b,
    ex.NE: lambda a, b: a != b,
    ex.LT: lambda a, b: a < b,
    ex.LE: lambda a, b: a <= b,
    ex.GT: lambda a, b: a > b,
    ex.GE: lambda a, b: a >= b,
}
_BITS: dict[str, Callable[[int, int], int]] = {
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def evaluate(x: int | float | ex.Expr, env: Environment) -> Number:
    """Evaluate `x` with the variable values in `env`.

    Raises `InputError` for a variable without a value and for a division by zero, and `Unsupported` for an expression
    that executables do not contain (a load, for example).
    """
    return Evaluation(env)(x)


_MOST_FUNCTIONS = 200  # the most nodes of an expression, as a tree


class Evaluation:
    """Like `evaluate`, for many expressions in one environment: a node that several expressions share is evaluated
    once.

    The offsets in an arena are sums that contain each other. Without sharing, evaluating them would take quadratic
    time.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._values: dict[ex.Expr, Number] = {}

    def __call__(self, x: int | float | ex.Expr) -> Number:
        if not isinstance(x, ex.Expr):
            return x
        if isinstance(x, ex.IntImm):
            return x.value
        value = self._values.get(x)
        if value is None:
            value = self._values[x] = self._value(x)
        return value

    def _value(self, x: ex.Expr) -> Number:
        if isinstance(x, ex.FloatImm):
            return float(x.value)
        if isinstance(x, ex.Var):
            if x not in self.env:
                raise InputError(f"the symbolic dimension {x.name} has no value")
            return self.env[x]
        if isinstance(x, ex.And):
            return self(x.a) and self(x.b)
        if isinstance(x, ex.Or):
            return self(x.a) or self(x.b)
        if isinstance(x, ex.Not):
            return not self(x.a)
        if isinstance(x, ex.Select):
            return self(x.true_value if self(x.condition) else x.false_value)
        if isinstance(x, ex.Cast):
            return _cast(self(x.value), x.dtype)
        if isinstance(x, ex.Let):
            return evaluate(x.body, {**self.env, x.var: self(x.value)})
        if isinstance(x, ex.Call):
            return self._call(x)
        operation = _BINARY.get(type(x))
        if operation is None or not isinstance(x, ex.BinaryOp):
            raise Unsupported(f"{type(x).__name__} in an executable's expression: {x}")
        a, b = self(x.a), self(x.b)
        try:
            result: Number = operation(a, b)
        except ZeroDivisionError:
            raise InputError(f"{x} divides by zero where {_bindings(self.env)}") from None
        return result

    def _call(self, x: ex.Call) -> Number:
        if x.op == "if_then_else":
            return self(x.args[1] if self(x.args[0]) else x.args[2])
        if x.op == "likely":
            return self(x.args[0])
        if x.op == "abs":
            return abs(self(x.args[0]))
        if x.op in _BITS:
            return _BITS[x.op](int(self(x.args[0])), int(self(x.args[1])))
        raise Unsupported(f"{x.op} in an executable's expression: {x}")


def function_of(x: int | float | ex.Expr) -> Callable[[Environment], Number]:
    """Return a function that evaluates one expression in many environments. Each call does the same as `evaluate`."""
    if not isinstance(x, ex.Expr):
        return lambda _: x
    if sum(1 for _ in itertools.islice(ex.walk(x), _MOST_FUNCTIONS + 1)) > _MOST_FUNCTIONS:
        return lambda env: evaluate(x, env)  # its nodes may share many parts
    inner = _function(x)

    def evaluated(env: Environment) -> Number:
        try:
            return inner(env)
        except (KeyError, ZeroDivisionError):
            return evaluate(x, env)  # raises the error that says what is wrong

    return evaluated


def _function(x: ex.Expr) -> Callable[[Environment], Number]:
    if isinstance(x, ex.IntImm):
        number = x.value
        return lambda _: number
    if isinstance(x, ex.Var):
        return lambda env: env[x]
    if isinstance(x, ex.Select):
        condition, first, second = map(_function, (x.condition, x.true_value, x.false_value))
        return lambda env: first(env) if condition(env) else second(env)
    if isinstance(x, ex.Not):
        value = _function(x.a)
        return lambda env: not value(env)
    if isinstance(x, ex.Cast):
        value, dtype = _function(x.value), x.dtype
        return lambda env: _cast(value(env), dtype)
    operation = _BINARY.get(type(x))
    if isinstance(x, ex.BinaryOp) and (operation is not None or isinstance(x, ex.And | ex.Or)):
        a, b = _function(x.a), _function(x.b)
        if isinstance(x, ex.And):
            return lambda env: a(env) and b(env)
        if isinstance(x, ex.Or):
            return lambda env: a(env) or b(env)
        assert operation is not None
        return lambda env: operation(a(env), b(env))
    return lambda env: evaluate(x, env)


def _cast(value: Number, dtype: ex.DType) -> Number:
    if dtype.is_float:
        return float(value)
    if dtype.is_bool:
        return value != 0
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    negative = dtype.kind == "int" and wrapped >> (dtype.bits - 1)
    return wrapped - (1 << dtype.bits) if negative else wrapped


def _bindings(env: Environment) -> str:
    return ", ".join(f"{v.name} = {n}" for v, n in env.items()) or "nothing is symbolic"
