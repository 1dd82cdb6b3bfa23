"""Count the distinct elements that accesses touch, for symbolic sizes: the sizes of images of integer points.

An access is a sum of multiples of loop variables, c1*v1 + c2*v2 + ... Two variables are merged if the steps of one fit
into the range of the other: 2*i + k over i < n, k < 3 is u over u < 2*n + 1. If each remaining multiple is larger than
the sum that the smaller ones can reach, no two points share an element (as for numbers in mixed radix), so the number
of elements equals the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...arith.affine import Affine, multiply, variables
from ...arith.closed_sums import NoClosedForm
from ...arith.formula import Formula, capped, clamped, formula, holds
from ...arith.lattice import Points, coefficient, number_of, occurs, projected
from ...expr import Var
from .iterations import Iterations


@dataclass(frozen=True, slots=True)
class Access:
    """An access to the element `base` of a buffer in each of the iterations `runs`."""

    base: Affine
    runs: Iterations


@dataclass(frozen=True, slots=True)
class Image:
    """A set of elements, with its size, its first and last element (None if unknown), and whether it contains all
    elements in between.

    The set is empty unless all `guards`, which are sums of sizes, are >= 0. Images with the same `key` differ only in
    their guards.
    """

    size: Formula
    low: Affine | None
    high: Affine | None
    dense: bool
    guards: frozenset[Affine]
    key: Any


def distinct(accesses: Sequence[Access], ceiling: Formula | None) -> Formula:
    """Return the number of elements that all accesses together touch; `ceiling` is the size of the buffer, if known."""
    accesses = [access for access in accesses if access.runs.terms]
    if not accesses:
        return formula(0)
    images = [image(access) for access in _unrolled(accesses)]
    domain = accesses[0].runs.space.analyzer.domain
    kept: list[Image] = []
    for one in images:
        if any(_inside(domain, one, other) for other in kept):
            continue
        kept = [other for other in kept if not _inside(domain, other, one)] + [one]
    total = formula(0)
    for one in kept:
        total = total + one.size
    apart = all(_apart(domain, a, b) for i, a in enumerate(kept) for b in kept[:i])
    total = Formula(total.expr, total.exact and apart)
    return total if ceiling is None else capped(total, ceiling)


def _inside(domain: Any, a: Image, b: Image) -> bool:
    """Return whether the set a is a subset of b."""
    if not b.guards <= a.guards:
        return False
    if a.key is not None and a.key == b.key:
        return True
    if not b.dense or a.low is None or a.high is None or b.low is None or b.high is None:
        return False
    return bool(domain.nonnegative(a.low - b.low) and domain.nonnegative(b.high - a.high))


def _apart(domain: Any, a: Image, b: Image) -> bool:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return False
    return bool(domain.nonnegative(a.low - b.high - 1) or domain.nonnegative(b.low - a.high - 1))


# -- accesses that differ only in their start -------------------------------------------------------------------------


def _unrolled(accesses: Sequence[Access]) -> list[Access]:
    """Merge equal accesses, and merge accesses at regular distances into a single access inside additional loops."""
    groups: dict[Any, list[Access]] = {}
    for access in accesses:
        runs = access.runs
        terms = frozenset(access.base.terms.items())
        key = (frozenset((sign, frozenset(c)) for sign, c in runs.terms), tuple(runs.box), terms)
        groups.setdefault(key, []).append(access)
    result = []
    for group in groups.values():
        offsets = sorted({access.base.const for access in group})
        steps = pattern(offsets)
        first = group[0]
        if steps is None:
            result += [replace(first, base=Affine(first.base.terms, offset)) for offset in offsets]
            continue
        result.append(_in_loops(replace(first, base=Affine(first.base.terms, offsets[0])), steps))
    return result


def pattern(offsets: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the (step, times) pairs of nested loops that produce these ascending numbers, starting from the first;
    None if there are none.
    """
    if len(offsets) == 1:
        return []
    step = offsets[1] - offsets[0]
    run = 1
    while run < len(offsets) and offsets[run] - offsets[run - 1] == step:
        run += 1
    if len(offsets) % run:
        return None
    starts = offsets[::run]
    if any(offsets[k * run + i] - start != i * step for k, start in enumerate(starts) for i in range(run)):
        return None
    outer = pattern(starts)
    return None if outer is None else [(step, run), *outer]


def _in_loops(access: Access, steps: Sequence[tuple[int, int]]) -> Access:
    from ...expr import const

    base, runs = access.base, access.runs
    for step, times in steps:
        v = Var("u")
        runs = runs.loop(v, const(0), const(times))
        own = runs.lets[v]
        assert isinstance(own, Var)
        base = base + Affine.of(own, step)
    return Access(base, runs)


# -- one access ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Side:
    """One term of an index: the values of `step * v`, where the variable v takes `extent` values from `low` on."""

    step: Affine
    low: Affine
    extent: Affine

    @property
    def high(self) -> Affine:
        """The last value of the variable."""
        return self.low + self.extent - 1


def image(access: Access) -> Image:
    """Return the set of elements of one access. If no formula is known, its size is an upper bound."""
    runs, (base,) = access.runs.split([access.base])
    try:
        return _image(base, runs)
    except NoClosedForm:
        low, high = _hull(base, runs)
        return Image(Formula(runs.iterations.expr, False), low, high, False, frozenset(), None)


def _hull(base: Affine, runs: Iterations) -> tuple[Affine | None, Affine | None]:
    try:
        return runs.extreme(base, low=True), runs.extreme(base, low=False)
    except NoClosedForm:
        return None, None


def _image(base: Affine, runs: Iterations) -> Image:
    symbols = runs.space.symbols
    domain = runs.space.analyzer.domain
    steps = {v: _step(base, v, runs) for v in runs.box if occurs(base, v)}
    unused = [v for v in runs.box if v not in steps]
    if len(runs.terms) != 1 or runs.terms[0][0] != 1:
        return _signed(base, runs, unused, steps)
    points = projected(Points(tuple(runs.box), runs.terms[0][1]), unused)
    sides = {v: _Side(step, *runs.box[v]) for v, step in steps.items()}
    shape = _ConstrainedSides(domain, sides, list(points.conditions))
    offset = Affine(
        {t: c for t, c in base.terms.items() if not any(occurs(Affine.of(t), v) for v in steps)}, base.const
    )
    low, high = offset, offset
    for side in sides.values():
        first, last = multiply(side.step, side.low), multiply(side.step, side.high)
        if first is None or last is None:
            raise NoClosedForm(str(base))
        low, high = low + first, high + last
    tied = tuple(v for v in sides if shape.ties(v))
    size = number_of(Points(tied, tuple(c for c in shape.conditions if any(occurs(c, v) for v in tied))), symbols)
    for v, side in sides.items():
        if v not in tied:
            size = size * clamped(symbols.of(side.extent))
    for guard in shape.guards:
        size = size * holds(symbols.of(guard))
    dense = not tied and (not sides or [s.step for s in sides.values()] == [Affine({}, 1)])
    free = frozenset((s.step, s.extent) for v, s in sides.items() if v not in tied)
    key = (low, free, frozenset((v, sides[v].step) for v in tied), frozenset(shape.conditions))
    return Image(Formula(size, _in_order(domain, sides)), low, high, dense, frozenset(shape.guards), key)


def _signed(base: Affine, runs: Iterations, unused: list[Var], steps: dict[Var, Affine]) -> Image:
    """Return the image if the conditions form an indicator with several terms: its size is the number of points,
    provided that no two points share an element.
    """
    domain = runs.space.analyzer.domain
    sides = {v: _Side(step, *runs.box[v]) for v, step in steps.items()}
    conditions = [c for _, several in runs.terms for c in several]
    alone = all(not (occurs(c, v) and any(occurs(c, w) for w in steps)) for v in unused for c in conditions)
    # A variable that no index uses may only be in conditions that all terms have; otherwise it gives several ways to
    # reach an element.
    common = set(runs.terms[0][1]).intersection(*(c for _, c in runs.terms))
    if not alone or any(occurs(c, v) and c not in common for v in unused for c in conditions):
        raise NoClosedForm
    if not _in_order(domain, sides):
        raise NoClosedForm
    total = 0
    for sign, several in runs.terms:
        points = projected(Points(tuple(runs.box), several), unused)
        total += sign * number_of(points, runs.space.symbols)
    return Image(Formula(total), *_hull(base, runs), False, frozenset(), (base, runs.terms))


def _step(base: Affine, v: Var, runs: Iterations) -> Affine:
    """Return the coefficient of `v` in `base`; raise `NoClosedForm` unless it is nonnegative and contains no loop
    variables.
    """
    parts = coefficient(base, v)
    if parts is None or any(w in runs.box for w in variables(parts[0])):
        raise NoClosedForm(str(base))
    if not runs.space.analyzer.domain.nonnegative(parts[0]):
        raise NoClosedForm(str(parts[0]))
    return parts[0]


class _ConstrainedSides:
    """Simplifies an access whose variables are related by conditions: it narrows their ranges and merges variables.

    This changes `sides` in place. `conditions` are the conditions that remain, and `guards` those on sizes only.
    """

    def __init__(self, domain: Any, sides: dict[Var, _Side], conditions: list[Affine]) -> None:
        self.domain, self.sides = domain, sides
        self.guards = {c for c in conditions if not any(occurs(c, v) for v in sides)}
        self.conditions = [c for c in conditions if c not in self.guards]
        for v in sides:
            self.narrow(v)
        while self.merge_two():
            pass

    def ties(self, v: Var) -> bool:
        """Return whether a condition relates this variable to others, that is, whether any condition except those of
        `own` contains it.
        """
        return any(occurs(c, v) and c not in self.own(v) for c in self.conditions)

    def own(self, v: Var) -> tuple[Affine, Affine]:
        """Return two sums that are both >= 0 exactly if a variable is within its range: v - low and high - v."""
        side = self.sides[v]
        return Affine.of(v) - side.low, side.high - Affine.of(v)

    def narrow(self, v: Var) -> None:
        """Turn conditions on only this variable into its bounds, if it is known which bound is tighter."""
        side = self.sides[v]
        lows, highs = [side.low], [side.high]
        for condition in self.conditions:
            parts = coefficient(condition, v)
            if parts is None or not parts[0].is_const or abs(parts[0].const) != 1 or self._names(parts[1]):
                continue
            (lows if parts[0].const > 0 else highs).append(-parts[1] if parts[0].const > 0 else parts[1])
        low = self._extreme(lows, highest=True)
        high = self._extreme(highs, highest=False)
        if low is None or high is None:
            return
        for condition in (*(Affine.of(v) - low for low in lows), *(high - Affine.of(v) for high in highs)):
            if condition in self.conditions:
                self.conditions.remove(condition)
        self.sides[v] = _Side(side.step, low, high - low + 1)
        self.conditions += self.own(v)

    def _names(self, x: Affine) -> bool:
        return any(occurs(x, v) for v in self.sides)

    def _extreme(self, ends: list[Affine], highest: bool) -> Affine | None:
        for end in ends:
            if all(self.domain.nonnegative(end - o if highest else o - end) for o in ends):
                return end
        return None

    def merge_two(self) -> bool:
        """Merge two variables if the steps of one fit into the range of the other; return whether any were merged."""
        for v, small in self.sides.items():
            for w, large in self.sides.items():
                if v is not w and (self._side_by_side(v, w, small, large) or self._overlapping(v, w, small, large)):
                    return True
        return False

    def _side_by_side(self, v: Var, w: Var, small: _Side, large: _Side) -> bool:
        """Merge v + extent * w, where v runs through its whole range for each w; return whether this was possible."""
        if self.ties(v) or self.ties(w):
            return False
        reach, extent = multiply(small.step, small.extent), multiply(small.extent, large.extent)
        if reach is None or reach != large.step or extent is None:
            return False
        low = multiply(small.extent, large.low)
        if low is None:
            return False
        self._replace(v, w, _Side(small.step, small.low + low, extent))
        return True

    def _overlapping(self, v: Var, w: Var, small: _Side, large: _Side) -> bool:
        """Merge v + times * w, which takes all values in its range if v takes at least `times` values; return whether
        this was possible.
        """
        times = _ratio(small.step, large.step)
        if times is None or not self.domain.nonnegative(small.extent - times):
            return False
        others = [
            c for c in self.conditions if c not in (*self.own(v), *self.own(w)) and (occurs(c, v) or occurs(c, w))
        ]
        for condition in others:
            first, second = coefficient(condition, v), coefficient(condition, w)
            if first is None or second is None or second[0] != first[0].scaled(times):
                return False
        self.conditions = [c for c in self.conditions if c not in others]
        extent = small.extent + (large.extent - 1).scaled(times)
        self._replace(v, w, _Side(small.step, small.low + large.low.scaled(times), extent))
        self.conditions += [c for c in (_without(c, w) for c in others) if c not in self.conditions]
        if not self.domain.nonnegative(large.extent - 1):
            self.guards.add(large.extent - 1)
        self.narrow(v)
        return True

    def _replace(self, v: Var, w: Var, side: _Side) -> None:
        gone = (*self.own(v), *self.own(w))
        self.conditions = [c for c in self.conditions if c not in gone]
        del self.sides[w]
        self.sides[v] = side
        self.conditions += self.own(v)


def _without(x: Affine, v: Var) -> Affine:
    parts = coefficient(x, v)
    assert parts is not None
    return parts[1]


def _ratio(small: Affine, large: Affine) -> int | None:
    """Return the integer k >= 1 with large == k * small, or None if there is none."""
    if small.is_const and large.is_const:
        return large.const // small.const if small.const > 0 and large.const % small.const == 0 else None
    for term, c in small.terms.items():
        k = large.terms.get(term, 0) // c
        return k if k >= 1 and small.scaled(k) == large else None
    return None


def _in_order(domain: Any, sides: dict[Var, _Side]) -> bool:
    """Return whether each step is larger than the sum that the smaller steps can reach together."""
    left = list(sides.values())
    reached = Affine({}, 1)
    while left:
        following = [s for s in left if domain.nonnegative(s.step - reached)]
        # The smallest of these: no other is smaller.
        smallest = next((s for s in following if all(domain.nonnegative(o.step - s.step) for o in left)), None)
        if smallest is None:
            return False
        left.remove(smallest)
        reach = multiply(smallest.step, smallest.extent - 1)
        if reach is None:
            return False
        reached = reached + reach
    return True
