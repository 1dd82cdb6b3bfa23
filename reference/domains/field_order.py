"""An order for the field domain: each element has a companion, its real value at one ordinary input.

Residues tell whether two formulas are the same, and companions tell which formula applies. A comparison, a maximum or a
rounding is decided by the companions, in the same way in both programs. So the check holds for all inputs near the
chosen one (and in all parts of the tensors, because each element has its own companion). A companion is a float64 with
an error bound; inputs are short binary fractions, so that their sums and products are exact. A comparison that the
bound does not decide raises `Unsupported`, "could not decide". But if a maximum cannot tell two elements apart, it
chooses one by a random total order of the field, regardless of the order of its operands. An infinity, or the largest
number of a dtype, is above or below all elements; a NaN stays NaN, and a result that is NaN is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported

from ..meaning.intrinsics import meaning
from . import field_numbers as f
from .domain import Value
from .exact import is_identity
from .field import Field, _finite

CELL = np.dtype([("r", np.uint64, (f.SEEDS,)), ("c", np.float64), ("e", np.float64)])
_FLOAT64 = x.DType("float64")
EPSILON = 2.0**-52
UNKNOWN = 1e150  # the error of a companion that says nothing
_ROUNDINGS = ("floor", "ceil", "trunc", "round", "nearbyint")


class Undecided(Unsupported):
    """The companions do not decide a comparison; those of other inputs may."""


# Intervals for the companions of inputs: any numbers; for roots and logarithms; for arcsines.
SPANS = ((-8.0, 8.0), (0.25, 8.0), (-1.0, 1.0))


class OrderedField(Field):
    """Elements with companions; inputs get companions from the interval `span`."""

    cell = CELL

    def __init__(self, span: tuple[float, float] = SPANS[0]) -> None:
        self.span = span

    def poison(self, size: int, dtype: x.DType) -> np.ndarray:
        poisoned = np.zeros(size, CELL)
        poisoned["c"] = np.nan
        return poisoned

    # --- elements ----------------------------------------------------------------------------------------------

    def random(self, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        # Multiples of 2^-12: ties are rare, and products of two are exact.
        low, high = (int(bound * 2**12) for bound in self.span)
        return np.asarray(_made(f.random_residues(rng, shape), rng.integers(low, high, shape) / 2.0**12, 0.0))

    def lift(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(_made(f.of_floats(values), values.astype(np.float64), 0.0))

    def with_sign(self, values: np.ndarray, sign: int) -> np.ndarray:
        """Return the elements with the given sign: where a companion has the other sign, the element is negated."""
        other = self.subtract(self.embed(0, x.DType("int32")), values)
        return np.asarray(np.where(values["c"] * sign < 0, other, values))

    def constant(self, e: x.FloatImm) -> Value:
        if is_identity(e):
            return _made(np.zeros(f.SEEDS, np.uint64), np.copysign(np.inf, float(e.value)), 0.0)
        value = f.meaning_of(_finite(e), e.dtype)
        near = float(value)
        return _made(f.of_fraction(value), near, 0.0 if near == value else abs(near) * EPSILON)

    def embed(self, values: Value, dtype: x.DType) -> Value:
        wide = np.asarray(values).astype(np.float64)
        return _made(f.of_integers(values), wide, np.where(np.abs(wide) < 2.0**53, 0.0, np.abs(wide) * EPSILON))

    # --- operators ---------------------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        return self._sum(f.plus(a["r"], b["r"]), a["c"], b["c"], a["e"] + b["e"])

    def subtract(self, a: Value, b: Value) -> Value:
        return self._sum(f.minus(a["r"], b["r"]), a["c"], -b["c"], a["e"] + b["e"])

    def _sum(self, residues: np.ndarray, a: Any, b: Any, error: Any) -> Value:
        total = a + b
        back = total - a
        lost = np.abs((a - (total - back)) + (b - back))  # exactly what the sum rounded off (Knuth's TwoSum)
        return _made(residues, total, error + lost)

    def multiply(self, a: Value, b: Value) -> Value:
        (c, e), (d, h) = (a["c"], a["e"]), (b["c"], b["e"])
        product = c * d
        short = (c == c.astype(np.float32)) & (d == d.astype(np.float32))
        error = np.abs(c) * h + np.abs(d) * e + e * h + np.where(short, 0.0, np.abs(product) * EPSILON)
        return _made(f.times(a["r"], b["r"]), product, error)

    def divide(self, a: Value, b: Value) -> Value:
        (c, e), (d, h) = (a["c"], a["e"]), (b["c"], b["e"])
        zero, ended = ~b["r"].all(axis=-1) & np.isfinite(d), np.isinf(d) & np.isfinite(c)
        vague = (np.abs(d) <= h) & ~zero
        quotient = c / np.where(vague, 1.0, d)
        error = (e + np.abs(quotient) * h) / np.where(vague, 1.0, np.abs(d) - h) + np.abs(quotient) * EPSILON
        quotient = np.where(vague, 0.0, np.where(zero, np.nan, quotient))
        error = np.where(vague, UNKNOWN, np.where(ended, 0.0, error))
        residues = f.times(a["r"], f.inverse(b["r"]))
        return _made(np.where(ended[..., None], np.uint64(0), residues), quotient, error)

    def hash(self, op: str, *args: Value) -> Value:
        function = meaning(op, _FLOAT64, _FLOAT64)
        points, errors = [a["c"] for a in args], [a["e"] for a in args]
        value = function(*points)
        above = np.abs(function(*(c + e for c, e in zip(points, errors, strict=True))) - value)
        below = np.abs(function(*(c - e for c, e in zip(points, errors, strict=True))) - value)
        error = 2 * np.fmax(above, below) + 8 * np.abs(value) * EPSILON
        # A companion is outside of the function's domain, or too inexact for the slope to bound the error.
        vague = ~np.isfinite(value) | ~np.isfinite(above) | ~np.isfinite(below)
        for c, e in zip(points, errors, strict=True):
            vague = vague | (e > 1e-3 * (1 + np.abs(c)))
        residues = f.hashed(op, *(a["r"] for a in args))
        hashed = np.asarray(_made(residues, np.where(vague, 0.0, value), np.where(vague, UNKNOWN, error)))
        invalid = np.isnan(points[0])
        special = ~np.isfinite(points[0]) | ~args[0]["r"].any(axis=-1)
        for c in points[1:]:
            invalid, special = invalid | np.isnan(c), special | np.isnan(c)
        if np.any(special):
            # At the ends and at zero the function itself is known.
            at = np.where(np.isfinite(points[0]), 0.0, points[0])
            at_ends = function(at, *points[1:]) if len(args) == 1 else np.full(hashed.shape, np.nan)
            whole = np.isinf(at_ends) | (at_ends == np.rint(at_ends))
            exact = np.asarray(self._whole(at_ends))
            hashed = np.where(special & whole & ~invalid, exact, hashed)
            hashed["c"] = np.where(invalid, np.nan, hashed["c"])
        return hashed if hashed.ndim else hashed[()]

    def _whole(self, value: Any) -> Value:
        """Return the element for an integer, or for an infinity."""
        finite = np.where(np.isfinite(value), value, 0.0)
        return _made(f.of_integers(finite.astype(np.int64)), value, 0.0)

    # --- decisions -----------------------------------------------------------------------------------------------

    def _sign(self, a: Value, b: Value) -> tuple[Any, Any]:
        """Return the sign of a - b, and a mask of where it is known."""
        apart = a["c"] - b["c"]
        ends = (a["c"] == b["c"]) & np.isinf(a["c"])
        equal = ends | ((a["r"] == b["r"]).all(axis=-1) & np.isfinite(a["c"]) & np.isfinite(b["c"]))
        certain = (np.abs(apart) > a["e"] + b["e"]) | equal
        return np.where(equal, 0.0, np.sign(apart)), certain

    def decided(self, certain: Any, needed: Any, at: x.Expr) -> None:
        open_ = ~np.asarray(certain)
        if needed is not None and open_.ndim:
            open_ = open_ & needed
        if open_.any():
            raise Undecided(f"field mode: could not decide {at}: the companion values are equal or too vague")

    def ordered_binary(self, kind: type, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        if kind in (x.Min, x.Max):
            return lambda a, b, needed: self._extreme(a, b, largest=kind is x.Max)
        if kind in _COMPARE:
            holds = _COMPARE[kind]

            def compare(a: Value, b: Value, needed: Any) -> Value:
                sign, certain = self._sign(a, b)
                self.decided(certain, needed, at)
                result = holds(sign)
                return result if np.ndim(result) else bool(result)

            return compare
        if kind in (x.Mod, x.FloorMod, x.FloorDiv):
            rounding = self.ordered_call("trunc" if kind is x.Mod else "floor", at)

            def divided(a: Value, b: Value, needed: Any) -> Value:
                whole = rounding(needed, self.divide(a, b))
                return whole if kind is x.FloorDiv else self.subtract(a, self.multiply(whole, b))

            return divided
        raise Unsupported(f"field mode: {kind.__name__} on floats: {at}")

    def _extreme(self, a: Value, b: Value, largest: bool) -> Value:
        sign, certain = self._sign(a, b)
        # Companions do not tell these apart: use a random total order that ignores the operands' places.
        one, other = (f.hashed("order", v["r"])[..., 0] for v in (a, b))
        sign = np.where(certain, sign, np.where(one > other, 1.0, -1.0))
        first = sign >= 0 if largest else sign <= 0
        first = (first | np.isnan(a["c"])) & ~np.isnan(b["c"])
        if np.ndim(first):
            return np.where(first, a, b)
        return a if first else b

    def ordered_cast(self, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        zero = self.embed(0, x.DType("int32"))
        if target.is_bool:
            return self._truth(zero, at)
        low, high, numpy = float(target.min), float(target.max), target.scalar.numpy

        def truncate(v: Value, needed: Any) -> Value:
            whole, certain = self._rounded(np.trunc, v)
            self.decided(certain & np.isfinite(whole), needed, at)
            inside = (whole >= low) & (whole <= high)
            if not np.all(inside if needed is None else inside | ~np.asarray(needed)):
                raise Undecided(f"field mode: could not decide {at}: a companion value is outside of {target}")
            result = np.where(inside, whole, 0.0).astype(numpy)
            return result if result.ndim else int(result)

        return truncate

    def _truth(self, zero: Value, at: x.Expr) -> Callable[[Value, Any], Value]:
        differs = self.ordered_binary(x.NE, at)
        return lambda v, needed: differs(v, zero, needed)

    def _rounded(self, function: Any, v: Value) -> tuple[Any, Any]:
        c, e = self._at_a_half(v)
        whole = function(c)
        exact = (function(c - e) == whole) & (function(c + e) == whole) & (np.abs(whole) < 2.0**53)
        return whole, exact | np.isinf(c)

    def _at_a_half(self, v: Value) -> tuple[Any, Any]:
        """Return the companion and its error. If the residues show that the element is a nearby multiple of 1/2, it is
        exact.
        """
        c, e = v["c"], v["e"]
        near = np.rint(2 * c)
        close = (np.abs(2 * c - near) <= 2 * e) & (e > 0) & (np.abs(near) < 2.0**53)
        if not np.any(close):
            return c, e
        twice = f.plus(v["r"], v["r"])
        close = close & (f.of_integers(np.where(close, near, 0).astype(np.int64)) == twice).all(axis=-1)
        return np.where(close, near / 2, c), np.where(close, 0.0, e)

    def ordered_call(self, op: str, at: x.Expr) -> Callable[..., Value]:
        if op in _ROUNDINGS:
            function = meaning(op, _FLOAT64, _FLOAT64)

            def rounded(needed: Any, v: Value) -> Value:
                whole, certain = self._rounded(function, v)
                self.decided(certain | np.isnan(v["c"]), needed, at)
                return self._whole(np.where(certain, whole, np.nan)[()])

            return rounded
        if op in ("abs", "copysign"):
            zero = self.embed(0, x.DType("int32"))

            def magnitude(needed: Any, v: Value, like: Value | None = None) -> Value:
                sign, certain = self._sign(v, zero)
                like_sign, sure = (1.0, True) if like is None else self._sign(like, zero)
                self.decided(certain & sure, needed, at)
                negate = np.asarray(sign * np.where(np.asarray(like_sign) < 0, -1.0, 1.0) < 0)
                other = self.subtract(zero, v)
                return np.where(negate, other, v) if negate.ndim else (other if negate else v)

            return magnitude
        if op == "fmod":
            function = self.ordered_binary(x.Mod, at)
            return lambda needed, a, b: function(a, b, needed)
        if op in ("isnan", "isinf", "isfinite"):
            test = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[op]

            def tested(needed: Any, v: Value) -> Value:
                result = test(v["c"])
                return result if result.ndim else bool(result)

            return tested
        raise Unsupported(f"field mode: {op} looks at how a float is stored: {at}")

    # --- results -------------------------------------------------------------------------------------------------

    def same(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        ends = np.isinf(a["c"]) | np.isinf(b["c"])
        return np.asarray(np.where(ends, a["c"] == b["c"], super().same(a, b)) & (np.isnan(a["c"]) == np.isnan(b["c"])))

    def text(self, value: Value) -> str:
        return super().text(value) if np.isfinite(value["c"]) else str(value["c"])


_COMPARE: dict[type, Callable[[Any], Any]] = {
    x.EQ: lambda s: s == 0, x.NE: lambda s: s != 0, x.LT: lambda s: s < 0,
    x.LE: lambda s: s <= 0, x.GT: lambda s: s > 0, x.GE: lambda s: s >= 0,
}  # fmt: skip


def _made(residues: np.ndarray, companion: Any, error: Any) -> Value:
    cells = np.empty(residues.shape[:-1], CELL)
    cells["r"], cells["c"] = residues, companion
    cells["e"] = np.where(np.isfinite(companion), np.minimum(error, UNKNOWN), 0.0)
    return cells if cells.ndim else cells[()]
