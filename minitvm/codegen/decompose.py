"""Rewrite operations that a language lacks, or computes slowly, into operations that it has. The result is again IR.

A dialect lists the rules that it needs: for values in its table `lacks`, for indices in `index_rules`. The walk over
expressions applies each rule once to each operation, in the order of the table, before the dialect spells the
operation. So a rule must come before the rules that its result needs. For example, `(SHIFTED, TRUNCATED)` on indices:

    i // 4    ->    i >> 2
    i // 3    ->    truncdiv(i, 3)    if i is never negative
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import expr as ex
from ..arith import Analyzer
from ..tir.op import select

# A function from one operation to the same value in other operations; it returns None if it does not apply.
Rewrite = Callable[[Any, Analyzer], ex.Expr | None]
_DROPPED = 13  # bits of mantissa that tensor cores leave out of a float32
_ORDERS = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)


@dataclass(frozen=True)
class Decomposition:
    """A rewrite for some operations, which are given by their node classes or intrinsic names."""

    operations: tuple[type | str, ...]
    rewrite: Rewrite


def decomposed(x: ex.Expr, rules: Sequence[Decomposition], analyzer: Analyzer) -> ex.Expr:
    """Apply the rules to the outermost operation of an expression, leaving its operands as they are."""
    for rule in rules:
        if (x.op if isinstance(x, ex.Call) else type(x)) in rule.operations:
            other = rule.rewrite(x, analyzer)
            x = x if other is None else other
    return x


def _fixed_point(x: ex.Call, _: Analyzer) -> ex.Expr:
    """Rewrite `q_multiply_shift` as integer multiplications and shifts.

    Legal: by definition, `q_multiply_shift(x, y, q, s)` on int32 (TVM's `fixed_point_multiply`) is x * 2**s * y / 2**q,
    with ties rounded up.

        ((int64(x) << max(s, 0)) * y + (1 << (q + max(-s, 0) - 1))) >> (q + max(-s, 0)), as int32

    The last shift is by 1 to 63 places, and the first one by fewer than 64.
    """
    own, long = x.dtype, ex.DType("int64").with_lanes(x.dtype.lanes)
    value, factor, q, s = x.args
    zero, one = ex.const(0, own), ex.const(1, long)
    left, right = select(s > zero, s, zero).astype(long), select(s > zero, zero, zero - s).astype(long)
    places = q.astype(long) + right
    product = (value.astype(long) << left) * factor.astype(long)
    return ((product + (one << (places - one))) >> places).astype(own)


def _rounded_to_tf32(x: ex.Call, _: Analyzer) -> ex.Expr:
    """Rewrite `round_tf32` as integer operations on the bits of the float.

    Legal: half a unit of the last digit that stays is added to the magnitude, and the dropped bits become zero.

    The bits of a float are a sign and a magnitude. The magnitude, read as an integer, grows with the number, and
    infinity comes directly after the largest number. `round_tf32(x)` is a float32 as NVIDIA's tensor cores read it (PTX
    ISA, "cvt.rna.tf32.f32"): it keeps 10 of the 23 bits of mantissa, and rounds to the nearest value, ties away from
    zero. A number that rounds to more than the largest one becomes infinite.
    """
    (value,) = x.args
    word = ex.DType("int32").with_lanes(x.dtype.lanes)
    bits = ex.Call(word, "reinterpret", (value,))
    rounded = ex.call("bitwise_and", bits + ex.const(1 << (_DROPPED - 1), word), ex.const(-(1 << _DROPPED), word))
    return select(ex.call("isfinite", value), ex.Call(x.dtype, "reinterpret", (rounded,)), value)


def _integer_tests(x: ex.Call, _: Analyzer) -> ex.Expr | None:
    """Replace `isfinite` and similar tests on integers with a constant; return None for floats.

    Legal: an integer is always finite, and never NaN.
    """
    return None if x.args[0].dtype.is_float else ex.const(x.op == "isfinite", x.dtype)


def _unsigned_abs(x: ex.Call, _: Analyzer) -> ex.Expr | None:
    """Drop `abs` of an unsigned integer or bool; return None for any other dtype.

    Legal: these values are never negative, so `abs` returns them unchanged.
    """
    return x.args[0] if x.dtype.is_bool or x.dtype.kind == "uint" else None


def _shifted(x: ex.BinaryOp, _: Analyzer) -> ex.Expr | None:
    """Replace a division by a power of two with a shift, and a remainder with a mask; return None for other divisors.

    Legal: a shift to the right rounds down, and the low bits are the remainder, even for negative numbers.
    """
    divisor = _positive(x.b)
    if divisor & (divisor - 1) or not divisor:
        return None
    if isinstance(x, ex.FloorDiv):
        return ex.Call(x.dtype, "shift_right", (x.a, ex.const(divisor.bit_length() - 1, x.dtype)))
    return ex.Call(x.dtype, "bitwise_and", (x.a, ex.const(divisor - 1, x.dtype)))


def _truncated(x: ex.BinaryOp, analyzer: Analyzer) -> ex.Expr | None:
    """Replace floor division with truncating division if the dividend is known not to be negative; otherwise return
    None.

    Legal: for a quotient that is not negative, truncation toward zero rounds down.
    """
    low, _ = analyzer.bounds(x.a)
    if not _positive(x.b) or low is None or low < 0:
        return None
    return (ex.Div if isinstance(x, ex.FloorDiv) else ex.Mod)(x.a, x.b)


def _positive(divisor: ex.Expr) -> int:
    """Return the value of a positive constant, or 0 for any other divisor."""
    return max(0, divisor.value) if isinstance(divisor, ex.IntImm) else 0


def _floored(x: ex.BinaryOp, _: Analyzer) -> ex.Expr | None:
    """Express floor division or its remainder with truncating division; return None if the dtype is not an integer.

    Legal: a truncated quotient is one too large exactly if the remainder is not zero and differs in sign from the
    divisor.

    The result contains the operands three times, so a language with functions should use a function instead.
    """
    if not x.dtype.is_int:
        return None
    zero, rest = ex.const(0, x.dtype), ex.Mod(x.a, x.b)
    if x.dtype.kind == "uint":
        return ex.Div(x.a, x.b) if isinstance(x, ex.FloorDiv) else rest
    corrected = ex.And(ex.NE(rest, zero), ex.NE(ex.LT(rest, zero), ex.LT(x.b, zero)))
    if isinstance(x, ex.FloorDiv):
        return ex.Div(x.a, x.b) - ex.Cast(x.dtype, corrected)
    return ex.Select(corrected, rest + x.b, rest)


def _near(x: ex.Call, _: Analyzer) -> ex.Expr | None:
    """Limit the amount of a shift to the width of its dtype; return None if it is known to be below the width.

    Legal: a shift by the width or more leaves zeros. A signed right shift leaves the sign, as a shift by width - 1
    does.
    """
    value, amount = x.args
    last = ex.const(x.dtype.bits - 1, x.dtype)
    if _is_below(amount, x.dtype.bits):
        return None
    if x.op == "shift_right" and x.dtype.kind == "int":
        return ex.call(x.op, value, ex.Min(amount, last))
    near = ex.call(x.op, value, ex.call("bitwise_and", amount, last))
    return ex.Select(ex.LE(amount, last), near, ex.const(0, x.dtype))


def _is_below(amount: ex.Expr, bits: int) -> bool:
    """Return whether the form of a shift amount (a constant or a masked amount) guarantees that it is below `bits`."""
    if isinstance(amount, ex.Broadcast):
        return _is_below(amount.value, bits)
    if isinstance(amount, ex.Min):
        return _is_below(amount.b, bits)
    if isinstance(amount, ex.Call):
        return amount.op == "bitwise_and" and _is_below(amount.args[1], bits)
    return isinstance(amount, ex.IntImm) and 0 <= amount.value < bits


def _bytes_multiplied(x: ex.Call, _: Analyzer) -> ex.Expr:
    """Rewrite `dot4_u8i8` as four multiplications of bytes and their sum.

    Legal: this is its definition. The bytes of the first word are unsigned, and those of the second word are signed.
    """

    def byte(word: ex.Expr, k: int, kind: str) -> ex.Expr:
        low = ex.call("shift_right", word, ex.const(8 * k, word.dtype))
        return ex.Cast(x.dtype, ex.Cast(ex.DType(kind).with_lanes(x.dtype.lanes), low))

    a, b = x.args
    return sum(
        (byte(a, k, "uint8") * byte(b, k, "int8") for k in range(1, 4)), byte(a, 0, "uint8") * byte(b, 0, "int8")
    )


def _in_float32(x: Any, _: Analyzer) -> ex.Expr | None:
    """Compute an operation on 16-bit floats in float32, and convert the result back; return None for other dtypes.

    Legal: float32 has at least twice as many digits as a 16-bit float, plus two. So a result that is rounded first to
    float32 and then to 16 bits equals the result that is rounded only once (Figueroa, "When is double rounding
    innocuous?", 1995).
    """
    if not x.a.dtype.is_half:
        return None
    wide = ex.DType("float32").with_lanes(x.a.dtype.lanes)
    result = type(x)(ex.Cast(wide, x.a), ex.Cast(wide, x.b))
    return result if isinstance(x, ex.CompareOp) else ex.Cast(x.dtype, result)


def _rounded_away(x: ex.Call, _: Analyzer) -> ex.Expr:
    """Rewrite rounding with ties away from zero as a truncation plus a correction.

    Legal: x - trunc(x) is exact, and `copysign` keeps the sign of a zero. Infinities and NaN leave no fraction.
    """
    (value,) = x.args
    whole = ex.call("trunc", value)
    up = ex.GE(ex.call("abs", value - whole), ex.const(0.5, x.dtype))
    step = ex.Select(up, ex.const(1, x.dtype), ex.const(0, x.dtype))
    return whole + ex.call("copysign", step, value)


# Operations that no language has.
FIXED_POINT = Decomposition(("q_multiply_shift",), _fixed_point)
TFLOAT32 = Decomposition(("round_tf32",), _rounded_to_tf32)
HINTS = Decomposition(("likely",), lambda x, _: x.args[0])

# Functions of floats, applied to integers; the magnitude of numbers that have no sign.
INTEGER_TESTS = Decomposition(("isnan", "isinf", "isfinite"), _integer_tests)
UNSIGNED_ABS = Decomposition(("abs",), _unsigned_abs)

# Quotients of integers, rounded down, and their remainders: by a positive constant; by any divisor.
SHIFTED = Decomposition((ex.FloorDiv, ex.FloorMod), _shifted)
TRUNCATED = Decomposition((ex.FloorDiv, ex.FloorMod), _truncated)
FLOORED = Decomposition((ex.FloorDiv, ex.FloorMod), _floored)

# Shifts by the width or more, products of the bytes of words, operators on 16-bit floats, halves away from zero.
NEAR_SHIFTS = Decomposition(("shift_left", "shift_right"), _near)
PRODUCTS_OF_BYTES = Decomposition(("dot4_u8i8",), _bytes_multiplied)
HALVES = Decomposition((*_ORDERS, ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Mod, ex.Min, ex.Max), _in_float32)
ROUNDED_AWAY = Decomposition(("round",), _rounded_away)
