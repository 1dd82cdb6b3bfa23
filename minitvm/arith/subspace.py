"""Dividing an iteration space: which part of a block's iterators do the inner loops run through, which the outer ones?

    i * 16 + j,  k * 4 + l   over i, k | j, l   ->   (i, 1 of 16, j), (k, of 4, l)

After TVM's `SubspaceDivide`. A binding divides where it is `outer * extent + inner`: `inner`, of the inner loops alone,
takes all values in [0, extent), and `outer`, of the outer loops alone, is an integer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..expr import And, Expr, IntImm, Range, Var, as_expr, const, walk
from .affine import Affine, Term
from .analyzer import Analyzer
from .iter_check import values
from .iter_map import _Detector, detect


@dataclass(frozen=True, slots=True)
class Division:
    """`binding == outer * inner_extent + inner`, with inner in [0, inner_extent) and outer in `outer_range`."""

    outer: Expr
    outer_range: Range
    inner: Expr
    inner_extent: Expr


@dataclass(frozen=True, slots=True)
class Divided:
    """A division of every binding, and of the predicate; none where there are `errors`, which say why."""

    parts: tuple[Division, ...] = ()
    outer_predicate: Expr = field(default_factory=lambda: const(True))
    inner_predicate: Expr = field(default_factory=lambda: const(True))
    errors: tuple[str, ...] = ()
    predicate_errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.errors and not self.predicate_errors


def subspace_divide(
    bindings: Sequence[Any], iters: Mapping[Var, Range], inner: Collection[Var], predicate: Any = True
) -> Divided:
    """Divide `bindings` over the loops `iters` between those of `inner` and the others.

    The inner parts together are a bijective quasi-affine map of the inner loops (each of which starts at 0 and has an
    extent that no outer loop decides), the outer parts a surjective one of the outer loops. Each condition that
    `predicate` joins is one of outer or of inner loops alone.
    """
    within = {v: r for v, r in iters.items() if v in inner}
    around = {v: r for v, r in iters.items() if v not in inner}
    analyzer = Analyzer(iters)
    outer_parts: list[Affine] = []
    inner_parts: list[Expr] = []
    for binding in bindings:
        e = as_expr(binding)
        form = analyzer.normal_form(analyzer.simplify(e))
        if form is None:
            return Divided(errors=(f"{e} is not an index expression",))
        mine: dict[Term, int] = {}
        others: dict[Term, int] = {}
        for term, factor in form.terms.items():
            used = {v for v in walk(analyzer.to_expr(Affine({term: 1}), e.dtype)) if isinstance(v, Var) and v in iters}
            if used & within.keys() and used & around.keys():
                shown = analyzer.to_expr(Affine({term: factor}), e.dtype)
                text = f"{shown} mixes outer and inner loops"
                return Divided(errors=(text if str(shown) == str(e) else f"{e}: its part {text}",))
            (mine if used & within.keys() else others)[term] = factor
        inner_parts.append(analyzer.simplify(analyzer.to_expr(Affine(mine), e.dtype)))
        outer_parts.append(Affine(others, form.const))
    found = detect(inner_parts, within, level="bijective", analyzer=Analyzer(around))
    if not found:
        return Divided(errors=found.errors)
    parts: list[Division] = []
    outer_values: list[Expr] = []
    detector = _Detector(around, analyzer, keep_unit=True)
    for binding, row, inside, outside in zip(bindings, found.sums, inner_parts, outer_parts):
        dtype = as_expr(binding).dtype
        reached = values(row)
        if reached is None or reached[0] != Affine({}):
            return Divided(errors=(f"{inside} does not take all values from 0 up",))
        quotient = detector.divide(outside, reached[1])
        extent = analyzer.to_expr(reached[1], dtype)
        if quotient is None:
            rest = analyzer.to_expr(outside, dtype)
            text = f"{binding}: the inner loops take {extent} values, which {rest} is not a multiple of"
            return Divided(errors=(text,))
        outer_values.append(analyzer.simplify(analyzer.to_expr(quotient, dtype)))
        parts.append(Division(outer_values[-1], Range(const(0, dtype), const(1, dtype)), inside, extent))
    conditions = _split_conditions(as_expr(predicate), within, around)
    if isinstance(conditions, str):
        return Divided(errors=(), predicate_errors=(conditions,))
    outer_condition, inner_condition = conditions
    steps = detect(outer_values, around, outer_condition, "surjective", Analyzer())
    if not steps and not isinstance(outer_condition, IntImm):
        # The domains without the predicate are larger, which an iterator's domain may be.
        steps = detect(outer_values, around, True, "surjective", Analyzer())
    if not steps:
        return Divided(errors=steps.errors)
    divided: list[Division] = []
    for part, row in zip(parts, steps.sums):
        reached = values(row)
        if reached is None:
            return Divided(errors=(f"{part.outer} does not take consecutive values",))
        first, count = (analyzer.simplify(analyzer.to_expr(x, part.outer.dtype)) for x in reached)
        extent = analyzer.simplify(part.inner_extent)
        divided.append(Division(part.outer, Range(first, count), part.inner, extent))
    return Divided(tuple(divided), outer_condition, inner_condition)


def _split_conditions(
    predicate: Expr, within: Mapping[Var, Range], around: Mapping[Var, Range]
) -> tuple[Expr, Expr] | str:
    sides: dict[bool, Expr] = {True: const(True), False: const(True)}
    for condition in _conjuncts(predicate):
        used = {v for v in walk(condition) if isinstance(v, Var)}
        if used & within.keys() and used & around.keys():
            return f"{condition} joins outer and inner loops"
        side = bool(used & within.keys())
        known = sides[side]
        sides[side] = condition if isinstance(known, IntImm) else And(known, condition)
    return sides[False], sides[True]


def _conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, And):
        return [*_conjuncts(e.a), *_conjuncts(e.b)]
    return [] if isinstance(e, IntImm) and e.value else [e]
