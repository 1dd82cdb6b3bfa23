"""The errors of the elementary functions in compiled code, and how they propagate to values with errors.

The declared errors are stated in `machines.simd.vectors.functions`; they are larger than those of the GNU C library
("Known Maximum Errors in Math Functions" in its manual). Functions of float16 are computed in float32 and rounded once,
except rsqrt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.errors import Unsupported

from ..meaning.intrinsics import _erf, _round_half_away, halves_of_words, round_tf32
from .bound_numbers import (
    Format,
    Value,
    add,
    declared,
    error_of,
    exact,
    extreme,
    monotone,
    multiply,
    remainder,
    rounded_to_integral,
    single_term,
    sums_of,
)


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared error of a function: in units in the last place, or absolute; the larger one applies."""

    float32: float
    float64: float
    absolute32: float = 0.0
    half: float = 0.6

    def of(self, f: Format) -> tuple[float, float]:
        """Return the declared error (ulps, absolute) in a float format."""
        if f.numpy not in (np.float32, np.float64):  # computed in float32, rounded once
            return self.half, self.absolute32
        return (self.float32, self.absolute32) if f.numpy is np.float32 else (self.float64, 0.0)


DECLARED: dict[str, Declared] = {
    "exp": Declared(2, 2),
    "log": Declared(2, 2),
    "tanh": Declared(3, 3),
    "sigmoid": Declared(4, 4),
    "erf": Declared(0.5, 2, absolute32=2e-7),
    "sqrt": Declared(0.5, 0.5),
    "rsqrt": Declared(1.5, 1.5, half=1.5),
    "pow": Declared(2, 2),
    "exp10": Declared(2, 3),
    **{name: Declared(2, 2) for name in ("exp2", "log2", "sin", "cos", "asin", "acos", "atan")},
    **{name: Declared(2, 2) for name in ("atan2", "hypot")},
    **{name: Declared(3, 3) for name in ("log10", "log1p", "tan", "sinh", "cosh", "asinh", "acosh", "atanh")},
}

_MONOTONE: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(np.asarray(10, x.dtype), x), "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sinh": np.sinh, "tanh": np.tanh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": _erf,
}  # fmt: skip
_INTEGRAL: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint,
    "round": lambda x: _round_half_away(x.astype(np.longdouble)).astype(np.float64),
    "round_tf32": lambda x: round_tf32(np.asarray(x).astype(np.float32)).astype(np.float64),
}  # fmt: skip


def apply(name: str, args: list[Value], f: Format) -> Value:
    """Apply a function to cells; raises `Unsupported` for a function without an error analysis."""
    a = args[0]
    if name in _MONOTONE:
        ulps, absolute = DECLARED[name].of(f)
        return monotone(_MONOTONE[name], a, f, ulps, absolute)
    if name in _INTEGRAL:  # monotone, and without an error of its own
        return rounded_to_integral(a, _INTEGRAL[name], f)
    if name in _OTHER:
        return _OTHER[name](*args, f)
    raise Unsupported(f"bound mode: no error analysis for {name}")


def _wave(function: Callable[[Any], Any], name: str) -> Callable[[Value, Format], Value]:
    """Return the error analysis of sin or cos, whose slope is at most 1."""

    def evaluate(a: Value, f: Format) -> Value:
        error = error_of(a, f)
        ulps, absolute = DECLARED[name].of(f)
        return declared(function(a["value"]), np.minimum(error, 2.0), a, f, ulps, absolute, error == 0)

    return evaluate


def _tan(a: Value, f: Format) -> Value:
    error = error_of(a, f)
    x = a["value"]
    value, up, down = np.tan(x), np.tan(x + error), np.tan(x - error)
    # tan increases between two poles, and jumps down at a pole.
    inside = (error < 1.5) & (up >= value) & (value >= down)
    spread = np.where(error == 0, 0.0, np.where(inside, np.maximum(up - value, value - down), np.inf))
    return declared(value, spread, a, f, *DECLARED["tan"].of(f), certain=error == 0)


def _cosh(a: Value, f: Format) -> Value:
    even = np.abs(a["value"])
    error = error_of(a, f)
    value, up = np.cosh(even), np.cosh(even + error)
    spread = np.where(error == 0, 0.0, np.maximum(up - value, value - np.cosh(np.maximum(even - error, 0))))
    return declared(value, spread, a, f, *DECLARED["cosh"].of(f), certain=error == 0)


def _pow(a: Value, b: Value, f: Format) -> Value:
    ea, eb = error_of(a, f), error_of(b, f)
    x, y = a["value"], b["value"]
    wide = np.longdouble if f.numpy is np.float64 else np.float64
    value = np.power(np.asarray(x, wide), np.asarray(y, wide)).astype(np.float64)
    # A power is monotone in each operand if the base is positive; with an exact whole exponent, except for the turn at
    # zero.
    whole = (eb == 0) & (y == np.rint(y)) & (np.abs(y) < 2.0**31)
    corners = [np.power(x + i * ea, y + j * eb) for i in (-1, 1) for j in (-1, 1)]
    spread = np.abs(np.asarray(corners) - value).max(0)
    crosses = np.abs(x) <= ea
    spread = np.where(whole & crosses & (y > 0), np.maximum(spread, np.abs(value)), spread)
    legal = (x - ea > 0) | (whole & ((y >= 0) | ~crosses))
    exactly = (ea == 0) & (eb == 0)
    spread = np.where(exactly, 0.0, np.where(legal, spread, np.inf))
    out = declared(value, spread, a, f, *DECLARED["pow"].of(f), certain=exactly)
    out = out.copy()
    out["sums"] = np.maximum(out["sums"], sums_of(b))
    return out[()]


def _atan2(a: Value, b: Value, f: Format) -> Value:
    ea, eb = error_of(a, f), error_of(b, f)
    y, x = a["value"], b["value"]
    value, away = np.arctan2(y, x), np.hypot(ea, eb)
    radius = np.hypot(x, y)
    near_cut = (x - eb <= 0) & (np.abs(y) <= ea)
    exactly = (ea == 0) & (eb == 0)
    turned = np.where((away < radius) & ~near_cut, np.arcsin(np.minimum(away / radius, 1.0)), np.inf)
    return declared(value, np.where(exactly, 0.0, turned), a, f, *DECLARED["atan2"].of(f), certain=exactly)


def _hypot(a: Value, b: Value, f: Format) -> Value:
    ea, eb = error_of(a, f), error_of(b, f)
    value = np.hypot(a["value"], b["value"])
    return declared(value, ea + eb, a, f, *DECLARED["hypot"].of(f), certain=(ea == 0) & (eb == 0))


def _copysign(a: Value, b: Value, f: Format) -> Value:
    ea, eb = error_of(a, f), error_of(b, f)
    value = np.copysign(a["value"], b["value"])
    certain = (eb == 0) | (np.abs(b["value"]) > eb)
    turned = np.nextafter(ea + 2 * np.abs(value), np.inf)  # the sum is rounded, and the other sign is exactly as far
    return single_term(value, np.where(certain, ea, turned), sums_of(a, b), f)


def _abs(a: Value, f: Format) -> Value:
    return single_term(np.abs(a["value"]), error_of(a, f), sums_of(a), f)


# The bfloat16 dot-product instruction flushes numbers below the first limit to zero. A sum of at least the second limit
# has a larger rounding error anyway.
_NORMAL, _ROUNDS_MORE = 2.0**-126, 2.0**-90


def _dot2_bf16(acc: Value, a: Any, b: Any, f: Format) -> Value:
    """Add the products of two words' bfloat16 halves to a sum. Intermediate results may be flushed to zero."""
    total = flushable(acc)
    for left, right in zip(halves_of_words(a), halves_of_words(b), strict=True):
        total = flushable(add(total, multiply(exact(left), exact(right), f), f))
    return total


def flushable(a: Value) -> Value:
    """Return a sum with a larger error if a part of it may have been flushed to zero because it was subnormal."""
    near = (a["mass"] > 0) & (a["mass"] < _ROUNDS_MORE)
    if not np.any(near):
        return a
    out = np.array(a)
    for field in ("terms", "mass"):
        out[field] = out[field] + np.where(near, _NORMAL, 0.0)
    return out[()]


_OTHER: dict[str, Callable[..., Value]] = {
    "sin": _wave(np.sin, "sin"), "cos": _wave(np.cos, "cos"), "tan": _tan, "cosh": _cosh, "pow": _pow,
    "atan2": _atan2, "hypot": _hypot, "copysign": _copysign, "abs": _abs, "likely": lambda a, f: a,
    "fmod": lambda a, b, f: remainder(a, b, f, np.trunc),
    "dot2_bf16": _dot2_bf16,
    "fma": lambda a, b, c, f: add(multiply(a, b, f), c, f),
}  # fmt: skip

MINIMUM: Callable[[Value, Value, Format], Value] = lambda a, b, f: extreme(a, b, f, largest=False)  # noqa: E731
MAXIMUM: Callable[[Value, Value, Format], Value] = lambda a, b, f: extreme(a, b, f, largest=True)  # noqa: E731
