"""Rewrite bindings from their quasi-affine form, as TVM's `IterMapSimplify` writes them.

A fused loop that is split in another way stays one iterator: `(f0 * 256 + f1) // 128` and `% 128`. Bindings without
such a form are simplified like any expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..expr import Expr, Range, Var, const, free_vars
from .affine import Affine, multiply
from .analyzer import Analyzer
from .iter_detector import ONE, IterMark, IterSplit, IterSum
from .iter_map import detect


def simplify_bindings(
    bindings: Sequence[Expr], iters: Mapping[Var, Range], predicate: Expr, analyzer: Analyzer, keep_unit: bool = False
) -> tuple[Expr, ...]:
    """Return block bindings, as functions of the loops `iters`, in their simplest quasi-affine form under `predicate`.

    With `keep_unit`, loops of one iteration stay in the expressions. `analyzer` knows the ranges of all loops.
    """
    moving = {v for binding in bindings for v in free_vars(binding)}
    domains = {v: r for v, r in iters.items() if v in moving}
    for condition in (predicate, const(True)):
        mapping = detect(bindings, domains, condition, "surjective", analyzer, not keep_unit, fuse_first=True)
        if mapping and not any(_shifted(split.mark) for row in mapping.sums for split in row.args):
            return tuple(_sum(row, analyzer, b.dtype) for row, b in zip(mapping.sums, bindings, strict=True))
    return tuple(analyzer.simplify(binding) for binding in bindings)


def _shifted(mark: IterMark) -> bool:
    if isinstance(mark.source, Var):
        return mark.start != Affine({})
    return any(_shifted(inner.mark) for inner in mark.source.args)


def _sum(row: IterSum, analyzer: Analyzer, dtype: str) -> Expr:
    """Convert a sum of splits to an expression: the terms in descending order of their steps, and then the base."""
    total: Expr | None = None
    for split in _outermost_first(row.args, analyzer):
        value = _split(split, analyzer, dtype)
        total = value if total is None else total + value
    base = analyzer.to_expr(row.base, dtype)
    if total is None:
        return base
    if row.base == Affine({}):
        return total
    return total - (-row.base.const) if row.base.is_const and row.base.const < 0 else total + base


def _outermost_first(args: Sequence[IterSplit], analyzer: Analyzer) -> list[IterSplit]:
    """Sort splits by step, largest first. Splits that cannot be compared keep their order."""
    ordered: list[IterSplit] = []
    for split in args:
        place = len(ordered)
        while place and analyzer.domain.nonnegative(split.scale - ordered[place - 1].scale - 1):
            place -= 1
        ordered.insert(place, split)
    return ordered


def _split(split: IterSplit, analyzer: Analyzer, dtype: str) -> Expr:
    source = split.mark.source
    value = source.astype(dtype) if isinstance(source, Var) else _sum(source, analyzer, dtype)
    if split.lower_factor != ONE:
        value = value // analyzer.to_expr(split.lower_factor, dtype)
    if multiply(split.lower_factor, split.extent) != split.mark.extent:
        value = value % analyzer.to_expr(split.extent, dtype)
    return value if split.scale == ONE else value * analyzer.to_expr(split.scale, dtype)
