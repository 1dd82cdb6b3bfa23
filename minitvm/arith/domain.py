"""The known ranges of terms and facts `affine >= 0`, with the interval arithmetic and the prover that use them.

`nonnegative(f)` proves f >= 0 from the inside out: a term that has a bound (a loop variable and its extent, a quotient
and its dividend, a minimum and its arguments) is replaced by this bound, the lower or the upper one according to the
sign of its coefficient, until only constants are left. Every step only lowers f, so the answer True is right; False
means that no proof was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from ..expr import DataVar, SizeVar, Var
from . import affine as aff

Interval = tuple[int | None, int | None]
UNKNOWN: Interval = (None, None)
_STEPS = 150  # sums tried in one proof: a few hundred microseconds
_DEPTH = 12  # replacements tried in a row; an index has about as many terms


def intersect(a: Interval, b: Interval) -> Interval:
    """Return the intersection of two intervals."""
    low = b[0] if a[0] is None else a[0] if b[0] is None else max(a[0], b[0])
    high = b[1] if a[1] is None else a[1] if b[1] is None else min(a[1], b[1])
    return low, high


def hull(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that contains both intervals."""
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def multiply_intervals(a: Interval, b: Interval) -> Interval:
    """Return the interval of all products of a value from one interval and a value from the other."""
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    infinity = float("inf")
    ends = [(-infinity if x[0] is None else x[0], infinity if x[1] is None else x[1]) for x in (a, b)]
    corners = [0 if 0 in (x, y) else x * y for x in ends[0] for y in ends[1]]
    low, high = min(corners), max(corners)
    return None if low == -infinity else int(low), None if high == infinity else int(high)


class Domain:
    """The ranges of terms and the facts about sums. All proofs are based on these."""

    def __init__(self, ranges: Mapping[Any, Interval] | None = None) -> None:
        self.ranges: dict[Any, Interval] = dict(ranges or {})
        # Symbolic bounds of a term, inclusive: (lower, upper), either may be None.
        self.symbolic: dict[Any, tuple[aff.Affine | None, aff.Affine | None]] = {}
        self.order: dict[Var, int] = {}  # outer variables come first
        self.facts: list[aff.Affine] = []  # each is >= 0
        self._intervals: dict[Any, Interval] = {}
        self._steps = 0

    def copy(self) -> Domain:
        """Return an independent copy to which a scope can add facts."""
        new = Domain(self.ranges)
        new.symbolic = dict(self.symbolic)
        new.order = dict(self.order)
        new.facts = list(self.facts)
        return new

    def forget_derived(self) -> None:
        """Clear the cached results that depend on ranges that have changed."""
        self._intervals.clear()

    def narrow(self, term: aff.Term, interval: Interval) -> bool:
        """Intersect the range of a term with an interval, and return whether the range changed."""
        old = self.ranges.get(term, UNKNOWN)
        new = intersect(old, interval)
        if new == old:
            return False
        self.ranges[term] = new
        self._intervals.clear()
        return True

    # -- intervals --------------------------------------------------------------------------------------------------

    def term_interval(self, term: aff.Term) -> Interval:
        """Return the bounds on one term."""
        interval = self._intervals.get(term)
        if interval is None:
            interval = self._intervals[term] = self._term_interval(term)
        return interval

    def _term_interval(self, term: aff.Term) -> Interval:
        declared = self.ranges.get(term, UNKNOWN)
        if isinstance(term, Var):
            if isinstance(term, SizeVar):
                return intersect(declared, (0, None))
            return intersect(declared, (int(term.dtype.min), int(term.dtype.max))) if _is_data(term) else declared
        return intersect(declared, self._structure_interval(term))

    def _structure_interval(self, atom: aff.Atom) -> Interval:
        if atom.kind == aff.PRODUCT:
            return self._product_interval(atom.args)
        if atom.kind == aff.OPAQUE:
            return UNKNOWN  # the converter has put its bounds into `ranges`
        a, b = (self.interval(x) for x in atom.args)
        if atom.kind == aff.MIN:
            low, high = hull(a, b)[0], intersect(a, b)[1]
            return low, high
        if atom.kind == aff.MAX:
            return intersect(a, b)[0], hull(a, b)[1]
        if b[0] is None or b[0] < 0 or b[1] == 0:
            return UNKNOWN
        b = (max(b[0], 1), b[1])  # a division by zero never happens
        if atom.kind == aff.FLOORDIV:
            # The quotient grows with the dividend, and toward zero with the divisor (toward -1 from below).
            low = None if a[0] is None else a[0] // b[0] if a[0] < 0 else 0 if b[1] is None else a[0] // b[1]
            high = None if a[1] is None else a[1] // b[0] if a[1] >= 0 else -1 if b[1] is None else a[1] // b[1]
            return low, high
        assert atom.kind == aff.FLOORMOD
        high = None if b[1] is None else b[1] - 1
        if a[0] is not None and a[0] >= 0 and a[1] is not None and (high is None or a[1] < high):
            high = a[1]
        return 0, high

    def _product_interval(self, args: tuple[Any, ...]) -> Interval:
        powers: dict[Any, int] = {}
        for factor in args:
            powers[factor] = powers.get(factor, 0) + 1
        result: Interval = (1, 1)
        for factor, power in powers.items():
            single = self.term_interval(factor)
            whole = single
            for _ in range(power - 1):
                whole = multiply_intervals(whole, single)
            if power % 2 == 0 and (whole[0] is None or whole[0] < 0):
                whole = (0, whole[1])
            result = multiply_intervals(result, whole)
        return result

    def interval(self, affine: aff.Affine) -> Interval:
        """Return constant bounds on a sum, computed term by term. An end is None if it is not known."""
        low: int | None = affine.const
        high: int | None = affine.const
        for term, c in affine.terms.items():
            a, b = self._intervals.get(term) or self.term_interval(term)
            if c < 0:
                a, b = b, a
            low = None if low is None or a is None else low + c * a
            high = None if high is None or b is None else high + c * b
            if low is None and high is None:
                break
        return low, high

    def bounds(self, affine: aff.Affine) -> Interval:
        """Return constant bounds on a sum like `interval`, but tighter ones if its terms are related.

        Examples are `min(n, i + 4) - i`, or a quotient and its dividend.
        """
        result = self.interval(affine)
        extremes = [(t, c) for t, c in affine.terms.items() if isinstance(t, aff.Atom) and t.kind in (aff.MIN, aff.MAX)]
        if not extremes:
            return result
        for term, c in extremes[:3]:
            if isinstance(term, aff.Atom):
                rest = affine.without(term)
                a, b = (self.bounds(rest + arg.scaled(c)) for arg in term.args)
                # The sum is the lower (for a minimum, c > 0) or the upper of the two sums.
                lower = (term.kind == aff.MIN) == (c > 0)
                both = (hull(a, b)[0], intersect(a, b)[1]) if lower else (intersect(a, b)[0], hull(a, b)[1])
                result = intersect(result, both)
        return result

    # -- proofs -----------------------------------------------------------------------------------------------------

    def nonnegative(self, affine: aff.Affine) -> bool:
        """Return whether `affine` >= 0 can be proved."""
        low, high = self.interval(affine)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0:
            return False
        self._steps = _STEPS
        if self._prove(affine, _DEPTH, 2):
            return True
        if not any(isinstance(term, aff.Atom) and term.kind == aff.PRODUCT for term in affine.terms):
            return False
        from . import polynomials

        return polynomials.nonnegative(self, affine)

    def _prove(self, f: aff.Affine, depth: int, facts: int) -> bool:
        low, high = self.interval(f)
        if low is not None and low >= 0:
            return True
        self._steps -= 1
        if depth == 0 or self._steps < 0 or not f.terms or (high is not None and high < 0):
            return False
        for lowered in self._lowered(f):
            if all(self._prove(part, depth - 1, facts) for part in lowered):
                return True
        return facts > 0 and any(self._prove(g, depth - 1, facts - 1) for g in self._less_facts(f))

    def _lowered(self, f: aff.Affine) -> list[list[aff.Affine]]:
        """Return ways to replace a term of f with a bound. Each way is a list of sums; f >= 0 holds if all of them
        are >= 0.
        """
        cancelled = self._cancelled(f)
        ways = self._without_innermost(f)
        return ways if cancelled is None else [[cancelled], *ways]

    def _without_innermost(self, f: aff.Affine) -> list[list[aff.Affine]]:
        for term, c in f.terms.items():
            if not isinstance(term, aff.Atom):
                continue
            if term.kind in (aff.MIN, aff.MAX):
                rest = f.without(term)
                a, b = (rest + arg.scaled(c) for arg in term.args)
                # min(a, b) <= (a + b) / 2 <= max(a, b), and f >= 0 if 2 * f > -2, since f is an integer.
                return [[a, b]] if (term.kind == aff.MIN) == (c > 0) else [[a], [b], [a + b + 1]]
            if term.kind == aff.FLOORDIV and term.args[1].is_const:
                # d * (x // d) is between x - d + 1 and x; f >= 0 if d * f > -d, since f is an integer.
                d = term.args[1].const
                bound = term.args[0] if c < 0 else term.args[0] - (d - 1)
                if d > 0:
                    by_dividend = [f.without(term).scaled(d) + bound.scaled(c) + (d - 1)]
                    lowered = self._eliminate(f, term) if term in self.ranges else None
                    return [by_dividend] if lowered is None else [by_dividend, [lowered]]
        ways = self._by_symbolic_quotient(f)
        for term in self._inner_first(f):
            lowered = self._eliminate(f, term)
            if lowered is not None:
                ways.append([lowered])
                if term in self.symbolic:
                    break
        return ways[:3]

    def _cancelled(self, f: aff.Affine) -> aff.Affine | None:
        """Replace a variable in f with its bound if that makes a quotient, minimum or maximum cancel, or return None
        otherwise.

        For example, the extent of a loop may contain a quotient: i < (n + 1) // 2 in a loop with (n + 1) // 2
        iterations.
        """
        atoms = [t for t in f.terms if isinstance(t, aff.Atom) and t.kind != aff.PRODUCT]
        if not atoms:
            return None
        for term in f.terms:
            if isinstance(term, Var) and term in self.symbolic:
                lowered = self._eliminate(f, term)
                if lowered is not None and any(t not in lowered.terms for t in atoms):
                    return lowered
        return None

    def _by_symbolic_quotient(self, f: aff.Affine) -> list[list[aff.Affine]]:
        """Return the sums from which f = c*(x // d) + r >= 0 follows, for a quotient by a symbolic d.

        The sum is c*b + r*d + d - 1, where b is x for c < 0 and x - d + 1 for c > 0.

        Legal: d*(x // d) is between x - d + 1 and x, which gives d*f >= -(d - 1), and so f > -1.
        """
        for term, c in f.terms.items():
            if not isinstance(term, aff.Atom) or term.kind != aff.FLOORDIV or term.args[1].is_const:
                continue
            x, d = term.args
            least = self.interval(d)[0]
            rest = aff.multiply(f.without(term), d)
            if least is not None and least >= 1 and rest is not None:
                bound = x if c < 0 else x - d + 1
                return [[bound.scaled(c) + rest + d - 1]]
        return []

    def _inner_first(self, f: aff.Affine) -> list[Any]:
        """Return the factors of f that can be replaced by a bound.

        Factors with symbolic bounds come first, and among those the innermost ones.
        """
        seen: dict[Any, None] = {}
        products = any(isinstance(t, aff.Atom) and t.kind == aff.PRODUCT for t in f.terms)
        for term in f.terms:
            for factor in aff.factors(term):
                seen.setdefault(factor)

        def rank(term: Any) -> tuple[bool, int]:
            return term not in self.symbolic, -self.order.get(term, -1) if isinstance(term, Var) else 0

        candidates = [t for t in seen if t in self.symbolic or products or _symbolic_modulo(t)]
        return sorted(candidates, key=rank)

    def _eliminate(self, f: aff.Affine, term: aff.Term) -> aff.Affine | None:
        """Return f with `term` replaced by its lower or upper bound, or None if that bound is unknown.

        The sign of the coefficient decides which bound is needed.
        """
        coefficient: dict[Any, int] = {}
        constant = 0
        rest: dict[Any, int] = {}
        for t, c in f.terms.items():
            parts = list(aff.factors(t))
            position = next(
                (i for i, p in enumerate(parts) if p is term or (isinstance(p, aff.Atom) and p == term)), None
            )
            if position is None:
                rest[t] = c
                continue
            del parts[position]
            if not parts:
                constant += c
            else:
                aff.add_into(coefficient, [(aff.product(parts), c)], 1)
        slope = aff.Affine(coefficient, constant)
        low, high = self.interval(slope)
        if low is not None and low >= 0:
            bound = self._bound(term, 0)
        elif high is not None and high <= 0:
            bound = self._bound(term, 1)
        else:
            return None
        if bound is None:
            return None
        moved = aff.multiply(slope, bound)
        return None if moved is None else aff.Affine(rest, f.const) + moved

    def _bound(self, term: aff.Term, end: int) -> aff.Affine | None:
        symbolic = self.symbolic.get(term, (None, None))[end]
        if symbolic is not None and not any(v is term for t in symbolic.terms for v in aff.term_variables(t)):
            return symbolic
        if end == 1 and _symbolic_modulo(term):
            low = self.interval(term.args[1])[0]
            if low is not None and low >= 0:
                return term.args[1] - 1
        constant = self.term_interval(term)[end]
        return None if constant is None else aff.Affine({}, constant)

    def _less_facts(self, f: aff.Affine) -> list[aff.Affine]:
        """Return differences between multiples of f and multiples of facts in which one term cancels.

        If one of the differences is >= 0, then f >= 0.
        """
        results = []
        for fact in self.facts:
            for term, c in f.terms.items():
                d = fact.terms.get(term, 0)
                if c * d > 0:
                    results.append(f.scaled(abs(d)) - fact.scaled(abs(c)))
                    break
        return results


def _is_data(var: Var) -> bool:
    return isinstance(var, DataVar) and var.dtype.is_int


def _symbolic_modulo(term: Any) -> TypeGuard[aff.Atom]:
    return isinstance(term, aff.Atom) and term.kind == aff.FLOORMOD and not term.args[1].is_const
