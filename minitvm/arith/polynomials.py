"""Decide questions about polynomials in symbolic sizes with sympy: signs and common factors.

The affine normal form cannot decide them. Questions are written in dummy symbols numbered by position (`sympy_bridge`),
so that questions of the same form are answered only once, even for different functions. The work is limited by the size
of a question, not by time: minitvm does not try questions with more terms, variables or relations than the limits
below.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .affine import FLOORMOD, PRODUCT, Affine, Atom, factors
from .reasons import Reason, note, text
from .sympy_bridge import Monomials, TermNumbers, dense, dummies, monomials

if TYPE_CHECKING:
    from .domain import Domain

_TERMS = 16  # the most terms of a polynomial
_VARIABLES = 7
_RELATIONS = 6  # the most facts that are substituted
_DEGREE = 4

Range = tuple[int | None, int | None]


def is_polynomial(x: Affine) -> bool:
    """Return whether a sum contains a product of terms. Linear sums are handled without this module."""
    return any(isinstance(term, Atom) and term.kind == PRODUCT for term in x.terms)


# -- signs ------------------------------------------------------------------------------------------------------------


def nonnegative(domain: Domain, f: Affine) -> bool:
    """Return whether f >= 0 can be proved, either from its factors or by substituting the ranges of its variables."""
    if len(f.terms) > _TERMS or any(len(factors(t)) > _DEGREE for t in f.terms):
        return False
    shape = TermNumbers()
    rows = shape.monomials(f)
    relations = _relations(domain, shape)
    if len(shape.terms) > _VARIABLES:
        return False
    count = len(shape.terms)
    ranges = tuple(domain.term_interval(term) for term in shape.terms)
    question = dense(rows, count), tuple(dense(r, count) for r in relations), ranges
    why = _shown(*question)
    if why is None:
        return False
    names = {str(d): text(Affine.of(t)) for d, t in zip(dummies(count), shape.terms, strict=True)}
    note(lambda: Reason("sign of a polynomial", f"{text(f)} >= 0", "True", _named(why, names)))
    return True


def _relations(domain: Domain, shape: TermNumbers) -> list[Any]:
    """Return sums that are >= 0 and contain variables of the question. They come from symbolic bounds of ranges and
    from known facts.
    """
    from_ranges: list[Affine] = []
    for term in list(shape.terms):
        low, high = domain.symbolic.get(term, (None, None))
        if isinstance(term, Atom) and term.kind == FLOORMOD and not term.args[1].is_const:
            high = term.args[1] - 1 if (domain.interval(term.args[1])[0] or 0) > 0 else None
        if high is not None:
            from_ranges.append(high - Affine.of(term))
        if low is not None:
            from_ranges.append(Affine.of(term) - low)
    factors_asked = set(shape.terms)
    facts = [f for f in domain.facts if any(factor in factors_asked for t in f.terms for factor in factors(t))]
    short = [r for r in (*from_ranges, *facts) if len(r.terms) <= 4][:_RELATIONS]
    return [shape.monomials(r) for r in short]


@lru_cache(maxsize=4096)
def _shown(f: Monomials, relations: tuple[Monomials, ...], ranges: tuple[Range, ...]) -> str | None:
    """Return the reason why f >= 0 (a polynomial with nonnegative terms, or factors), or None if no proof is found."""
    import sympy

    symbols = dummies(len(ranges))
    x = _expression(f, symbols)
    facts = [_expression(r, symbols) for r in relations]
    direct = _by_ranges(x, facts, symbols, ranges)
    if direct is not None:
        return direct
    constant, parts = sympy.factor_list(x)
    if len(parts) < 2 and all(power == 1 for _, power in parts):
        return None
    sign = 1 if constant > 0 else -1
    shown = []
    for part, power in parts:
        if power % 2 == 0:
            continue
        if _by_ranges(part, facts, symbols, ranges) is not None:
            shown.append(f"{part} >= 0")
        elif _by_ranges(-part, facts, symbols, ranges) is not None:
            sign = -sign
            shown.append(f"{part} <= 0")
        else:
            return None
    if sign < 0:
        return None
    return f"{sympy.factor(x)}" + (f", {', '.join(shown)}" if shown else ", an even power")


def _by_ranges(x: Any, relations: list[Any], symbols: tuple[Any, ...], ranges: tuple[Range, ...]) -> str | None:
    """Replace each variable in x by an end of its range plus or minus a value >= 0, and return the result as text.

    Returns None unless all terms of the result are >= 0. First, sizes are replaced by smaller values (m = i + 1 + s for
    i < m), and then variables by larger values. A polynomial is >= 0 if all of its coefficients and all of its
    variables are >= 0.
    """
    for largest_first in (True, False):
        reason = _put_in(x, relations, symbols, ranges, largest_first)
        if reason is not None:
            return reason
    return None


def _put_in(
    x: Any, relations: list[Any], symbols: tuple[Any, ...], ranges: tuple[Range, ...], largest_first: bool
) -> str | None:
    import sympy

    slack = iter(_slack(2 * len(symbols) + len(relations)))
    solved: dict[Any, Any] = {}
    for relation in relations:
        current = sympy.expand(relation.subs(solved))
        for v in symbols:
            c = current.coeff(v, 1)
            if v in solved or c != (1 if largest_first else -1) or (current - c * v).has(v):
                continue
            s = next(slack)
            value = s - (current - v) if largest_first else (current + v) - s
            solved = {w: sympy.expand(old.subs(v, value)) for w, old in solved.items()} | {v: sympy.expand(value)}
            break
    x = sympy.expand(x.subs(solved))
    for v, (low, high) in zip(symbols, ranges, strict=True):
        if not x.has(v):
            continue
        if low is None and high is None:
            return None
        x = x.subs(v, next(slack) + low if low is not None else high - next(slack))
    x = sympy.expand(x)
    if any(term.as_coeff_Mul()[0] < 0 for term in sympy.Add.make_args(x)):
        return None
    return f"with {', '.join(f'{v} = {e}' for v, e in solved.items())}: {x}" if solved else f"it is {x}"


@lru_cache(maxsize=32)
def _slack(count: int) -> tuple[Any, ...]:
    import sympy

    return tuple(sympy.Dummy(f"s{i}", integer=True, nonnegative=True) for i in range(count))


def _expression(rows: Monomials, symbols: tuple[Any, ...]) -> Any:
    import sympy

    return sympy.Poly({e: c for c, e in rows} or {(0,) * len(symbols): 0}, *symbols, domain="ZZ").as_expr()


def _named(why: str, names: dict[str, str]) -> str:
    for dummy in sorted(names, key=len, reverse=True):
        why = why.replace(dummy, names[dummy])
    return why.replace("_s", "s")


# -- common factors ---------------------------------------------------------------------------------------------------


def common_factor(x: Affine, d: Affine) -> tuple[Affine, Affine, Affine] | None:
    """Return (g, a, b) such that x == g*a and d == g*b, where g is not a number, or None if there is no such factor.

    Since d is not zero, g is not zero either. So x // d is a // b, and x % d is g * (a % b), whatever the signs.
    """
    if not x.terms or not d.terms or len(x.terms) > _TERMS or len(d.terms) > _TERMS:
        return None
    shape = TermNumbers()
    top, bottom = shape.monomials(x), shape.monomials(d)
    count = len(shape.terms)
    if count > _VARIABLES or any(sum(p.values()) > _DEGREE for _, p in (*top, *bottom)):
        return None
    division = _gcd(dense(top, count), dense(bottom, count), count)
    if division is None:
        return None
    g, a, b = (shape.affine(rows) for rows in division)
    return g, a, b


@lru_cache(maxsize=4096)
def _gcd(x: Monomials, d: Monomials, count: int) -> tuple[Monomials, Monomials, Monomials] | None:
    import sympy

    symbols = dummies(count)
    a, b = (sympy.Poly({e: c for c, e in rows}, *symbols, domain="ZZ") for rows in (x, d))
    g, a, b = a.cofactors(b)
    return None if g.is_ground and g.LC() in (1, -1) else (monomials(g), monomials(a), monomials(b))


def divisors(d: Affine) -> list[Affine]:
    """Return the divisors of d that have fewer terms or factors, largest first: n*m for n*m*k, n + 1 for (n + 1)*m."""
    if len(d.terms) > _TERMS or any(len(factors(t)) > _DEGREE for t in d.terms):
        return []
    shape = TermNumbers()
    rows = shape.monomials(d)
    count = len(shape.terms)
    if count > _VARIABLES:
        return []
    return [shape.affine(part) for part in _divisors(dense(rows, count), count)]


@lru_cache(maxsize=1024)
def _divisors(d: Monomials, count: int) -> tuple[Monomials, ...]:
    import sympy

    symbols = dummies(count)
    constant, parts = sympy.Poly({e: c for c, e in d}, *symbols, domain="ZZ").factor_list()
    listed = [part for part, power in parts for _ in range(power)]
    if abs(constant) > 1:
        listed.append(sympy.Poly(abs(constant), *symbols, domain="ZZ"))
    products: dict[Any, None] = {}
    for subset in range(1, 2 ** min(len(listed), 4) - 1):
        product = sympy.Poly(1, *symbols, domain="ZZ")
        for i, part in enumerate(listed[:4]):
            if subset >> i & 1:
                product = product * part
        products[product] = None
    ordered = sorted(products, key=lambda p: (-p.total_degree(), str(p)))
    return tuple(monomials(p) for p in ordered if not p.is_ground)
