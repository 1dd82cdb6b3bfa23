"""Boxes: the part of a buffer that an access touches while some loops run and the other variables are fixed.

A box is a tuple of `Range`s, one for each dimension, whose ends may use the fixed variables. `evaluate` finds the box
of one access; hulls, intersections and cover tests combine boxes. Boxes are used to place computations (compute_at,
caches), to derive the regions that blocks read and write, and to shrink buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import Expr, IterVar, Max, Min, Range, Var, as_expr, const, free_vars, match
from ..expr.conditions import is_const
from . import rules
from .affine import FLOORDIV, FLOORMOD, MAX, MIN, PRODUCT, Affine, Atom, add_into, factors, multiply, product, variables
from .analyzer import Analyzer
from .domain import Domain

Box = tuple[Range, ...]
Ends = tuple[Affine, Affine]


@dataclass(frozen=True, slots=True)
class TouchedRegion:
    """The elements that an access touches. All of them are in `box`; if `exact`, every element of the box is touched.

    `unbounded` lists the dimensions whose ends could not be computed, as for `A[B[i]]`. `evaluate` says what `box`
    contains for these dimensions.
    """

    box: Box
    exact: bool
    unbounded: tuple[int, ...] = ()


def evaluate(
    indices: Sequence[Any],
    domains: Mapping[Any, Range],
    analyzer: Analyzer | None = None,
    fallback: Box | None = None,
) -> TouchedRegion:
    """Return the box that `indices` cover while the variables in `domains`, outermost first, run through their ranges.

    The domain of an inner variable may use outer ones. Other variables are fixed; `analyzer` knows their ranges. If a
    dimension cannot be bounded, its range is taken from `fallback` (the box of the whole buffer), or is [0, 1) if there
    is no fallback, and the dimension is listed in `unbounded`.
    """
    if analyzer is None:
        return Moving(domains, Analyzer()).region(indices, fallback)
    with analyzer.constraint():
        return Moving(domains, analyzer).region(indices, fallback)


class Moving:
    """Variables that run through their ranges, together with facts about the ranges that are computed once for all
    boxes.

    The ranges are bound in the analyzer, so you must not use it for anything else, unless you are inside a
    `constraint`.
    """

    def __init__(self, domains: Mapping[Any, Range], analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._moving = {v.var if isinstance(v, IterVar) else v: r for v, r in domains.items()}
        for var, values in self._moving.items():
            analyzer.bind(var, values)
        self._ends = {v: _ends_of_range(analyzer, r) for v, r in self._moving.items()}
        self._reach = _reach(self._moving)

    def region(self, indices: Sequence[Any], fallback: Box | None = None) -> TouchedRegion:
        """Return the box that indices cover; see `evaluate`."""
        analyzer, moving, ends, reach = self.analyzer, self._moving, self._ends, self._reach
        box: list[Range] = []
        unbounded: list[int] = []
        dense = True
        seen: set[Var] = set()
        for d, index in enumerate(map(as_expr, indices)):
            x = analyzer.normal_form(index)
            bounds = None if x is None else extremes(x, ends, analyzer.domain)
            if x is None or bounds is None:
                unbounded.append(d)
                box.append(fallback[d] if fallback is not None else Range.of(as_expr(0), as_expr(1)))
                dense = False
                continue
            used = {v for v in variables(x) if v in moving}
            bound = {w for v in used for w in reach[v]}
            dense = dense and not bound & seen and _dense(x, ends, set(moving))
            dense = dense and all(_joins_on(ends[v], used, moving) for v in used if len(reach[v]) > 1)
            seen |= bound
            low, high = bounds
            dtype = index.dtype
            extent = rules.merge_splits(analyzer.domain, high - low + 1)
            box.append(Range(analyzer.to_expr(low, dtype), analyzer.to_expr(extent, dtype)))
        return TouchedRegion(tuple(box), dense, tuple(unbounded))


def _reach(moving: Mapping[Any, Range]) -> dict[Any, set[Any]]:
    """Return, for each variable, itself and the variables on which its range depends: `j` in [0, i + 1) moves with
    `i`.
    """
    reach: dict[Any, set[Any]] = {}
    for var, values in moving.items():
        outer = {v for e in (values.start, values.extent) for v in free_vars(e) if v in reach}
        reach[var] = {var}.union(*(reach[v] for v in outer))
    return reach


def _joins_on(ends: Ends | None, used: set[Var], moving: Mapping[Any, Range]) -> bool:
    """Return whether the ranges that a variable has for different values of outer variables form one range without
    gaps.

    They do if they all start or all end at the same place, and if no variable that decides the other end is in the same
    sum. For example, j in [0, i + 1) covers [0, n) for i in [0, n), but the sum i + 2*j may have gaps.
    """
    if ends is None:
        return False
    decides = [{v for v in variables(end) if v in moving} for end in ends]
    return not all(decides) and not any(d & used for d in decides)


def _ends_of_range(analyzer: Analyzer, r: Range) -> Ends | None:
    start, extent = analyzer.normal_form(r.start), analyzer.normal_form(r.extent)
    return None if start is None or extent is None else (start, start + extent - 1)


def swept(box: Box, moving: Moving, whole: Box, outside: Analyzer) -> Box:
    """Return the elements that a box covers while variables run, as one box.

    A dimension that cannot be bounded is copied from `whole`. `outside` knows the ranges of the fixed variables.
    """
    low = moving.region([r.start for r in box], whole)
    if all(is_const(r.extent, 1) for r in box):
        return low.box
    high = moving.region([r.start + (r.extent - 1) for r in box], whole)
    sides: list[Range] = []
    for d, (first, last) in enumerate(zip(low.box, high.box, strict=True)):
        if d in low.unbounded or d in high.unbounded:
            sides.append(whole[d])
            continue
        extent = outside.simplify(last.start + last.extent - first.start)
        sides.append(Range(outside.simplify(first.start), extent))
    return tuple(sides)


def extremes(x: Affine, ends: Mapping[Var, Ends | None], domain: Domain) -> Ends | None:
    """Return the (smallest, largest) value of a sum while the variables in `ends` run, or None if it is not known.

    Both ends are expressions in the other variables.
    """
    inner_first = list(ends)[::-1]
    low = high = x
    for var in inner_first:
        bounds = ends[var]
        if not any(v is var for v in variables(low)) and not any(v is var for v in variables(high)):
            continue
        if bounds is None:
            return None
        lowest, highest = _replace(low, var, bounds, domain, 0), _replace(high, var, bounds, domain, 1)
        if lowest is None or highest is None:
            return None
        low, high = lowest, highest
    return low, high


def _replace(x: Affine, var: Var, bounds: Ends, domain: Domain, end: int) -> Affine | None:
    """Return the smallest (end 0) or the largest (end 1) value of a sum over the range of one variable."""
    slope: dict[Any, int] = {}
    slope_const = 0
    result = Affine({}, x.const)
    for term, c in x.terms.items():
        if term is var:
            slope_const += c
            continue
        if not any(v is var for v in variables(Affine({term: 1}))):
            result = result + Affine({term: c})
            continue
        if isinstance(term, Atom) and term.kind == PRODUCT:
            parts = list(factors(term))
            position = next((i for i, p in enumerate(parts) if p is var), None)
            rest = [p for i, p in enumerate(parts) if i != position]
            if position is not None and not any(v is var for p in rest for v in variables(Affine({p: 1}))):
                add_into(slope, [(product(rest), c)], 1)
                continue
        piece = _atom_end(term, var, bounds, domain, end if c > 0 else 1 - end)
        if piece is None:
            return None
        result = result + piece.scaled(c)
    if not slope and not slope_const:
        return result
    steep = Affine(slope, slope_const)
    low, high = domain.interval(steep)
    if low is not None and low >= 0:
        moved = multiply(steep, bounds[end])
    elif high is not None and high <= 0:
        moved = multiply(steep, bounds[1 - end])
    else:
        return None
    return None if moved is None else result + moved


def _atom_end(term: Any, var: Var, bounds: Ends, domain: Domain, end: int) -> Affine | None:
    if not isinstance(term, Atom) or term.kind not in (FLOORDIV, FLOORMOD, MIN, MAX):
        return None
    if term.kind in (MIN, MAX):
        a, b = (_replace(arg, var, bounds, domain, end) for arg in term.args)
        if a is None or b is None:
            return None
        if domain.nonnegative(b - a):
            return a if term.kind == MIN else b
        if domain.nonnegative(a - b):
            return b if term.kind == MIN else a
        return Affine.of(Atom(term.kind, (a, b)))
    inner, divisor = term.args
    if term.kind == FLOORMOD:
        low, high = domain.interval(Affine.of(term))
        if end == 0:
            return Affine({}, low) if low is not None else None
        return Affine({}, high) if high is not None else divisor - 1 if domain.nonnegative(divisor - 1) else None
    if not divisor.is_const or divisor.const <= 0:
        return None
    reached = _replace(inner, var, bounds, domain, end)
    return None if reached is None else rules.floordiv(domain, reached, divisor.const)


def _dense(x: Affine, ends: Mapping[Var, Ends | None], moving: set[Var]) -> bool:
    """Return whether a sum takes every value between its extremes, because its steps, sorted by size, leave no gaps."""
    steps: list[tuple[int, int | None]] = []
    for term, c in x.terms.items():
        if not any(v in moving for v in variables(Affine({term: 1}))):
            continue
        bounds = ends.get(term) if isinstance(term, Var) else None
        if bounds is None:
            return False
        last = bounds[1] - bounds[0]
        # A symbolic extent leaves no gap if its step is already filled, but larger steps are not known to follow
        # without a gap.
        steps.append((abs(c), last.const if last.is_const else None))
    filled: int | None = 1
    for step, length in sorted(steps, key=lambda s: (s[0], s[1] is None)):
        if filled is None:
            return False
        if step > filled:
            return False
        filled = None if length is None else filled + step * length
    return True


def hull(a: Box, b: Box, analyzer: Analyzer) -> Box:
    """Return the smallest box that contains two boxes, which may be larger than their union."""
    return tuple(_hull(x, y, analyzer) for x, y in zip(a, b, strict=True))


def _hull(a: Range, b: Range, analyzer: Analyzer) -> Range:
    a_low, b_low = match(a.start, b.start)
    a_end, b_end = match(a.start + a.extent, b.start + b.extent)
    low, end = match(analyzer.simplify(Min(a_low, b_low)), Max(a_end, b_end))  # an index may be narrower than its axis
    return Range(low, analyzer.simplify(end - low))


def hull_of(boxes: Sequence[Box], analyzer: Analyzer) -> Box:
    """Return the smallest box that contains all `boxes`."""
    result = boxes[0]
    for box in boxes[1:]:
        result = hull(result, box, analyzer)
    return result


def intersect(a: Box, b: Box, analyzer: Analyzer) -> Box:
    """Return the exact intersection of two boxes. An extent is 0 if they do not overlap."""
    return tuple(_intersect(x, y, analyzer) for x, y in zip(a, b, strict=True))


def _intersect(a: Range, b: Range, analyzer: Analyzer) -> Range:
    a_low, b_low = match(a.start, b.start)
    a_end, b_end = match(a.start + a.extent, b.start + b.extent)
    low, end = match(analyzer.simplify(Max(a_low, b_low)), Min(a_end, b_end))
    extent = end - low
    return Range(low, analyzer.simplify(Max(extent, const(0, extent.dtype))))


def covers(outer: Box, inner: Box, analyzer: Analyzer) -> bool:
    """Return whether `outer` is proved to contain all of `inner`."""
    return all(
        analyzer.can_prove(x.start <= y.start) and analyzer.can_prove(y.start + y.extent <= x.start + x.extent)
        for x, y in zip(outer, inner, strict=True)
    )


def disjoint(a: Box, b: Box, analyzer: Analyzer) -> bool:
    """Return whether two boxes are proved to have no element in common."""
    return any(
        analyzer.can_prove(x.start + x.extent <= y.start) or analyzer.can_prove(y.start + y.extent <= x.start)
        for x, y in zip(a, b, strict=True)
    )


def same(a: Box, b: Box, analyzer: Analyzer) -> bool:
    """Return whether two boxes are proved to be equal."""
    return len(a) == len(b) and all(
        analyzer.can_prove_equal(x.start, y.start) and analyzer.can_prove_equal(x.extent, y.extent)
        for x, y in zip(a, b, strict=True)
    )


class Boxes:
    """A set of boxes with fast lookup: `hold` returns whether one of them is provably the `same` as a given box.

    Boxes with linear ends are equal only if their normal forms are; boxes with other ends are compared one by one.
    """

    def __init__(self) -> None:
        self._analyzer = Analyzer()
        self._forms: dict[Any, Box] = {}
        self._nonlinear: list[Box] = []

    def add(self, box: Box) -> None:
        """Add a box to the set."""
        forms, linear = self._form(box)
        if forms not in self._forms:
            self._forms[forms] = box
            self._nonlinear += [] if linear else [box]

    def hold(self, box: Box) -> bool:
        """Return whether a box is provably equal to one of these boxes."""
        forms, linear = self._form(box)
        if forms in self._forms:
            return True
        return any(same(box, other, self._analyzer) for other in (self._nonlinear if linear else self._forms.values()))

    def _form(self, box: Box) -> tuple[Any, bool]:
        """Return the normal forms of the ends with their dtypes, and whether all ends are linear."""
        forms = [(e.dtype, self._analyzer.affine(e)) for r in box for e in (r.start, r.extent)]
        return tuple(forms), not any(isinstance(term, Atom) for _, form in forms for term in form.terms)


def stride_of(index: Expr, var: Var, analyzer: Analyzer | None = None) -> int | None:
    """Return how much an index grows when a variable grows by one, or None if that is not constant."""
    x = (analyzer or Analyzer()).normal_form(index)
    if x is None:
        return None
    stride = x.terms.get(var, 0)
    return None if any(v is var for v in variables(x.without(var))) else stride
