"""Count integer points under linear conditions in closed form, for example the iterations of a loop nest with guards.

`Points(variables, conditions)` is the set of integer values of the variables at which every condition, given as a sum,
is >= 0. A condition may contain sizes in any position, for example in a division or a minimum. The coefficient of a
variable must be a number, or a size if the products can be expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..expr import Var
from . import rules, symbolic
from .affine import FLOORDIV, FLOORMOD, MAX, MIN, OPAQUE, PRODUCT, Affine, Atom, factors, multiply, product, variables
from .closed_sums import Budget, NoClosedForm, sum_over
from .domain import Domain
from .formula import Formula, clamped, holds, maximum, minimum, quotient

_LISTED = 1 << 16  # the most points, without sizes, that are listed
_SMALL = 12  # the most values of one variable that get a formula each


@dataclass(frozen=True, slots=True)
class Points:
    """The integer points of `variables` at which all `conditions` are >= 0. Each condition is an `Affine` sum."""

    variables: tuple[Var, ...]
    conditions: tuple[Affine, ...]


class Symbols:
    """The sympy symbols of sizes and, while a sum is computed, of loop variables."""

    def __init__(self, sizes: Mapping[Var, Any]) -> None:
        self.sizes = dict(sizes)

    def of(self, x: Affine) -> Any:
        """Convert a sum to a sympy expression. Raises `NoClosedForm` for terms that are not arithmetic on known
        variables.
        """
        import sympy

        total: Any = sympy.Integer(x.const)
        for term, c in x.terms.items():
            value: Any = sympy.Integer(c)
            for factor in factors(term):
                value *= self._factor(factor)
            total += value
        return total

    def _factor(self, term: Any) -> Any:
        if isinstance(term, Var):
            if term not in self.sizes:
                raise NoClosedForm(term.name)
            return self.sizes[term]
        if term.kind == OPAQUE:
            raise NoClosedForm(str(term))
        a, b = (self.of(arg) for arg in term.args)
        if term.kind == FLOORDIV:
            return quotient(a, b)
        if term.kind == FLOORMOD:
            return a - b * quotient(a, b)
        return minimum(a, b) if term.kind == MIN else maximum(a, b)

    def also(self, names: Iterable[Var]) -> Symbols:
        """Return these symbols together with new symbols for loop variables."""
        import sympy

        return Symbols({**self.sizes, **{v: sympy.Dummy(v.name, integer=True) for v in names}})


def replaced(x: Affine, values: Mapping[Var, Affine], domain: Domain | None = None) -> Affine:
    """Replace variables in a sum with other sums; divisions are simplified in `domain`.

    Raises `NoClosedForm` for products that are too large to expand.
    """
    if not any(v in values for v in variables(x)):
        return x
    total = Affine({}, x.const)
    for term, c in x.terms.items():
        total = total + _replaced_term(term, values, domain or Domain()).scaled(c)
    return total


def _replaced_term(term: Any, values: Mapping[Var, Affine], domain: Domain) -> Affine:
    if isinstance(term, Var):
        return values.get(term, Affine.of(term))
    if term.kind == OPAQUE:
        if any(v in values for v in variables(Affine.of(term))):
            raise NoClosedForm(str(term))
        return Affine.of(term)
    if term.kind == PRODUCT:
        result: Affine | None = Affine({}, 1)
        for factor in term.args:
            result = None if result is None else multiply(result, _replaced_term(factor, values, domain))
        if result is None:
            raise NoClosedForm(str(term))
        return result
    a, b = (replaced(arg, values, domain) for arg in term.args)
    if term.kind in (MIN, MAX):
        if a.is_const and b.is_const:
            return Affine({}, (min if term.kind == MIN else max)(a.const, b.const))
        return Affine.of(Atom(term.kind, (a, b)))
    if b.is_const and b.const > 0:
        return (rules.floordiv if term.kind == FLOORDIV else rules.floormod)(domain, a, b.const)
    simpler = (symbolic.floordiv if term.kind == FLOORDIV else symbolic.floormod)(domain, a, b)
    return Affine.of(Atom(term.kind, (a, b))) if simpler is None else simpler


def coefficient(x: Affine, v: Var) -> tuple[Affine, Affine] | None:
    """Return (c, r) such that x == c*v + r and neither c nor r contains v, or None if x is not linear in v."""
    slope: dict[Any, int] = {}
    constant = 0
    rest: dict[Any, int] = {}
    for term, c in x.terms.items():
        parts = list(factors(term))
        if v not in [p for p in parts if isinstance(p, Var)]:
            rest[term] = c
            continue
        parts.remove(v)
        if parts:
            slope[product(parts)] = slope.get(product(parts), 0) + c
        else:
            constant += c
    step, others = Affine(slope, constant), Affine(rest, x.const)
    return None if occurs(step, v) or occurs(others, v) else (step, others)


def occurs(x: Affine, v: Var) -> bool:
    """Return whether a variable occurs in a sum, at any depth."""
    return any(w is v for w in variables(x))


def number_of(points: Points, symbols: Symbols) -> Any:
    """Return the number of points as a sympy expression in the sizes.

    The variables are split into groups so that no condition connects two groups, and the numbers of points of the
    groups are multiplied. Raises `NoClosedForm` if there is no formula.
    """
    import sympy

    total: Any = sympy.Integer(1)
    for condition in points.conditions:
        if not any(occurs(condition, v) for v in points.variables):
            total *= holds(symbols.of(condition))
    for group in _groups(points):
        total *= _of_group(group, symbols)
    return total


def _groups(points: Points) -> list[Points]:
    groups: list[tuple[list[Var], list[Affine]]] = [([v], []) for v in points.variables]
    for condition in points.conditions:
        touched = [g for g in groups if any(occurs(condition, v) for v in g[0])]
        if not touched:
            continue
        first, *others = touched
        for other in others:
            first[0].extend(other[0])
            first[1].extend(other[1])
            groups.remove(other)
        first[1].append(condition)
    return [Points(tuple(v), tuple(dict.fromkeys(c))) for v, c in groups]


def _of_group(points: Points, symbols: Symbols) -> Any:
    import sympy

    listed = listing(points)
    if listed is not None:
        return sympy.Integer(len(next(iter(listed.values()), ())))
    try:
        return _eliminated(points, symbols.also(points.variables), sympy.Integer(1), Budget())
    except NoClosedForm:
        return _by_values(points, symbols)


def _by_values(points: Points, symbols: Symbols) -> Any:
    """Count the points separately for each value of a variable that has few values, and return the total."""
    import sympy

    for v in points.variables:
        ends = constant_range(points, v)
        if ends is None or ends[1] - ends[0] >= _SMALL:
            continue
        total: Any = sympy.Integer(0)
        rest = tuple(w for w in points.variables if w is not v)
        for value in range(ends[0], ends[1] + 1):
            conditions = tuple(replaced(c, {v: Affine({}, value)}) for c in points.conditions)
            if any(c.is_const and c.const < 0 for c in conditions):
                continue
            open_ones = tuple(c for c in conditions if not c.is_const)
            total += number_of(Points(rest, open_ones), symbols)
        return total
    raise NoClosedForm


def constant_range(points: Points, v: Var) -> tuple[int, int] | None:
    """Return (low, high), inclusive, as implied by the conditions that contain only v, or None if an end is missing."""
    low: int | None = None
    high: int | None = None
    for condition in points.conditions:
        if list(condition.terms) != [v]:
            continue
        c = condition.terms[v]
        if c > 0:
            low = max(-(condition.const // c), -(10**18) if low is None else low)
        else:
            high = min(condition.const // -c, 10**18 if high is None else high)
    return None if low is None or high is None else (low, high)


def listing(points: Points) -> dict[Var, Any] | None:
    """Return the coordinates of all points as arrays, or None if a condition contains a size or there are too many
    points.
    """
    names = set(points.variables)
    if any(v not in names for c in points.conditions for v in variables(c)):
        return None
    ends = [constant_range(points, v) for v in points.variables]
    size = 1
    for end in ends:
        if end is None:
            return None
        size *= max(end[1] - end[0] + 1, 0)
    if size > _LISTED:
        return None
    axes = [np.arange(end[0], end[1] + 1, dtype=np.int64) for end in ends if end is not None]
    grids = [g.reshape(-1) for g in np.meshgrid(*axes, indexing="ij")]
    env = dict(zip(points.variables, grids, strict=True))
    kept = np.ones(size, bool)
    for condition in points.conditions:
        try:
            kept &= np.asarray(evaluate(condition, env)) >= 0
        except KeyError:
            return None
    return {v: g[kept] for v, g in env.items()}


def evaluate(x: Affine, env: Mapping[Var, Any]) -> Any:
    """Return the value of a sum. Variables may have arrays as values. Raises `KeyError` for a term without a value."""
    total: Any = x.const
    for term, c in x.terms.items():
        value: Any = c
        for factor in factors(term):
            value = value * _evaluate_factor(factor, env)
        total = total + value
    return total


def _evaluate_factor(term: Any, env: Mapping[Var, Any]) -> Any:
    if isinstance(term, Var):
        return env[term]
    if term.kind == OPAQUE:
        raise KeyError(str(term))
    a, b = (evaluate(arg, env) for arg in term.args)
    if term.kind == FLOORDIV:
        return a // b
    if term.kind == FLOORMOD:
        return a % b
    return np.minimum(a, b) if term.kind == MIN else np.maximum(a, b)


def _eliminated(points: Points, symbols: Symbols, weight: Any, budget: Budget) -> Any:
    """Sum `weight` over one variable after another, starting with the variable that has the simplest conditions."""
    import sympy

    if not points.variables:
        return weight
    v, below, above, rest = min((_bounds(points, v) for v in points.variables), key=lambda b: _difficulty(points, b))
    if below is None or above is None:
        raise NoClosedForm
    low = maximum(*(-quotient(symbols.of(r), sympy.Integer(c)) for c, r in below))
    high = minimum(*(quotient(symbols.of(r), sympy.Integer(c)) + 1 for c, r in above))
    at = symbols.sizes[v]
    if not weight.has(at):
        total = weight * clamped(high - low)
    else:
        total = sum_over(weight, at, low, maximum(low, high), budget)
    left = tuple(w for w in points.variables if w is not v)
    return _eliminated(Points(left, rest), symbols, total, budget)


_Bounds = tuple[Var, list[tuple[int, Affine]] | None, list[tuple[int, Affine]] | None, tuple[Affine, ...]]


def _bounds(points: Points, v: Var) -> _Bounds:
    """Return (v, lower bounds, upper bounds, other conditions).

    A lower bound is a pair (c, r) from c*v + r >= 0, and an upper bound a pair (c, r) from -c*v + r >= 0. Each list of
    bounds is None if it is empty, or if a condition is not linear in v.
    """
    below: list[tuple[int, Affine]] = []
    above: list[tuple[int, Affine]] = []
    rest = []
    for condition in points.conditions:
        if not occurs(condition, v):
            rest.append(condition)
            continue
        parts = coefficient(condition, v)
        if parts is None or not parts[0].is_const:
            return v, None, None, ()
        c, r = parts[0].const, parts[1]
        (below if c > 0 else above).append((abs(c), r))
    return v, below or None, above or None, tuple(rest)


def _difficulty(points: Points, bounds: _Bounds) -> tuple[bool, int, int]:
    _, below, above, _ = bounds
    if below is None or above is None:
        return True, 0, 0
    others = set(points.variables)
    steep = sum(c > 1 and any(w in others for w in variables(r)) for c, r in (*below, *above))
    return False, steep, len(below) * len(above)


def projected(points: Points, away: Sequence[Var]) -> Points:
    """Project the points onto the variables that are not in `away`, by Fourier-Motzkin elimination.

    Raises `NoClosedForm` if the projection is not exact or leaves too many conditions. The result is exact over the
    integers because one bound of each pair has the coefficient 1: then there is an integer between the two bounds
    exactly if there is a real number.
    """
    variables_left, conditions = list(points.variables), list(points.conditions)
    for v in away:
        variables_left.remove(v)
        _, below, above, rest = _bounds(Points((*variables_left, v), tuple(conditions)), v)
        if below is None or above is None:
            raise NoClosedForm
        pairs = []
        for c, r in below:
            for d, s in above:
                if c != 1 and d != 1:
                    raise NoClosedForm
                pairs.append(s.scaled(c) + r.scaled(d))  # -r/c <= v <= s/d
        conditions = [c for c in dict.fromkeys([*rest, *pairs]) if not (c.is_const and c.const >= 0)]
        if len(conditions) > 32:
            raise NoClosedForm
    return Points(tuple(variables_left), tuple(conditions))


def upper_bound(points: Points, symbols: Symbols, hulls: Mapping[Var, Affine]) -> Any:
    """Return the number of points in the bounding box, as the product of the extents in `hulls`."""
    import sympy

    total: Any = sympy.Integer(1)
    for v in points.variables:
        total *= clamped(symbols.of(hulls[v]))
    return total


def exactly(points: Points, symbols: Symbols, hulls: Mapping[Var, Affine]) -> Formula:
    """Return the exact number of points, or, if there is no closed form, the number of points in their bounding box."""
    try:
        return Formula(number_of(points, symbols))
    except NoClosedForm:
        return Formula(upper_bound(points, symbols, hulls), False)
