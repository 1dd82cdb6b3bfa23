"""Convert normal forms to sympy and back, for operations that need polynomials: division by a sum with symbolic terms.

`FloorDiv` and `Mod` are sympy functions that are evaluated only on numbers. Rules that depend on the *range* of a
variable must not be in `Function.eval`: sympy caches construction, and `FloorDiv(x, 16)` would stay 0 after the range
of x grew. Terms become pooled dummy symbols by position (the first term of a problem is always the same symbol), so
that problems of the same form become identical, and their answers are cached across functions.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from .affine import FLOORDIV, FLOORMOD, MAX, MIN, Affine, Atom, add_into, factors, product

Monomials = tuple[tuple[int, tuple[int, ...]], ...]  # (coefficient, exponent of each dummy)


class TermNumbers:
    """A numbering of terms, in order of first use."""

    def __init__(self) -> None:
        self.terms: dict[Any, int] = {}

    def monomials(self, x: Affine) -> list[tuple[int, dict[int, int]]]:
        """Return a sum as pairs (coefficient, {number of term: exponent}). Terms without a number get the next ones."""
        rows: list[tuple[int, dict[int, int]]] = [(x.const, {})] if x.const else []
        for term, c in x.terms.items():
            powers: dict[int, int] = {}
            for factor in factors(term):
                index = self.terms.setdefault(factor, len(self.terms))
                powers[index] = powers.get(index, 0) + 1
            rows.append((c, powers))
        return rows

    def affine(self, rows: Monomials) -> Affine:
        """Return the sum of the monomials `rows`."""
        numbered = list(self.terms)
        terms: dict[Any, int] = {}
        constant = 0
        for c, exponents in rows:
            parts = [term for term, power in zip(numbered, exponents, strict=True) for _ in range(power)]
            if parts:
                add_into(terms, [(product(parts), c)], 1)
            else:
                constant += c
        return Affine(terms, constant)


def divide(x: Affine, d: Affine) -> tuple[Affine, Affine] | None:
    """Return (q, r) such that x == q*d + r, by polynomial division over the integers, or None if there is no
    quotient.
    """
    if not d.terms or len(x.terms) > 24 or len(d.terms) > 8:
        return None
    shape = TermNumbers()
    divisor, dividend = shape.monomials(d), shape.monomials(x)
    # A quotient needs all of the divisor's terms in the dividend.
    count = len(shape.terms)
    if not {i for _, powers in divisor for i in powers} <= {i for _, powers in dividend for i in powers}:
        return None
    division = _divide(dense(dividend, count), dense(divisor, count), count)
    return None if division is None else (shape.affine(division[0]), shape.affine(division[1]))


def dense(rows: list[tuple[int, dict[int, int]]], count: int) -> Monomials:
    """Return the monomials `rows` with one exponent for each of `count` variables."""
    return tuple((c, tuple(powers.get(i, 0) for i in range(count))) for c, powers in rows)


@cache
def dummies(count: int) -> tuple[Any, ...]:
    """Return the first `count` symbols from a shared pool of integer symbols."""
    import sympy

    return (*dummies(count - 1), sympy.Dummy(f"t{count - 1}", integer=True)) if count else ()


@lru_cache(maxsize=4096)
def _divide(dividend: Monomials, divisor: Monomials, count: int) -> tuple[Monomials, Monomials] | None:
    import sympy

    symbols = dummies(count)
    x = sympy.Poly({e: c for c, e in dividend}, *symbols, domain="ZZ")
    d = sympy.Poly({e: c for c, e in divisor}, *symbols, domain="ZZ")
    quotients, rest = sympy.reduced(x, [d], *symbols, order="grlex", domain="QQ")
    q, r = sympy.Poly(quotients[0], *symbols), sympy.Poly(rest, *symbols)
    if q.is_zero or not all(c.is_Integer for c in (*q.coeffs(), *r.coeffs())):
        return None
    return monomials(q), monomials(r)


def monomials(poly: Any) -> Monomials:
    """Return the monomials of a sympy polynomial."""
    return tuple((int(c), tuple(map(int, e))) for e, c in poly.terms() if c)


@cache
def functions() -> tuple[Any, Any]:
    """Return FloorDiv and Mod as sympy functions of two integers. They are evaluated only if both arguments are
    numbers.
    """
    import sympy

    class FloorDiv(sympy.Function):
        nargs = (2,)
        is_integer = True

        @classmethod
        def eval(cls, a: Any, b: Any) -> Any:
            return sympy.Integer(int(a) // int(b)) if a.is_Integer and b.is_Integer and b != 0 else None

        def _eval_is_nonnegative(self) -> bool | None:
            a, b = self.args
            return True if a.is_nonnegative and b.is_positive else None

    class Mod(sympy.Function):
        nargs = (2,)
        is_integer = True

        @classmethod
        def eval(cls, a: Any, b: Any) -> Any:
            return sympy.Integer(int(a) % int(b)) if a.is_Integer and b.is_Integer and b != 0 else None

    return FloorDiv, Mod


def to_sympy(x: Affine, symbols: dict[Any, Any]) -> Any:
    """Convert a normal form to a sympy expression. `symbols` maps terms to their dummies; new terms are added to it."""
    import sympy

    total: Any = sympy.Integer(x.const)
    for term, c in x.terms.items():
        value: Any = sympy.Integer(c)
        for factor in factors(term):
            value = value * _factor(factor, symbols)
        total = total + value
    return total


def _factor(term: Any, symbols: dict[Any, Any]) -> Any:
    import sympy

    if isinstance(term, Atom) and term.kind in (FLOORDIV, FLOORMOD, MIN, MAX):
        a, b = (to_sympy(arg, symbols) for arg in term.args)
        floordiv, mod = functions()
        return {FLOORDIV: floordiv, FLOORMOD: mod, MIN: sympy.Min, MAX: sympy.Max}[term.kind](a, b)
    if term not in symbols:
        symbols[term] = dummies(len(symbols) + 1)[-1]
    return symbols[term]


def from_sympy(value: Any, symbols: dict[Any, Any]) -> Affine:
    """Expand a sympy expression over the `symbols` that `to_sympy` filled in, and convert it to a normal form."""
    import sympy

    back = {symbol: term for term, symbol in symbols.items()}
    floordiv, mod = functions()
    kinds = {floordiv: FLOORDIV, mod: FLOORMOD, sympy.Min: MIN, sympy.Max: MAX}

    def factor(part: Any) -> Any:
        if part in back:
            return back[part]
        kind = next((k for function, k in kinds.items() if isinstance(part, function)), None)
        if kind is None:
            raise ValueError(f"{part} has no counterpart among index expressions")
        first, *others = (from_sympy(arg, symbols) for arg in part.args)
        for other in others:
            first = Affine.of(Atom(kind, (first, other)))
        return first.single

    terms: dict[Any, int] = {}
    constant = 0
    for summand in sympy.Add.make_args(sympy.expand(value)):
        coefficient, rest = summand.as_coeff_Mul()
        parts = [
            factor(base)
            for base, power in (p.as_base_exp() for p in sympy.Mul.make_args(rest) if p != 1)
            for _ in range(int(power))
        ]
        if parts:
            add_into(terms, [(product(parts), int(coefficient))], 1)
        else:
            constant += int(coefficient)
    return Affine(terms, constant)
