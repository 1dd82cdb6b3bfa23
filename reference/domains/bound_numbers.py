"""The arithmetic of bound mode: numbers that carry a bound of their error.

A cell stands for the results of all admissible float computations: additions in any order and association, products
fused into them or not, vector functions within their declared error. A cell is kept as a sum, because sums are what
gets reassociated: `value` is the sum of the terms in float64, `terms` the sum of the terms' own errors, `mass` the sum
of their magnitudes, and `adds` the number of additions. With the unit of rounding u, a sum of floats in any order is
off by at most adds * u * mass (Jeannerod and Rump, "Improved error bounds for inner products in floating-point
arithmetic", 2013), so the error of the whole cell is at most

    terms + adds * u * mass          or, of a single addition,   terms + u * |value|.

Every other operation uses this bound of its operands, and begins a new sum with one term. `sums` is the largest number
of additions in any sum so far. An infinite bound means undecided: near a branch, a pole or the largest float. An
infinity or NaN that every computation gives has the bound 0. The bounds include the float64 errors of the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from minitvm.errors import Unsupported
from minitvm.expr import DType

Value = Any
CELL = np.dtype([(name, np.float64) for name in ("value", "terms", "mass", "adds", "sums")])
_U64 = 2.0**-53


class Undecided(Unsupported):
    """A value decides a branch, an index or an integer, but its error is too large to decide it."""


@dataclass(frozen=True, slots=True)
class Format:
    """A float format: its unit of rounding (including the analysis's own error), smallest subnormal and largest
    number.
    """

    u: float
    tiny: float
    largest: float
    numpy: Any


_FORMATS = {
    "bfloat16": Format(2.0**-8 + _U64, 2.0**-133, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), ml_dtypes.bfloat16),
    "float16": Format(2.0**-11 + _U64, 2.0**-24, 65504.0, np.float16),
    "float32": Format(2.0**-24 + _U64, 2.0**-149, float(np.finfo(np.float32).max), np.float32),
    "float64": Format(2.0 * _U64, 2.0**-1074, float(np.finfo(np.float64).max), np.float64),
}


def format_of(dtype: DType) -> Format:
    """Return the format of a float dtype; raises `Unsupported` if it has no error analysis."""
    scalar = str(dtype.scalar)
    if scalar not in _FORMATS:
        raise Unsupported(f"bound mode: no error analysis for {scalar}")
    return _FORMATS[scalar]


def exact(value: Value) -> Value:
    """Return cells without error."""
    wide = np.asarray(value).astype(np.float64)
    mass = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    return _cells(wide, 0.0, mass, 0.0, 0.0)


def _cells(value: Value, terms: Value, mass: Value, adds: Value, sums: Value) -> Value:
    shape = np.broadcast_shapes(*(np.shape(a) for a in (value, terms, mass, adds, sums)))
    cells = np.empty(shape, CELL)
    for name, field in zip(("value", "terms", "mass", "adds", "sums"), (value, terms, mass, adds, sums), strict=True):
        cells[name] = field
    return cells[()]


def pick(condition: Value, yes: Value, no: Value) -> Value:
    """Return the cells of `yes` where the condition holds, else those of `no`."""
    cells: Any = np.where(condition, yes, no)
    return cells[()]


def error_of(a: Value, f: Format) -> Value:
    """Return the bound of the error of each cell; infinite if undecided."""
    value, terms, mass, adds = (np.asarray(a[name]) for name in ("value", "terms", "mass", "adds"))
    single = f.u * (np.abs(value) + terms)
    several = adds * f.u * mass
    bound = terms + np.where(adds == 0, 0.0, np.where(adds == 1, np.minimum(single, several), several))
    certain = ~np.isfinite(value) & (terms == 0)
    return np.where(certain, 0.0, np.where(np.isnan(bound), np.inf, bound))


def single_term(value: Value, error: Value, sums: Value, f: Format) -> Value:
    """Begin a new sum with one term. A certain overflow gives an infinity; a possible one is undecided."""
    value, error = np.asarray(value, np.float64), np.asarray(error, np.float64)
    error = np.where(np.isnan(error), np.inf, error)
    size = np.abs(value)
    beyond = np.isfinite(value) & (size + error > f.largest)
    if beyond.any():
        surely = beyond & (size - error > f.largest * (1 + 2 * f.u))
        value = np.where(surely, np.copysign(np.inf, value), value)
        error = np.where(surely, 0.0, np.where(beyond, np.inf, error))
    mass = np.where(np.isfinite(value), size + error, 0.0)
    return _cells(value, error, mass, 0.0, sums)


def sums_of(*cells: Value) -> Value:
    """Return the largest number of additions in any sum that these cells are made of."""
    most = np.float64(0)
    for a in cells:
        most = np.maximum(most, np.maximum(a["sums"], a["adds"]))
    return most


def add(a: Value, b: Value, f: Format, sign: float = 1.0) -> Value:
    """Return a + b, or a - b if `sign` is -1. Adding an exact zero does not count as an addition."""
    value = a["value"] + sign * b["value"]
    terms, mass = a["terms"] + b["terms"], a["mass"] + b["mass"]
    nothing = ((a["value"] == 0) & (a["mass"] == 0)) | ((b["value"] == 0) & (b["mass"] == 0))
    adds = a["adds"] + b["adds"] + np.where(nothing, 0.0, 1.0)
    lost = (mass > f.largest) | (~np.isfinite(value) & np.isfinite(a["value"]) & np.isfinite(b["value"]))
    if np.any(lost):
        # A partial sum may overflow in some order. Exactly two floats have only one order.
        two = lost & (adds <= 1) & np.isfinite(a["value"]) & np.isfinite(b["value"])
        surely = two & (np.abs(value) - terms > f.largest * (1 + 2 * f.u))
        safely = two & (np.abs(value) * (1 + f.u) + terms <= f.largest)
        value = np.where(surely, np.copysign(np.inf, value), value)
        terms = np.where(surely, 0.0, np.where(lost & ~safely, np.inf, terms))
        mass = np.where(surely, 0.0, mass)
    return _cells(value, terms, mass, adds, np.maximum(a["sums"], b["sums"]))


def multiply(a: Value, b: Value, f: Format) -> Value:
    """Return a * b; exact if both operands are exact and the product is a float."""
    ea, eb = error_of(a, f), error_of(b, f)
    va, vb = a["value"], b["value"]
    value = np.asarray(va * vb)
    carried = np.abs(va) * eb + np.abs(vb) * ea + ea * eb
    untouched = (ea == 0) & (eb == 0) & ((f.numpy is not np.float64) | _trivial(va) | _trivial(vb))
    untouched = untouched & (value.astype(f.numpy) == value)
    error = carried + np.where(untouched, 0.0, f.u * (np.abs(value) + carried) + f.tiny)
    special = ~(np.isfinite(va) & np.isfinite(vb))
    if np.any(special):
        # An infinity times a number that may be zero is undecided.
        sure = _sign_known(va, ea) & _sign_known(vb, eb)
        sure = sure | (np.isnan(va) & (ea == 0)) | (np.isnan(vb) & (eb == 0))
        error = np.where(special, np.where(sure, 0.0, np.inf), error)
    return single_term(value, error, sums_of(a, b), f)


def _trivial(value: Value) -> Value:
    """Return where values are zero, infinite or a power of two."""
    return np.abs(np.frexp(value)[0]) == 0.5


def _sign_known(value: Value, error: Value) -> Value:
    return (error == 0) | (np.abs(value) > error)


def divide(a: Value, b: Value, f: Format) -> Value:
    """Return a / b; undecided where b may be zero but is not exactly zero."""
    ea, eb = error_of(a, f), error_of(b, f)
    va, vb = a["value"], b["value"]
    value = np.asarray(np.divide(va, vb))
    room = np.abs(vb) - eb
    carried = np.where(eb == 0, ea / np.abs(vb), np.where(room > 0, (ea + np.abs(value) * eb) / room, np.inf))
    carried = np.where((ea == 0) & (eb == 0), 0.0, carried)
    error = carried + f.u * (np.abs(value) + carried) + f.tiny
    special = ~(np.isfinite(va) & np.isfinite(vb)) | ((vb == 0) & (eb == 0))
    if np.any(special):
        error = np.where(special, np.where(_sign_known(va, ea) & _sign_known(vb, eb), 0.0, np.inf), error)
    return single_term(value, error, sums_of(a, b), f)


def floor_divide(a: Value, b: Value, f: Format) -> Value:
    """Return floor(a / b). Where the error of the quotient may cross an integer, the result's error is a whole
    number.
    """
    q = divide(a, b, f)
    return rounded_to_integral(q, np.floor, f)


def rounded_to_integral(a: Value, function: Any, f: Format) -> Value:
    """Apply floor, ceil, trunc or round; these are monotone, and exact on exact cells."""
    error = error_of(a, f)
    value = function(a["value"])
    return single_term(value, _spread(function, a["value"], value, error), sums_of(a), f)


def remainder(a: Value, b: Value, f: Format, quotient: Any) -> Value:
    """Return a - b * quotient(a / b), which floats compute without rounding; a jump of the quotient changes it by
    |b|.
    """
    ea, eb = error_of(a, f), error_of(b, f)
    q = divide(a, b, f)
    slack = error_of(q, f)
    times = quotient(q["value"])
    exactly = (ea == 0) & (eb == 0)
    wrong = (np.fmod if quotient is np.trunc else np.remainder)(a["value"], b["value"])
    steady = quotient(q["value"] - slack) == quotient(q["value"] + slack)
    jump = np.where(steady, 0.0, np.abs(b["value"]) + eb)
    error = np.where(exactly, 0.0, ea + np.abs(times) * eb + jump)
    if quotient is not np.trunc:
        # A remainder with the divisor's sign takes one more operation if the signs differ.
        error = error + f.u * (np.abs(wrong) + np.abs(b["value"]))
    return single_term(wrong, error, sums_of(a, b), f)


def extreme(a: Value, b: Value, f: Format, largest: bool) -> Value:
    """Return the maximum or minimum; if the order of the operands is certain, that operand unchanged."""
    ea, eb = error_of(a, f), error_of(b, f)
    va, vb = a["value"], b["value"]
    nan = np.isnan(va)
    first = nan | (va > vb if largest else va < vb)
    sure = nan | np.isnan(vb) | (np.abs(va - vb) > ea + eb) | ((ea == 0) & (eb == 0))
    sure = sure & np.isfinite(ea) & np.isfinite(eb)
    larger = pick(first, a, b)
    if np.all(sure):
        return larger
    return pick(sure, larger, single_term(np.where(first, va, vb), np.maximum(ea, eb), sums_of(a, b), f))


def either(holds: Value, unsure: Value, yes: Value, no: Value, f: Format) -> Value:
    """Return `yes` or `no` by a condition; where it is unsure, a cell whose bound includes both."""
    picked = pick(holds, yes, no)
    if unsure is None or not np.any(unsure):
        return picked
    one, other = error_of(yes, f), error_of(no, f)
    apart = np.abs(yes["value"] - no["value"])
    same = (yes["value"] == no["value"]) | (np.isnan(yes["value"]) & np.isnan(no["value"]))
    apart = np.where(same, 0.0, apart)
    error = np.where(holds, np.maximum(one, apart + other), np.maximum(other, apart + one))
    hull = single_term(picked["value"], error, sums_of(yes, no), f)
    return pick(unsure, hull, picked)


def too_near(a: Value, b: Value, f: Format) -> Value:
    """Return where a and b are so close together that a comparison is uncertain."""
    slack = error_of(a, f) + error_of(b, f)
    return (slack > 0) & ~(np.abs(a["value"] - b["value"]) > slack)


def converted(a: Value, source: Format, target: Format) -> Value:
    """Convert cells between float formats. This rounds once; exact cells are rounded the same way by everyone."""
    error = error_of(a, source)
    if target.u <= source.u:
        return single_term(a["value"], error, sums_of(a), target)
    value = np.asarray(a["value"])
    nearest = value.astype(target.numpy).astype(np.float64)
    fixed = error == 0
    slack = np.where(fixed, 0.0, error + target.u * (np.abs(value) + error) + target.tiny)
    special = fixed & ~np.isfinite(nearest)
    cells = single_term(np.where(fixed & ~special, nearest, value), slack, sums_of(a), target)
    return pick(special, exact(nearest), cells) if special.any() else cells


def monotone(function: Any, a: Value, f: Format, ulps: float, absolute: float = 0.0) -> Value:
    """Apply a monotone function to a cell: take its values at both ends, and add the implementation's declared
    error.
    """
    error = error_of(a, f)
    x = _widened(a["value"], f)
    value = function(x)
    spread = _spread(function, x, value, error)
    return declared(value, spread, a, f, ulps, absolute, certain=spread == 0)


def declared(value: Value, spread: Value, a: Value, f: Format, ulps: float, absolute: float, certain: Value) -> Value:
    """Return a cell for a function's value that is off by `spread` and computed within `ulps` or `absolute`."""
    value = np.asarray(value).astype(np.float64)
    own = np.maximum(2 * ulps * f.u * (np.abs(value) + spread) + max(ulps, 1.0) * f.tiny, absolute)
    special = ~np.isfinite(value)
    error = np.where(special, np.where(certain, 0.0, np.inf), spread + own)
    return single_term(value, error, sums_of(a), f)


def _widened(value: Value, f: Format) -> Value:
    return np.asarray(value).astype(np.longdouble) if f.numpy is np.float64 else np.asarray(value)


def _spread(function: Any, x: Value, value: Value, error: Value) -> Value:
    """Return how far a monotone function may be from its value at x within x +- error; infinite if it is undefined
    there.
    """
    if not np.any(error):
        return np.float64(0)
    up, down = function(x + error), function(x - error)
    most = np.maximum(np.abs(up - value), np.abs(value - down)).astype(np.float64)
    most = np.where(np.isnan(most), np.inf, most)
    same = ((up == value) & (down == value)) | (np.isnan(up) & np.isnan(down) & np.isnan(value))
    return np.where((np.asarray(error) == 0) | (same & np.isfinite(error)), 0.0, most)


def total(a: Value, f: Format) -> Value:
    """Return the sum over the last axis (kept with length 1), in any order."""
    sum_of = lambda name: a[name].sum(-1, keepdims=True)  # noqa: E731
    value, terms, mass = sum_of("value"), sum_of("terms"), sum_of("mass")
    adds = sum_of("adds") + a.shape[-1] - 1
    terms = np.where((mass > f.largest) | (~np.isfinite(value) & np.isfinite(a["value"]).all(-1, keepdims=True)),
                     np.inf, terms)  # fmt: skip
    return _cells(value, terms, mass, adds, a["sums"].max(-1, keepdims=True))


def is_cells(value: Value) -> bool:
    """Return whether a value consists of cells."""
    return getattr(value, "dtype", None) == CELL
