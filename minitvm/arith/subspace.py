"""Divide an iteration space: split each binding of a block into a part of the outer loops and a part of the inner
loops.

    i * 16 + j,  k * 4 + l   with inner loops j, l   ->   outer parts i, k   and inner parts j in [0, 16), l in [0, 4)

This follows TVM's `SubspaceDivide`. A binding can be divided if it is `outer * extent + inner`, where `inner` depends
only on the inner loops and takes all values in [0, extent), and `outer` depends only on the outer loops and is an
integer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..expr import Expr, IntImm, Range, Var, as_expr, const, find, walk
from ..expr.conditions import both, conjuncts
from .affine import Affine, Term
from .analyzer import Analyzer
from .iter_check import values
from .iter_detector import Detector, IterSum
from .iter_map import detect

Loops = Mapping[Var, Range]


@dataclass(frozen=True, slots=True)
class Division:
    """A binding split into two: `binding == outer * inner_extent + inner`, with inner in [0, inner_extent) and outer
    in `outer_range`.
    """

    outer: Expr
    outer_range: Range
    inner: Expr
    inner_extent: Expr


@dataclass(frozen=True, slots=True)
class Divided:
    """The split of every binding and of the predicate. It is empty, and false, if the bindings (`errors`) or the
    predicate (`predicate_errors`) cannot be split; these fields give the reasons.
    """

    parts: tuple[Division, ...] = ()
    outer_predicate: Expr = field(default_factory=lambda: const(True))
    inner_predicate: Expr = field(default_factory=lambda: const(True))
    errors: tuple[str, ...] = ()
    predicate_errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.errors and not self.predicate_errors


def subspace_divide(bindings: Sequence[Any], iters: Loops, inner: Collection[Var], predicate: Any = True) -> Divided:
    """Divide `bindings` over the loops `iters` into parts of the `inner` loops and parts of the other loops.

    The inner parts together are a bijective quasi-affine map of the inner loops. Each of these must start at 0, and its
    extent must not depend on outer loops. The outer parts are functions of the outer loops. They take all values of
    their ranges, except if outer loops overlap (a tile with a halo): then they may take only some of the values. Each
    condition that `predicate` joins must depend only on outer or only on inner loops. Under the conditions of the inner
    loops, each inner part takes its first values, without a gap.
    """
    within = {v: r for v, r in iters.items() if v in inner}
    around = {v: r for v, r in iters.items() if v not in inner}
    try:
        return _divided([as_expr(b) for b in bindings], as_expr(predicate), within, around, Analyzer(iters))
    except _Indivisible as refusal:
        return refusal.why


class _Indivisible(Exception):
    def __init__(self, *errors: str, predicate: bool = False) -> None:
        self.why = Divided(predicate_errors=errors) if predicate else Divided(errors=errors)


def _divided(bindings: list[Expr], predicate: Expr, within: Loops, around: Loops, analyzer: Analyzer) -> Divided:
    sides = [_sides(e, within, around, analyzer) for e in bindings]
    inner = [inside for _, inside in sides]
    mapping = detect(inner, within, level="bijective", analyzer=Analyzer(around))
    if not mapping:
        raise _Indivisible(*mapping.errors)
    detector = Detector(around, analyzer, keep_unit=True)
    quotients = [
        _quotient(e, outside, inside, row, detector)
        for e, (outside, inside), row in zip(bindings, sides, mapping.sums, strict=True)
    ]
    outer, extents = [e for e, _ in quotients], [extent for _, extent in quotients]
    outer_condition, inner_condition = _split_conditions(predicate, within, around)
    limited = not isinstance(inner_condition, IntImm)
    counts = _counts(inner, inner_condition, within, around, analyzer) if limited else extents
    ranges = _ranges(outer, outer_condition, around, analyzer)
    for e, r, extent, count in zip(outer, ranges, extents, counts, strict=True):
        if analyzer.can_prove_equal(count, extent):
            continue
        if not analyzer.can_prove_equal(r.start, 0) or not analyzer.can_prove_equal(r.extent, 1):
            raise _Indivisible(f"{inner_condition} leaves holes between the steps of {e}", predicate=True)
    parts = (
        Division(e, r, i, analyzer.simplify(count)) for e, r, i, count in zip(outer, ranges, inner, counts, strict=True)
    )
    return Divided(tuple(parts), outer_condition, inner_condition)


def _sides(e: Expr, within: Loops, around: Loops, analyzer: Analyzer) -> tuple[Affine, Expr]:
    """Split a binding into two sums: the terms that depend on outer loops, and the terms that depend on inner loops."""
    form = analyzer.normal_form(analyzer.simplify(e))
    if form is None:
        raise _Indivisible(f"{e} is not an index expression")
    inside: dict[Term, int] = {}
    outside: dict[Term, int] = {}
    for term, factor in form.terms.items():
        used = {v for v in walk(analyzer.to_expr(Affine({term: 1}), e.dtype)) if isinstance(v, Var)}
        if used & within.keys() and used & around.keys():
            shown = analyzer.to_expr(Affine({term: factor}), e.dtype)
            text = f"{shown} mixes outer and inner loops"
            raise _Indivisible(text if str(shown) == str(e) else f"{e}: its part {text}")
        (inside if used & within.keys() else outside)[term] = factor
    return Affine(outside, form.const), analyzer.simplify(analyzer.to_expr(Affine(inside), e.dtype))


def _quotient(e: Expr, outside: Affine, inside: Expr, row: IterSum, detector: Detector) -> tuple[Expr, Expr]:
    """Return (the outer part of a binding, the number of values of its inner part), given the two sums of `_sides`."""
    reached = values(row)
    if reached is None or reached[0] != Affine({}):
        raise _Indivisible(f"{inside} does not take all values from 0 up")
    quotient = detector.divide(outside, reached[1])
    to_expr = detector.analyzer.to_expr
    extent = to_expr(reached[1], e.dtype)
    if quotient is None:
        rest = to_expr(outside, e.dtype)
        raise _Indivisible(f"{e}: the inner loops take {extent} values, which {rest} is not a multiple of")
    return detector.analyzer.simplify(to_expr(quotient, e.dtype)), extent


def _counts(inner: list[Expr], condition: Expr, within: Loops, around: Loops, analyzer: Analyzer) -> list[Expr]:
    """Return how many values each inner part takes under its condition. These are the first values, without a gap.

    Raises `_Indivisible` if there are gaps.
    """
    limited = detect(inner, within, condition, "bijective", analyzer=Analyzer(around))
    counts = []
    for e, row in zip(inner, limited.sums, strict=False):
        reached = values(row)
        if reached is not None and reached[0] == Affine({}):
            counts.append(analyzer.to_expr(reached[1], e.dtype))
    if not limited or len(counts) < len(inner):
        raise _Indivisible(f"{condition} leaves holes in what the inner loops run through", predicate=True)
    return counts


def _ranges(outer: list[Expr], condition: Expr, around: Loops, analyzer: Analyzer) -> list[Range]:
    """Return the ranges of values that the outer parts take."""
    steps = detect(outer, around, condition, "surjective", Analyzer())
    if not steps and not isinstance(condition, IntImm):
        # Without the predicate the domains are larger; this is allowed for the domain of an iterator.
        steps = detect(outer, around, True, "surjective", Analyzer())
    if not steps:
        return _domains(outer, around, steps.errors)
    ranges = []
    for e, row in zip(outer, steps.sums, strict=True):
        reached = values(row)
        if reached is None:
            raise _Indivisible(f"{e} does not take consecutive values")
        ranges.append(Range(*(analyzer.simplify(analyzer.to_expr(x, e.dtype)) for x in reached)))
    return ranges


def _domains(outer: list[Expr], around: Loops, errors: Sequence[str]) -> list[Range]:
    """Return intervals that contain the values of the outer parts when their steps overlap, as with a halo.

    Raises `_Indivisible` if a value has no constant bounds.
    """
    analyzer, ranges = Analyzer(around), []
    for e in outer:
        low, high = analyzer.bounds(e)
        if low is None or high is None:
            raise _Indivisible(*errors)
        ranges.append(Range(const(low, e.dtype), const(high - low + 1, e.dtype)))
    return ranges


def _split_conditions(predicate: Expr, within: Loops, around: Loops) -> tuple[Expr, Expr]:
    """Split a predicate into the conditions on the outer loops and the conditions on the inner loops.

    Raises `_Indivisible` for a condition on both.
    """
    sides: dict[bool, Expr] = {True: const(True), False: const(True)}
    for condition in conjuncts(predicate):
        used = set(find(condition, Var))
        if used & within.keys() and used & around.keys():
            raise _Indivisible(f"{condition} joins outer and inner loops", predicate=True)
        side = bool(used & within.keys())
        sides[side] = both(sides[side], condition)
    return sides[False], sides[True]
