"""Rules for floor division and modulo by a positive constant, and for comparisons with zero.

A rule takes a sum and a divisor and returns the result, or None if it does not apply. Each rule is exact for all
integers, including negative ones, in the ranges that the domain knows. The rules in the tables at the end are tried
from the top.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from .affine import FLOORDIV, FLOORMOD, Affine, Atom, add_into
from .domain import Domain

Rule = Callable[[Domain, Affine, int], Affine | None]


def floordiv(domain: Domain, x: Affine, d: int) -> Affine:
    """x // d for d > 0."""
    if d == 1:
        return x
    quotient, rest = split_multiples(x, d)
    if rest.terms:
        for rule in DIV_RULES:
            simpler = rule(domain, rest, d)
            if simpler is not None:
                return quotient + simpler
        return quotient + Affine.of(Atom(FLOORDIV, (rest, Affine({}, d))))
    return quotient + rest.const // d


def floormod(domain: Domain, x: Affine, d: int) -> Affine:
    """x % d for d > 0."""
    if d == 1:
        return Affine({})
    _, rest = split_multiples(x, d)
    if rest.terms:
        for rule in MOD_RULES:
            simpler = rule(domain, rest, d)
            if simpler is not None:
                return simpler
        return Affine.of(Atom(FLOORMOD, (rest, Affine({}, d))))
    return Affine({}, rest.const % d)


def split_multiples(x: Affine, d: int) -> tuple[Affine, Affine]:
    """(q, r) with x == q*d + r, the coefficients of r smaller than d and its constant in [0, d)."""
    quotient: dict[Any, int] = {}
    rest: dict[Any, int] = {}
    for term, c in x.terms.items():
        q = c // d if c >= 0 else -(-c // d)
        if q:
            quotient[term] = q
        if c != q * d:
            rest[term] = c - q * d
    return Affine(quotient, x.const // d), Affine(rest, x.const % d)


def grouping(domain: Domain, x: Affine, d: int) -> tuple[int, Affine, Affine] | None:
    """(g, high, low) with x == g*high + low, 0 <= low < g, 1 < g, and g dividing d (d == 0: any g)."""
    for g in sorted({gcd(c, d) for c in x.terms.values()}, reverse=True):
        if g <= 1:
            return None
        high = {t: c // g for t, c in x.terms.items() if c % g == 0}
        low = Affine({t: c for t, c in x.terms.items() if c % g}, x.const)
        bottom, top = domain.interval(low)
        if bottom is None or top is None or bottom // g != top // g:
            continue
        step = bottom // g
        return g, Affine(high, step), low - step * g
    return None


# -- x // d, the coefficients and the constant of x already smaller than d -------------------------------------------


def _div_in_range(domain: Domain, x: Affine, d: int) -> Affine | None:
    """x // d -> q                               where q*d <= x < (q+1)*d"""
    low, high = domain.interval(x)
    if low is None or high is None or low // d != high // d:
        return None
    return Affine({}, low // d)


def _div_grouped(domain: Domain, x: Affine, d: int) -> Affine | None:
    """(g*y + z) // d -> y // (d/g)              where g divides d and 0 <= z < g"""
    groups = grouping(domain, x, d)
    return None if groups is None else floordiv(domain, groups[1], d // groups[0])


def _div_nested(domain: Domain, x: Affine, d: int) -> Affine | None:
    """(y // b + k) // d -> (y + k*b) // (b*d)   for b > 0"""
    inner = _only(x, FLOORDIV)
    if inner is None:
        return None
    y, b = inner
    return floordiv(domain, y + x.const * b, b * d)


def _div_of_mod(domain: Domain, x: Affine, d: int) -> Affine | None:
    """(y % b) // d -> (y // d) % (b/d)          where d divides b"""
    inner = _only(x, FLOORMOD)
    if inner is None or x.const or inner[1] % d:
        return None
    y, b = inner
    return floormod(domain, floordiv(domain, y, d), b // d)


# -- x % d ------------------------------------------------------------------------------------------------------------


def _mod_in_range(domain: Domain, x: Affine, d: int) -> Affine | None:
    """x % d -> x - q*d                          where q*d <= x < (q+1)*d"""
    low, high = domain.interval(x)
    if low is None or high is None or low // d != high // d:
        return None
    return x - (low // d) * d


def _mod_of_mod(domain: Domain, x: Affine, d: int) -> Affine | None:
    """(c*(y % b) + z) % d -> (c*y + z) % d      where d divides c*b"""
    terms = dict(x.terms)
    constant = x.const
    for term, c in x.terms.items():
        if (
            isinstance(term, Atom)
            and term.kind == FLOORMOD
            and term.args[1].is_const
            and c * term.args[1].const % d == 0
        ):
            del terms[term]
            add_into(terms, term.args[0].terms.items(), c)
            constant += c * term.args[0].const
    if constant == x.const and terms == x.terms:
        return None
    return floormod(domain, Affine(terms, constant), d)


def _mod_grouped(domain: Domain, x: Affine, d: int) -> Affine | None:
    """(g*y + z) % d -> g*(y % (d/g)) + z        where g divides d and 0 <= z < g"""
    groups = grouping(domain, x, d)
    if groups is None:
        return None
    g, high, low = groups
    return floormod(domain, high, d // g).scaled(g) + low


DIV_RULES: list[Rule] = [_div_in_range, _div_grouped, _div_nested, _div_of_mod]
MOD_RULES: list[Rule] = [_mod_in_range, _mod_of_mod, _mod_grouped]


def _only(x: Affine, kind: str) -> tuple[Affine, int] | None:
    """(y, b) when x is one `y // b` or `y % b` (b a constant) plus a constant."""
    if len(x.terms) != 1:
        return None
    ((term, c),) = x.terms.items()
    if c != 1 or not isinstance(term, Atom) or term.kind != kind or not term.args[1].is_const:
        return None
    return term.args[0], term.args[1].const


# -- putting back together what was split -----------------------------------------------------------------------------


def merge_splits(domain: Domain, x: Affine) -> Affine:
    """c*d*(y // d) + c*(y % d) -> c*y,  and  c*d*((y // d) % e) + c*(y % d) -> c*(y % (d*e))."""
    merged = True
    while merged:
        merged = False
        for term, c in x.terms.items():
            if not isinstance(term, Atom) or term.kind != FLOORMOD:
                continue
            if term.args[1].is_const:
                merged_sum = _merge_one(domain, x, term, c)
            else:
                from . import symbolic

                merged_sum = symbolic.merged(domain, x, term, c)
            if merged_sum is not None:
                x, merged = merged_sum, True
                break
    return x


def _merge_one(domain: Domain, x: Affine, term: Atom, c: int) -> Affine | None:
    y, d = term.args[0], term.args[1].const
    quotient = floordiv(domain, y, d)
    if not quotient.terms:
        return None
    if all(x.terms.get(t) == c * d * k for t, k in quotient.terms.items()):
        return x + y.scaled(c) - quotient.scaled(c * d) - Affine.of(term, c)
    for other, k in x.terms.items():
        if not isinstance(other, Atom) or other.kind != FLOORMOD or k != c * d or not other.args[1].is_const:
            continue
        if other.args[0] == quotient:
            whole = floormod(domain, y, d * other.args[1].const)
            return x + whole.scaled(c) - Affine.of(other, k) - Affine.of(term, c)
    return None


# -- x >= 0 and x == 0 ------------------------------------------------------------------------------------------------


def tighten(domain: Domain, x: Affine) -> Affine:
    """g*y + z >= 0 -> y >= 0 where 0 <= z < g; for a constant z, this divides by the coefficients' common factor."""
    groups = grouping(domain, x, 0) if x.terms else None
    return x if groups is None else tighten(domain, groups[1])
