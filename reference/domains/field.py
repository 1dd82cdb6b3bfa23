"""The field domain: floats are elements of finite fields, namely integers modulo two primes, at a random point in each.

Sums, products and quotients are those of the field. So every algebraic identity of the real numbers holds here bit by
bit: any association, fused multiply-adds, tilings, split reductions, Winograd's transforms. Rational constants are
exact (`field_numbers.meaning_of`), and conversions between floats change nothing. A function such as exp is a hash of
its argument (but rsqrt(x) is 1 / sqrt(x), sigmoid(x) is 1 / (1 + exp(-x)), and an integer power is a product).

A field has no order. If a program needs one, `Field` raises `NeedsCompanion`; `reference.domains.field_order` has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported

from ..meaning.intrinsics import halves_of_words, meaning
from . import field_numbers as f
from .domain import Value
from .exact import is_identity

if TYPE_CHECKING:
    from ..judging.programs import Parameter

CELL = np.dtype([("r", np.uint64, (f.SEEDS,))])
_FLOAT64 = x.DType("float64")

HASHED = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "erf", "sqrt", "atan2", "pow",
)  # fmt: skip
FUNCTIONS = frozenset((*HASHED, "rsqrt", "sigmoid", "hypot"))  # with those that are made of them


_POISON = f.hashed("poison", np.arange(f.SEEDS, dtype=np.uint64))


LARGEST_POWER = 64  # the whole exponents up to which pow is a product


class NeedsCompanion(Exception):
    """The program needs the order of elements, or whether one is zero."""


class Field:
    """Elements without an order."""

    cell = CELL
    lasting = False

    def stored(self, dtype: x.DType) -> np.dtype:
        return self.cell

    def poison(self, size: int, dtype: x.DType) -> np.ndarray:
        poisoned = np.zeros(size, self.cell)
        poisoned["r"] = _POISON  # an element like any other, but not zero; shadow cells tell what was not written
        return poisoned

    # --- elements ----------------------------------------------------------------------------------------------

    def random(self, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        """Return random elements for an input."""
        return _wrapped(f.random_residues(rng, shape))

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Return the exact elements for finite floats."""
        return _wrapped(f.of_floats(values))

    def constant(self, e: x.FloatImm) -> Value:
        if is_identity(e):
            raise NeedsCompanion
        return _wrapped(f.of_fraction(f.meaning_of(_finite(e), e.dtype)))

    def embed(self, values: Value, dtype: x.DType) -> Value:
        """Convert integers and bools to elements."""
        return _wrapped(f.of_integers(values))

    # --- operators ---------------------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        return _wrapped(f.plus(a["r"], b["r"]))

    def subtract(self, a: Value, b: Value) -> Value:
        return _wrapped(f.minus(a["r"], b["r"]))

    def multiply(self, a: Value, b: Value) -> Value:
        return _wrapped(f.times(a["r"], b["r"]))

    def divide(self, a: Value, b: Value) -> Value:
        if not b["r"].all():
            raise NeedsCompanion
        return _wrapped(f.times(a["r"], f.inverse(b["r"])))

    def hash(self, op: str, *args: Value) -> Value:
        """Return a hash of the arguments: the result of a function about which only its value at zero is known."""
        result = f.hashed(op, *(a["r"] for a in args))
        if len(args) == 1 and (zero := ~args[0]["r"].any(axis=-1)).any():
            at_zero = value_at_zero(op)
            if at_zero is None:
                raise NeedsCompanion
            result = np.where(zero[..., None], np.uint64(at_zero), result)
        return _wrapped(result)

    def binary(self, kind: type, dtype: x.DType, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        functions = {x.Add: self.add, x.Sub: self.subtract, x.Mul: self.multiply, x.Div: self.divide}
        if kind not in functions:
            return self.ordered_binary(kind, at)
        function = functions[kind]
        return lambda a, b, needed: function(a, b)

    def cast(self, source: x.DType, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        if source.is_float and target.is_float:
            return lambda v, needed: v
        if target.is_float:
            return lambda v, needed: self.embed(v, source)
        return self.ordered_cast(target, at)

    def call(self, op: str, dtype: x.DType, args: Sequence[x.DType], at: x.Expr) -> Callable[..., Value]:
        if op == "fma":
            return lambda needed, a, b, c: self.add(self.multiply(a, b), c)
        if op == "dot2_bf16":
            return lambda needed, acc, a, b: self._with_products(acc, a, b, needed, at)
        if op in ("likely", "round_tf32"):  # like a cast to fewer bits
            return lambda needed, a: a
        if op == "rsqrt":
            return lambda needed, a: self.divide(self._one(), self.hash("sqrt", a))
        if op == "sigmoid":
            one, zero = self._one(), self.embed(0, x.DType("int32"))
            return lambda needed, a: self.divide(one, self.add(one, self.hash("exp", self.subtract(zero, a))))
        if op == "hypot":
            return lambda needed, a, b: self.hash("sqrt", self.add(self.multiply(a, a), self.multiply(b, b)))
        if op == "pow":
            return lambda needed, a, b: self._power(a, b)
        if op in HASHED:
            return lambda needed, *values: self.hash(op, *values)
        return self.ordered_call(op, at)

    def _with_products(self, acc: Value, a: Value, b: Value, needed: Any, at: x.Expr) -> Value:
        """Add the products of the bfloat16 numbers in two words to an element. Words are integers, so the numbers are
        known.
        """
        for left, right in zip(halves_of_words(a), halves_of_words(b), strict=True):
            pair = np.broadcast_arrays(left, right)
            finite = np.isfinite(pair[0]) & np.isfinite(pair[1])
            if not np.all(finite if needed is None else finite | ~np.asarray(needed)):
                raise Unsupported(f"field mode: a bfloat16 of a word that is infinite or not a number: {at}")
            acc = self.add(acc, self.multiply(*(self.lift(np.where(finite, half, 0))[()] for half in pair)))
        return acc

    def _one(self) -> Value:
        return self.embed(1, x.DType("int32"))

    def _power(self, a: Value, b: Value) -> Value:
        """Return a product for each element whose exponent is a small integer, else a hash."""
        residues = b["r"]
        up, down = residues, f.P - residues  # of a negative exponent, its distance from the primes
        positive = (up[..., 0] == up[..., 1]) & (up[..., 0] <= LARGEST_POWER)
        negative = (down[..., 0] == down[..., 1]) & (down[..., 0] <= LARGEST_POWER)
        whole = np.asarray(positive | negative)
        exponent = np.asarray(np.where(positive, up[..., 0], 0).astype(np.int64)
                              - np.where(negative, down[..., 0], 0).astype(np.int64))  # fmt: skip
        exponents = [int(e) for e in np.unique(exponent[whole])]
        if len(exponents) == 1 and whole.all():
            return self._product(a, exponents[0])
        result = np.asarray(self.hash("pow", a, b))
        for one in exponents:
            result = np.where(whole & (exponent == one), self._product(a, one), result)
        return result if result.ndim else result[()]

    def _product(self, a: Value, exponent: int) -> Value:
        result = self._one()
        for _ in range(abs(exponent)):
            result = self.multiply(result, a)
        return result if exponent >= 0 else self.divide(self._one(), result)

    # --- operations that need an order ---------------------------------------------------------------------------

    def ordered_binary(self, kind: type, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        raise NeedsCompanion

    def ordered_cast(self, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        raise NeedsCompanion

    def ordered_call(self, op: str, at: x.Expr) -> Callable[..., Value]:
        raise NeedsCompanion

    # --- results -------------------------------------------------------------------------------------------------

    def same(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return which elements of two results are the same."""
        return np.asarray((a["r"] == b["r"]).all(axis=-1))

    def text(self, value: Value) -> str:
        """Return an element as text for a message."""
        rational = f.as_rational(value["r"])
        if rational is not None:
            return str(rational)
        return f"{int(value['r'][0])} mod {f.PRIMES[0]} (no small fraction)"


def lift(parameters: Sequence[Parameter], domain: Field, inputs: Sequence[Any], seed: int | None) -> list[Any]:
    """Convert inputs to elements, or make random ones if there is a `seed`; outputs get storage that was not written
    yet.
    """
    rng = np.random.default_rng((seed or 0, 0xF1E1D))
    lifted: list[Any] = []
    for p, array in zip(parameters, inputs, strict=True):
        if not p.dtype.is_float:
            lifted.append(array)
        elif not p.is_input:
            lifted.append(domain.poison(np.size(array), p.dtype).reshape(np.shape(array)))
        else:
            random = seed is not None
            elements = np.asarray(domain.random(rng, np.shape(array)) if random else domain.lift(np.asarray(array)))
            lifted.append(elements if p.shape is not None else elements[()])
    return lifted


def _wrapped(residues: np.ndarray) -> Value:
    cells = np.ascontiguousarray(residues).view(CELL)[..., 0]
    return cells if cells.ndim else cells[()]


def _finite(e: x.FloatImm) -> Any:
    if e.value != e.value:
        raise Unsupported(f"field mode: the constant {e} is not a number")
    return e.value


def value_at_zero(op: str) -> int | None:
    """Return a function's value at zero if it is an integer, else None."""
    value = float(meaning(op, _FLOAT64, _FLOAT64)(np.float64(0)))
    return int(value) if np.isfinite(value) and value == int(value) and value >= 0 else None
