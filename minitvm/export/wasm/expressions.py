"""SizeExpressions over sizes as LLVM instructions: the same values as `executable.evaluation`, in 64-bit arithmetic.

An integer is an i64, a float a double, and a condition an i1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ... import expr as ex
from ...errors import Unsupported

WORD, DOUBLE, BIT = ir.IntType(64), ir.DoubleType(), ir.IntType(1)


class SizeExpressions:
    """Writes expressions into the block of `builder`, each once per scope.

    `values` holds what is written so far; the code that it holds must dominate the builder's block. For a loop, the
    caller saves it before the body and restores it after.
    """

    def __init__(self, builder: ir.IRBuilder, values: dict[Any, ir.Value]) -> None:
        self.builder = builder
        self.values = values

    def number(self, x: int | float | ex.Expr) -> ir.Value:
        """Return the value of `x`. Raises `Unsupported` for an expression that executables do not contain."""
        if isinstance(x, float | ex.FloatImm):
            return ir.Constant(DOUBLE, float(x if isinstance(x, float) else x.value))
        if isinstance(x, int | ex.IntImm):
            return ir.Constant(WORD, int(x if isinstance(x, int) else x.value))
        value = self.values.get(x)
        if value is None:
            value = self.values[x] = self._value(x)
        return value

    def word(self, x: int | float | ex.Expr) -> ir.Value:
        """Return an integer or a condition as an i64."""
        return self._as_word(self.number(x))

    def condition(self, x: int | float | ex.Expr) -> ir.Value:
        """Return whether `x` holds, as an i1."""
        value = self.number(x)
        if value.type == BIT:
            return value
        if value.type == DOUBLE:
            return self.builder.fcmp_unordered("!=", value, ir.Constant(DOUBLE, 0.0))
        return self.builder.icmp_signed("!=", value, ir.Constant(WORD, 0))

    def argument(self, x: int | float | ex.Expr, dtype: ex.DType) -> ir.Value:
        """Return `x` as an argument of a kernel: an integer by its value, a float by its bits in the low end."""
        if not dtype.is_float:
            return self.word(x)
        b, value = self.builder, self._as_double(self.number(x))
        if dtype.bits == 64:
            return b.bitcast(value, WORD)
        if dtype.bits != 32:
            raise Unsupported(f"a scalar argument of dtype {dtype} in WebAssembly")
        return b.zext(b.bitcast(b.fptrunc(value, ir.FloatType()), ir.IntType(32)), WORD)

    def _as_word(self, value: ir.Value) -> ir.Value:
        if value.type == BIT:
            return self.builder.zext(value, WORD)
        return self.builder.fptosi(value, WORD) if value.type == DOUBLE else value

    def _as_double(self, value: ir.Value) -> ir.Value:
        return value if value.type == DOUBLE else self.builder.sitofp(self._as_word(value), DOUBLE)

    def _value(self, x: Any) -> ir.Value:
        b = self.builder
        if isinstance(x, ex.And):
            return b.and_(self.condition(x.a), self.condition(x.b))
        if isinstance(x, ex.Or):
            return b.or_(self.condition(x.a), self.condition(x.b))
        if isinstance(x, ex.Not):
            return b.not_(self.condition(x.a))
        if isinstance(x, ex.Select):
            return self._choice(x.condition, x.true_value, x.false_value)
        if isinstance(x, ex.Cast):
            return self._cast(self.number(x.value), x.dtype)
        if isinstance(x, ex.Let):
            return SizeExpressions(b, {**self.values, x.var: self.number(x.value)}).number(x.body)
        if isinstance(x, ex.Call):
            return self._call(x)
        if isinstance(x, ex.BinaryOp) and type(x) in _BINARY:
            return _BINARY[type(x)](b, *self._alike(self.number(x.a), self.number(x.b)))
        raise Unsupported(f"{type(x).__name__} in an executable's expression: {x}")

    def _alike(self, a: ir.Value, c: ir.Value) -> tuple[ir.Value, ir.Value]:
        convert = self._as_double if DOUBLE in (a.type, c.type) else self._as_word
        return convert(a), convert(c)

    def _choice(self, condition: Any, first: Any, second: Any) -> ir.Value:
        # Both are computed: no operation here traps, and a value that is not chosen is not read.
        a, c = self.number(first), self.number(second)
        return self.builder.select(self.condition(condition), *((a, c) if a.type == c.type else self._alike(a, c)))

    def _cast(self, value: ir.Value, dtype: ex.DType) -> ir.Value:
        b = self.builder
        if dtype.is_float:
            return self._as_double(value)
        if dtype.is_bool:
            return b.icmp_signed("!=", self._as_word(value), ir.Constant(WORD, 0))
        whole = self._as_word(value)
        if dtype.bits == 64:
            return whole
        narrow = b.trunc(whole, ir.IntType(dtype.bits))
        return b.sext(narrow, WORD) if dtype.kind == "int" else b.zext(narrow, WORD)

    def _call(self, x: ex.Call) -> ir.Value:
        b = self.builder
        if x.op == "if_then_else":
            return self._choice(*x.args)
        if x.op == "likely":
            return self.number(x.args[0])
        if x.op == "abs":
            value = self.number(x.args[0])
            minus = _sub(b, ir.Constant(value.type, 0), value)
            return b.select(_compare("<")(b, value, ir.Constant(value.type, 0)), minus, value)
        if x.op in _BITS:
            return _BITS[x.op](b, self.word(x.args[0]), self.word(x.args[1]))
        raise Unsupported(f"{x.op} in an executable's expression: {x}")


Binary = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def _by_type(integer: str, floating: str) -> Binary:
    return lambda b, x, y: getattr(b, floating if x.type == DOUBLE else integer)(x, y)


def _compare(op: str) -> Binary:
    return lambda b, x, y: (b.fcmp_ordered if x.type == DOUBLE else b.icmp_signed)(op, x, y)


def _divisor(b: ir.IRBuilder, y: ir.Value) -> ir.Value:
    """1 instead of 0: a division by zero traps, even in an expression whose value is not read."""
    zero = b.icmp_signed("==", y, ir.Constant(WORD, 0))
    return b.select(zero, ir.Constant(WORD, 1), y)


def _truncated(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.fdiv(x, y) if x.type == DOUBLE else b.sdiv(x, _divisor(b, y))


def _remainder(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    if x.type == DOUBLE:
        raise Unsupported("a remainder of floats in an executable's expression")
    return b.srem(x, _divisor(b, y))


def _floor_mod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    remainder, zero = _remainder(b, x, y), ir.Constant(WORD, 0)
    differ = b.icmp_signed("<", b.xor(remainder, y), zero)
    wrong = b.and_(differ, b.icmp_signed("!=", remainder, zero))
    return b.select(wrong, b.add(remainder, y), remainder)


def _floor_div(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.sdiv(b.sub(x, _floor_mod(b, x, y)), _divisor(b, y))


def _extreme(op: str) -> Binary:
    return lambda b, x, y: b.select(_compare(op)(b, y, x), y, x)


_sub = _by_type("sub", "fsub")
_BINARY: dict[type, Binary] = {
    ex.Add: _by_type("add", "fadd"),
    ex.Sub: _sub,
    ex.Mul: _by_type("mul", "fmul"),
    ex.Div: _truncated,
    ex.Mod: _remainder,
    ex.FloorDiv: _floor_div,
    ex.FloorMod: _floor_mod,
    ex.Min: _extreme("<"),
    ex.Max: _extreme(">"),
    ex.EQ: _compare("=="),
    ex.NE: _compare("!="),
    ex.LT: _compare("<"),
    ex.LE: _compare("<="),
    ex.GT: _compare(">"),
    ex.GE: _compare(">="),
}
_BITS: dict[str, Binary] = {
    "shift_left": lambda b, x, y: b.shl(x, y),
    "shift_right": lambda b, x, y: b.ashr(x, y),
    "bitwise_and": lambda b, x, y: b.and_(x, y),
    "bitwise_or": lambda b, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, x, y: b.xor(x, y),
}
