"""Closed formulas for sums: `sum f(v) for v in range(low, high)`, where f may contain minima, maxima and floor
divisions.

A polynomial is summed by Faulhaber's formula. A minimum of two sums that are linear in v is one of them up to some v
and the other one after it, so the range is split there. A floor division by a constant has a period, so each residue is
summed separately. For all other sums, `NoClosedForm` is raised.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

from .formula import extremes, maximum, minimum, quotient

_PARTS = 24  # sums that one sum may be divided into: a longer formula would not be readable
_PERIOD = 8  # residues of a floor division


class NoClosedForm(Exception):
    """Raised when this module has no formula for a sum."""


class Budget:
    """A limit on the number of parts into which a sum may still be split."""

    def __init__(self, parts: int = _PARTS) -> None:
        self.parts = parts

    def spend(self, parts: int = 1) -> None:
        """Use up `parts` of the budget. Raises `NoClosedForm` if not enough are left."""
        self.parts -= parts
        if self.parts < 0:
            raise NoClosedForm


def sum_over(f: Any, v: Any, low: Any, high: Any, budget: Budget) -> Any:
    """Return the sum of f over low <= v < high, where high >= low. Raises `NoClosedForm` if there is no formula."""
    import sympy

    if f == 0 or low == high:
        return sympy.Integer(0)
    if not f.has(v):
        return f * (high - low)
    budget.spend()
    from .sympy_bridge import functions

    whole = _tiles(f, v, low, high)
    if whole is not None:
        return whole
    node = _innermost(f, v, (*extremes(), functions()[0]))
    if isinstance(node, extremes()):
        return _divided(f, node, v, low, high, budget)
    if node is not None:
        return _by_residue(f, node, v, low, high, budget)
    total: Any = sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(f)):
        coefficient, rest = term.as_independent(v, as_Add=False)
        base, power = rest.as_base_exp() if rest != 1 else (v, sympy.Integer(0))
        if base != v or not power.is_Integer or power < 0 or power > 12:
            raise NoClosedForm
        total += coefficient * (_powers(int(power), high) - _powers(int(power), low))
    return sympy.expand(total)


def _tiles(f: Any, v: Any, low: Any, high: Any) -> Any:
    """Return the sum of f over all tiles, if c elements are divided into tiles of t and f is linear in the number of
    elements of a tile.

    There are ceil(c / t) tiles, and the last one may be incomplete, so f contains max(0, min(t, c - t*v)). Returns None
    if `f` has no such part.
    """
    import sympy

    kinds, x = extremes(), sympy.Dummy("x")
    for tile in f.atoms(kinds[1]):
        inside = next((a for a in tile.args if isinstance(a, kinds[0]) and len(a.args) == 2), None)
        if inside is None or set(tile.args) != {sympy.Integer(0), inside}:
            continue
        for size, rest in (inside.args, inside.args[::-1]):
            parts, count = linear(rest, v), linear(f.xreplace({tile: x}), x)
            if parts is None or count is None or not size.is_Integer or size < 1 or parts[0] != -size:
                continue
            if low == 0 and high == quotient(parts[1] + size - 1, size) and not any(part.has(v) for part in count):
                return sympy.expand(count[0] * maximum(sympy.Integer(0), parts[1]) + count[1] * high)
    return None


@lru_cache(maxsize=1024)
def _powers(k: int, x: Any) -> Any:
    """Return the sum of t**k over 0 <= t < x as a polynomial in x. Differences of two such sums are correct even for
    negative x.
    """
    import sympy

    t = sympy.Dummy("t")
    if k == 0:
        return x
    polynomial = (sympy.bernoulli(k + 1, t) - sympy.bernoulli(k + 1, 0)) / (k + 1)
    return sympy.expand(polynomial.subs(t, x))


def _innermost(f: Any, v: Any, kinds: tuple[type, ...]) -> Any:
    """Return an innermost node in f that is of one of `kinds` and contains v, or None if there is none."""
    nodes = sorted((n for n in f.atoms(*kinds) if n.has(v)), key=lambda n: n.sort_key())
    return next((n for n in nodes if not any(m is not n and n.has(m) for m in nodes)), None)


def linear(f: Any, v: Any) -> tuple[Any, Any] | None:
    """Return (c, r) such that f == c*v + r and neither c nor r contains v, or None if f is not linear in v."""
    import sympy

    expanded = sympy.expand_mul(f)
    c = expanded.coeff(v, 1)
    rest = sympy.expand(expanded - c * v)
    return None if rest.has(v) or c.has(v) else (c, rest)


def _divided(f: Any, extreme: Any, v: Any, low: Any, high: Any, budget: Budget) -> Any:
    """Return the sum of f, split at the v where a minimum or maximum in f (`extreme`) switches from one argument to the
    other.
    """
    import sympy

    kind = type(extreme)
    ordered = sorted(extreme.args, key=lambda a: (not a.has(v), a.sort_key()))
    a, b, *others = ordered
    parts = linear(a - b, v)
    if parts is None or not parts[0].is_Integer or parts[0] == 0:
        raise NoClosedForm
    c, r = parts
    if c < 0:
        a, b, c, r = b, a, -c, -r
    # c*v + r <= 0, that is a <= b, where v <= floor(-r / c).
    edge = quotient(sympy.expand(-r), c) + 1
    middle = minimum(maximum(edge, low), high)
    small, large = (a, b) if kind is extremes()[0] else (b, a)
    before = f.xreplace({extreme: kind(small, *others)})
    after = f.xreplace({extreme: kind(large, *others)})
    return sum_over(before, v, low, middle, budget) + sum_over(after, v, middle, high, budget)


def _by_residue(f: Any, division: Any, v: Any, low: Any, high: Any, budget: Budget) -> Any:
    """Return the sum of f, computed separately for each residue s of v - low modulo p, the period of `division`, by
    substituting v = low + s + p*q.

    The quotient is then linear in q.
    """
    import sympy

    x, d = division.args
    parts = linear(x, v)
    if parts is None or not d.is_Integer or not parts[0].is_Integer:
        raise NoClosedForm
    c, r = parts
    period = int(d) // gcd(int(c), int(d))
    if period > _PERIOD:
        raise NoClosedForm
    if period == 1:
        return sum_over(f.xreplace({division: (c // d) * v + quotient(r, d)}), v, low, high, budget)
    budget.spend(period)
    q = sympy.Dummy("q", integer=True)
    total: Any = sympy.Integer(0)
    for s in range(period):
        at = low + s + period * q
        value = (c * period // d) * q + quotient(sympy.expand(c * (low + s) + r), d)
        times = maximum(sympy.Integer(0), quotient(sympy.expand(high - low - s + period - 1), sympy.Integer(period)))
        total += sum_over(f.xreplace({division: value}).subs(v, at), q, sympy.Integer(0), times, budget)
    return total
