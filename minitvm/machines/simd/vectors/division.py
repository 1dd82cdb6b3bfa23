"""Quotients and remainders of integers and floats, for scalars and vectors.

A CPU divides integers one by one, but floats in vectors. If a float can represent both integers exactly, their quotient
is the float quotient rounded towards zero. This is exact: a quotient that is not an integer differs from the next
integer by at least 1/b, which is more than the rounding error. Integers of 8 and 16 bits are divided in float32, 32
bits in float64, and 64 bits in float64 if all lanes are below 2^51.
"""

from __future__ import annotations

from .float_formats import fma, format_of, has_device_library, in_float32, libm, where
from .lanes import B1, F32, F64, Value

_HELD = 1 << 51  # a 64-bit integer below it is the low bits of its float64 plus 1.5 * 2^52
_ROUND = 1.5 * 2.0**52
_ROUND_BITS = 0x4338000000000000


def div(a: Value, b: Value) -> Value:
    return a / b if a.kind == "f" else truncdiv(a, b)


def truncdiv(a: Value, b: Value) -> Value:
    """Return the integer quotient rounded towards zero. x / 0 is 0, and the least integer by -1 wraps, as in NumPy."""
    divisor, zero = _safe_divisor(a, b)
    return where(zero, 0, _quotient(a, divisor))


def truncmod(a: Value, b: Value) -> Value:
    """Return the remainder with the sign of the dividend. x mod 0 is 0 for integers; floats behave like C's fmod,
    exactly.
    """
    if a.kind == "f":
        return fmod(a, b)
    divisor, zero = _safe_divisor(a, b)
    return where(zero, 0, _remainder(a, divisor))


def floordiv(a: Value, b: Value) -> Value:
    """Return the quotient rounded down. For integers, x // 0 is 0."""
    if a.kind == "f":
        return (a / b).intrinsic("floor")
    if a.kind == "u":
        return truncdiv(a, b)
    bits = _power_of_two(b)
    if bits is not None:  # a shift rounds down; LLVM does not see that a quotient with corrections is a shift
        return a >> bits
    divisor, zero = _safe_divisor(a, b)
    q = _quotient(a, divisor)
    r = a - q * divisor
    q = where((r != 0) & ((r ^ divisor) < 0), q - 1, q)
    return where(zero, 0, q)


def floormod(a: Value, b: Value) -> Value:
    """Return the remainder with the sign of the divisor. For integers, x mod 0 is 0."""
    if a.kind == "u":
        return truncmod(a, b)
    if a.kind == "f":
        r = truncmod(a, b)
        wrong_sign = (r != 0) & ((r < 0) ^ (b < 0))
        return where(wrong_sign, r + b, where(r == 0, a.constant(0).intrinsic("copysign", b), r))
    bits = _power_of_two(b)
    if bits is not None:  # the low bits are the remainder, of negative numbers too
        return a & (1 << bits) - 1
    divisor, zero = _safe_divisor(a, b)
    r = _remainder(a, divisor)
    return where(zero, 0, where((r != 0) & ((r ^ divisor) < 0), r + divisor, r))


def _power_of_two(b: Value) -> int | None:
    """Return k if every lane is the constant 2^k, or None."""
    number = b.same_number()
    if number is None or number < 1 or int(number) & int(number) - 1:
        return None
    return int(number).bit_length() - 1


def _safe_divisor(a: Value, b: Value) -> tuple[Value, Value]:
    """Return the divisor with values that trap replaced by 1, and a mask of its zeros."""
    if b.same_number() not in (None, 0, -1):
        return b, b.constant(0, B1)
    zero = b == 0
    divisor = where(zero, b.constant(1), b)
    if a.kind == "i":  # the least integer divided by -1 overflows, which x86 traps
        overflow = (a == -(1 << (a.element.bits - 1))) & (b == -1)
        divisor = where(overflow, 1, divisor)
    return divisor, zero


def _quotient(a: Value, b: Value) -> Value:
    """Return a / b for a divisor that does not trap."""
    if not _in_floats(a, b):
        return _instruction(a, b, "div")
    if a.element.bits == 64:
        return _of_held(a, b).unless_rare(_too_long(a) | _too_long(b), lambda: _instruction(a, b, "div"))
    wide = F32 if a.element.bits < 32 else F64
    return (a.cast(wide) / b.cast(wide)).cast(a.element)


def _remainder(a: Value, b: Value) -> Value:
    """Return the remainder. If integers are divided directly, one instruction returns both quotient and remainder."""
    return a - _quotient(a, b) * b if _in_floats(a, b) else _instruction(a, b, "rem")


def _in_floats(a: Value, b: Value) -> bool:
    """Return whether to divide in floats: for vectors on a CPU, unless the divisor is constant and becomes a
    product.
    """
    return bool(a.lanes) and not has_device_library(a) and b.same_number() is None


def _instruction(a: Value, b: Value, name: str) -> Value:
    return a._binary(f"{'s' if a.kind == 'i' else 'u'}{name}", b)


def _too_long(x: Value) -> Value:
    """Return a mask of the 64-bit integers whose magnitude is not below 2^51."""
    if x.kind == "u":
        return x >= _HELD
    return (x + _HELD).unsigned() >= 2 * _HELD


def _of_held(a: Value, b: Value) -> Value:
    q = (_held(a) / _held(b)).intrinsic("trunc")
    return (q + _ROUND).bitcast(a.element) - _ROUND_BITS


def _held(x: Value) -> Value:
    return (x.signed() + _ROUND_BITS).bitcast(F64) - _ROUND


def fmod(x: Value, y: Value) -> Value:
    """Return x - y trunc(x / y), exactly, with the sign of x. It is NaN if x is infinite or y is 0."""
    return x._binary("frem", y) if has_device_library(x) else in_float32(_fmod)(x, y)


def _fmod(x: Value, y: Value) -> Value:
    # The remainder has at most the bits of x or y, so `fma` computes it exactly. The quotient is rounded before it is
    # truncated: it may be the next integer, which leaves a negative remainder, one divisor too small. Where the
    # quotient has more bits than a float, or is infinite or NaN, libm computes.
    a, b = x.intrinsic("fabs"), y.intrinsic("fabs")
    quotient = (a / b).intrinsic("trunc")
    rest = fma(-quotient, b, a)
    rest = where(rest < 0.0, rest + b, rest)
    rest = where(a < b, a, rest).intrinsic("copysign", x)
    few_bits = quotient < 2.0 ** (format_of(x).mantissa + 1)
    return rest.unless_rare(~few_bits, lambda: libm("fmod")(x, y))
