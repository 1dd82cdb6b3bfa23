"""The iterations of a statement for symbolic sizes, as integer points that satisfy conditions.

This is the counterpart of `domain.PointDomain`, which lists points for given sizes. A condition is represented by an
indicator: a sum of conjunctions with signs +1 and -1. This way, `not (a and b)` and `a or b` are counted exactly too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ... import expr as ex
from ...arith import Analyzer
from ...arith.affine import FLOORDIV, FLOORMOD, MAX, MIN, OPAQUE, Affine, Atom, divide_monomial
from ...arith.closed_sums import NoClosedForm
from ...arith.formula import Formula, formula
from ...arith.lattice import Points, Symbols, coefficient, exactly, occurs, replaced

_MOST_TERMS = 16
Terms = tuple[tuple[int, tuple[Affine, ...]], ...]


class IterationSpace:
    """The data that all iterations of a kernel share: the ranges of its loops, the symbols for its sizes, and cached
    counts.
    """

    def __init__(self, sizes: Mapping[ex.Var, Any]) -> None:
        self.analyzer = Analyzer()
        for size in sizes:
            if sizes[size].is_positive:
                self.analyzer.bind(size, (1, None))
        self.symbols = Symbols(sizes)
        self.counts: dict[Any, Formula] = {}

    def form(self, x: ex.Expr) -> Affine:
        """Return an index as a sum; raise `NoClosedForm` if it depends on values known only at run time."""
        affine = self.analyzer.normal_form(x)
        if affine is None or any(_unknown(term) for term in affine.terms):
            raise NoClosedForm(str(x))
        return affine

    def count(self, points: Points, hulls: Mapping[ex.Var, Affine]) -> Formula:
        """Return the number of points that satisfy the conditions; results are cached."""
        key = (points.variables, frozenset(points.conditions))
        if key not in self.counts:
            self.counts[key] = exactly(points, self.symbols, hulls)
        return self.counts[key]


def _unknown(term: Any) -> bool:
    if isinstance(term, ex.Var):
        return isinstance(term, ex.DataVar)
    if term.kind == OPAQUE:
        return True
    return any(_unknown(t) for arg in term.args for t in (arg.terms if isinstance(arg, Affine) else [arg]))


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """The iterations of a statement. `terms` are signed conjunctions of conditions `sum >= 0` on loop variables,
    including loop bounds.

    `box` has (lowest value, extent) for each loop variable, in terms of sizes only. `lets` maps variables to the
    expressions that they stand for. This includes the original loop variables, because two loops may use the same one.
    """

    space: IterationSpace
    box: Mapping[ex.Var, tuple[Affine, Affine]]
    terms: Terms = ((1, ()),)
    lets: Mapping[ex.Var, ex.Expr] = field(default_factory=dict)
    exact: bool = True

    @property
    def iterations(self) -> Formula:
        """The number of iterations, or an upper bound on it."""
        total = formula(0)
        here, _ = self.split(())
        hulls = {v: extent for v, (_, extent) in here.box.items()}
        for sign, conditions in here.terms:
            part = self.space.count(Points(tuple(here.box), conditions), hulls)
            if not part.exact and sign < 0:
                total = Formula(total.expr, False)  # a smaller value would not be an upper bound
            else:
                total = total + part * sign
        return total if self.exact else Formula(total.expr, False)

    def resolved(self, x: ex.Expr) -> ex.Expr:
        """Return `x` in terms of sizes and the variables in `box`."""
        return ex.substitute(x, dict(self.lets)) if self.lets else x

    def form(self, x: ex.Expr) -> Affine:
        """Return an index as a sum over sizes and the variables in `box`; raise `NoClosedForm` if there is none."""
        return self.space.form(self.resolved(x))

    def let(self, var: ex.Var, value: ex.Expr) -> Iterations:
        """Return the same iterations, in which `var` stands for `value`."""
        return replace(self, lets={**self.lets, var: self.resolved(value)})

    def loop(self, var: ex.Var, start: ex.Expr, extent: ex.Expr) -> Iterations:
        """Return the iterations inside a loop. If the loop's number of iterations is known only at run time, it counts
        as one.
        """
        first, times = self.resolved(start), self.resolved(extent)
        own = ex.Var(var.name, var.dtype)
        try:
            low, count = self.space.form(first), self.space.form(times)
            lowest, highest = self.extreme(low, low=True), self.extreme(low + count, low=False)
            inside = replace(self, box={**self.box, own: (lowest, highest - lowest)})
            v = Affine.of(own)
            terms = inside.meeting(((1, ()),), v - low)
            terms = inside.meeting(terms, low + count - v - 1)
            self.space.analyzer.bind(own, ex.Range(first, times))  # from here on both are known
            return replace(inside.let(var, own), terms=_product(self.terms, terms))
        except NoClosedForm:
            return replace(self.let(var, first), exact=False)

    def where(self, condition: ex.Expr, holds: bool = True) -> Iterations:
        """Return the iterations in which a condition holds (or does not hold, if `holds` is False)."""
        try:
            return replace(self, terms=_product(self.terms, self.indicator(self.resolved(condition), holds)))
        except NoClosedForm:
            return replace(self, exact=False)

    # -- conditions as indicators

    def indicator(self, c: ex.Expr, holds: bool) -> Terms:
        """Return the indicator of a condition: 1 where the condition holds (or does not hold, if `holds` is False), and
        0 elsewhere.

        Raises `NoClosedForm` if the condition is not a combination of comparisons of sums.
        """
        if isinstance(c, ex.Not):
            return self.indicator(c.a, not holds)
        if isinstance(c, ex.IntImm):
            return ((1, ()),) if bool(c.value) == holds else ()
        if isinstance(c, ex.Call) and c.op == "likely":
            return self.indicator(c.args[0], holds)
        if isinstance(c, ex.And | ex.Or):
            if isinstance(c, ex.And) == holds:
                return _product(self.indicator(c.a, holds), self.indicator(c.b, holds))
            return _complement(_product(self.indicator(c.a, not holds), self.indicator(c.b, not holds)))
        if not isinstance(c, ex.CompareOp):
            raise NoClosedForm(str(c))
        x, y = self.space.form(c.a), self.space.form(c.b)
        if isinstance(c, ex.EQ | ex.NE):
            equal = self.meeting(self.meeting(((1, ()),), x - y), y - x)
            return equal if isinstance(c, ex.EQ) == holds else _complement(equal)
        if isinstance(c, ex.GT | ex.GE):
            x, y = y, x
        f = y - x - (1 if isinstance(c, ex.LT | ex.GT) else 0)
        return self.meeting(((1, ()),), f if holds else -f - 1)

    def meeting(self, terms: Terms, f: Affine) -> Terms:
        """Add the condition f >= 0 to the terms. A minimum in f becomes two conditions, and a maximum becomes an
        alternative.
        """
        domain = self.space.analyzer.domain
        if domain.nonnegative(f):
            return terms
        if domain.nonnegative(-f - 1):
            return ()
        for term, c in f.terms.items():
            if isinstance(term, Atom) and term.kind in (MIN, MAX) and any(occurs(Affine.of(term), v) for v in self.box):
                a, b = (f.without(term) + arg.scaled(c) for arg in term.args)
                both = self.meeting(self.meeting(((1, ()),), a), b)
                if (term.kind == MIN) == (c > 0):
                    return _product(terms, both)
                either = (*self.meeting(((1, ()),), a), *self.meeting(((1, ()),), b), *_negative(both))
                return _product(terms, either)
        return _product(terms, ((1, (f,)),))

    # -- ranges

    def extreme(self, x: Affine, low: bool) -> Affine:
        """Return a bound on a sum over all iterations that contains no loop variables; raise `NoClosedForm` if there is
        none.
        """
        x = self._without_atoms(x, low)
        for v in reversed(list(self.box)):
            if not occurs(x, v):
                continue
            parts = coefficient(x, v)
            if parts is None:
                raise NoClosedForm(str(x))
            slope, rest = parts
            bottom, extent = self.box[v]
            if not slope.terms and not slope.const:
                x = rest
                continue
            domain = self.space.analyzer.domain
            rising = domain.nonnegative(slope)
            if not rising and not domain.nonnegative(-slope):
                raise NoClosedForm(str(slope))
            end = bottom if rising == low else bottom + extent - 1
            x = rest + replaced(slope_times(slope, v), {v: end}, domain)
        return x

    def _without_atoms(self, x: Affine, low: bool) -> Affine:
        """Return a bound on x in which loop variables are only multiplied by coefficients.

        This is legal because quotients, minima and maxima increase with their parts.
        """
        total = Affine({}, x.const)
        for term, c in x.terms.items():
            bound = Affine.of(term)
            if isinstance(term, Atom) and term.kind in (FLOORDIV, FLOORMOD, MIN, MAX) and self._moves(bound):
                bound = self._bound_of(term, low == (c > 0))
            total = total + bound.scaled(c)
        return total

    def _moves(self, x: Affine) -> bool:
        return any(occurs(x, v) for v in self.box)

    def _bound_of(self, atom: Atom, low: bool) -> Affine:
        a, b = atom.args
        if atom.kind in (MIN, MAX) and (atom.kind == MAX) == low and not (self._moves(a) and self._moves(b)):
            return b if self._moves(a) else a  # the one that does not change is a bound by itself, and simpler
        if atom.kind in (MIN, MAX):
            return Affine.of(Atom(atom.kind, (self.extreme(a, low), self.extreme(b, low))))
        if self._moves(b) or not self.space.analyzer.domain.nonnegative(b - 1):
            raise NoClosedForm(str(atom))
        if atom.kind == FLOORMOD:
            return Affine({}) if low else b - 1
        return Affine.of(Atom(FLOORDIV, (self.extreme(a, low), b)))

    def split(self, forms: Iterable[Affine]) -> tuple[Iterations, list[Affine]]:
        """Split each loop whose variable is divided into two loops, for the quotient and the remainder. Returns the new
        iterations, and the sums in terms of the new variables.

        Only `v // d` and `v % d` for a variable v that starts at 0 are handled; others stay as they are.
        """
        here, sums = self, list(forms)
        for _ in range(8):
            division = next((t for x in here._all(sums) for t in _divisions(x, here.box)), None)
            if division is None:
                return here, sums
            here, sums = here._halved(division, sums)
        return here, sums

    def _all(self, sums: list[Affine]) -> list[Affine]:
        return [*sums, *(c for _, conditions in self.terms for c in conditions)]

    def _halved(self, division: Atom, sums: list[Affine]) -> tuple[Iterations, list[Affine]]:
        v, d = division.args[0].single, division.args[1]
        assert isinstance(v, ex.Var)
        analyzer = self.space.analyzer
        extent = self.box[v][1]
        times, even = _multiple(extent, d)
        q, r = ex.Var(f"{v.name}_q", v.dtype), ex.Var(f"{v.name}_r", v.dtype)
        analyzer.bind(q, (ex.const(0), analyzer.to_expr(times - 1, v.dtype)))
        analyzer.bind(r, (ex.const(0), analyzer.to_expr(d - 1, v.dtype)))
        value = slope_times(d, q) + Affine.of(r)
        values = {v: value}
        bounds = (Affine.of(q), times - 1 - Affine.of(q), Affine.of(r), d - 1 - Affine.of(r))
        terms = []
        for sign, conditions in self.terms:
            rest = [c for c in conditions if not (even and c in (Affine.of(v), extent - 1 - Affine.of(v)))]
            moved = [(c, replaced(c, values, analyzer.domain)) for c in rest]
            # Forget the facts about the two new variables; keep those about the ends of other loops.
            kept = [new for old, new in moved if new is old or not analyzer.domain.nonnegative(new)]
            terms.append((sign, tuple(dict.fromkeys([*bounds, *kept]))))
        box = {w: b for w, b in self.box.items() if w is not v}
        box |= {q: (Affine({}), times), r: (Affine({}), d)}
        new = replace(self, box=box, terms=tuple(terms))
        return new, [replaced(x, values, analyzer.domain) for x in sums]


def slope_times(slope: Affine, v: ex.Var) -> Affine:
    """Return the product slope * v; raise `NoClosedForm` if it cannot be expressed."""
    from ...arith.affine import multiply

    result = multiply(slope, Affine.of(v))
    if result is None:
        raise NoClosedForm(str(slope))
    return result


def _multiple(extent: Affine, d: Affine) -> tuple[Affine, bool]:
    """Return (extent / d, rounded up; whether d divides the extent)."""
    if d.is_const:
        if extent.const % d.const == 0 and all(c % d.const == 0 for c in extent.terms.values()):
            return extent.divided(d.const), True
        if extent.is_const:
            return Affine({}, -(-extent.const // d.const)), False
    else:
        parts = divide_monomial(extent, d)
        if parts is not None and parts[1] == Affine({}):
            return parts[0], True
    return Affine.of(Atom(FLOORDIV, (extent + d - 1, d))), False


def _divisions(x: Affine, box: Mapping[ex.Var, tuple[Affine, Affine]]) -> list[Atom]:
    """Return the divisions of single loop variables in a sum, innermost first."""
    divisions = []
    for term in x.terms:
        divisions += _divisions_of(term, box)
    return divisions


def _divisions_of(term: Any, box: Mapping[ex.Var, tuple[Affine, Affine]]) -> list[Atom]:
    if isinstance(term, ex.Var) or term.kind == OPAQUE:
        return []
    inner = [
        d for arg in term.args for d in (_divisions(arg, box) if isinstance(arg, Affine) else _divisions_of(arg, box))
    ]
    if term.kind not in (FLOORDIV, FLOORMOD):
        return inner
    v, d = term.args[0].single, term.args[1]
    begins = isinstance(v, ex.Var) and v in box and box[v][0] == Affine({})
    return (
        [*inner, term] if begins and not any(occurs(d, w) for w in box) and not (d.is_const and d.const < 1) else inner
    )


def _product(a: Terms, b: Terms) -> Terms:
    terms = tuple((s * t, tuple(dict.fromkeys((*c, *d)))) for s, c in a for t, d in b)
    if len(terms) > _MOST_TERMS:
        raise NoClosedForm(f"{len(terms)} conjunctions")
    return terms


def _complement(terms: Terms) -> Terms:
    return ((1, ()), *_negative(terms))


def _negative(terms: Terms) -> Terms:
    return tuple((-sign, conditions) for sign, conditions in terms)
