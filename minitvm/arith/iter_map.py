"""Quasi-affine iteration maps: write a block's bindings as sums of quotients and remainders of its loops.

    sum   ::= base + split*scale + ...
    split ::= (mark // lower_factor) % extent * scale
    mark  ::= a loop variable, or a sum fused into one iterator          with an extent

This follows TVM's `DetectIterMap`. For example, `i0 * 128 + i1` with i1 in [0, 128) is one iterator, whose extent is
the product of the extents of i0 and i1; under the predicate `i0 * 128 + i1 < 1000` its extent is 1000; `// 10` and `%
10` of it are two splits. This form shows whether the map reaches all values (surjective), whether no two points of the
loops give the same values (injective), and what the inverse is. If an expression does not have this form,
`IterMap.errors` contains the reasons, in words that an error message can quote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import expr as ex
from .analyzer import Analyzer
from .iter_check import check, to_expr
from .iter_detector import Detector, IterMap, IterSum, NotAffine

LEVELS = ("none", "surjective", "injective", "bijective")


def detect(
    bindings: Sequence[Any],
    iters: Mapping[Any, Any],
    predicate: Any = True,
    level: str = "surjective",
    analyzer: Analyzer | None = None,
    simplify_trivial: bool = True,
    fuse_first: bool = False,
) -> IterMap:
    """Convert `bindings` to a quasi-affine map of the loops `iters` ({var: Range | extent}, outermost first).

    The result has no errors only if the map has the property `level`. "none": it only has this form. "surjective": it
    reaches every combination of values of the bindings (TVM's level of the same name; there may be loops that no
    binding uses). "injective": two different points of the loops at which `predicate` holds never give the same values.
    "bijective": both. A map without the property is never accepted, but some maps with the property are refused. With
    `fuse_first`, quotients of sums stay quotients of one fused iterator, as TVM writes them.
    """
    if level not in LEVELS:
        raise ValueError(f"level {level!r} is not one of {', '.join(LEVELS)}")
    ranges = {
        (v.var if isinstance(v, ex.IterVar) else v): (r.dom if isinstance(r, ex.IterVar) else r)
        for v, r in iters.items()
    }
    domains = {v: r if isinstance(r, ex.Range) else ex.Range.of(r) for v, r in ranges.items()}
    analyzer = analyzer or Analyzer()
    condition = ex.as_expr(predicate)
    exprs = tuple(ex.as_expr(b) for b in bindings)
    # A loop that never runs maps nothing, so extents may be taken as at least 1.
    with analyzer.constraint(*(r.extent >= ex.const(1, r.extent.dtype) for r in domains.values())):
        for var, r in domains.items():
            analyzer.bind(var, r)
        result = _detect(exprs, domains, condition, level, analyzer, simplify_trivial, fuse_first, use_predicate=True)
        if not result and level in ("none", "injective") and not isinstance(condition, ex.IntImm):
            # Injective on all points is injective where the predicate holds.
            without = _detect(
                exprs, domains, ex.const(True), level, analyzer, simplify_trivial, fuse_first, use_predicate=False
            )
            return without if without else result
        return result


def _detect(
    bindings: tuple[ex.Expr, ...], domains: Mapping[ex.Var, ex.Range], predicate: ex.Expr, level: str,
    analyzer: Analyzer,
    simplify_trivial: bool, fuse_first: bool, use_predicate: bool,
) -> IterMap:  # fmt: skip
    try:
        detector = Detector(domains, analyzer, not simplify_trivial, fuse_first)
    except NotAffine as error:
        return IterMap((), (str(error),), level, bindings=bindings)
    understood = not use_predicate or detector.assume(predicate)
    sums, errors = [], []
    for binding in bindings:
        try:
            parsed = detector.parse(binding)
            sums.append(IterSum(tuple(detector.with_limits(parsed.args)), parsed.base))
        except NotAffine as error:
            errors.append(f"{binding}: {error}" if str(binding) not in str(error) else str(error))
    if errors:
        return IterMap((), tuple(errors), level, bindings=bindings)
    if not understood and level in ("surjective", "bijective"):
        errors.append(f"the predicate {predicate} is not a bound of one fused iterator")
    failures, repeats = check(tuple(sums), detector, level)
    errors += failures
    return IterMap(() if errors else tuple(sums), tuple(errors), level, detector.padded, repeats, bindings)


def simplify(
    bindings: Sequence[Any], iters: Mapping[Any, Any], predicate: Any = True, analyzer: Analyzer | None = None
) -> tuple[ex.Expr, ...]:
    """Rewrite bindings via their normal form if they have one, or else simplify them (TVM's `iter_map_simplify`)."""
    analyzer = analyzer or Analyzer()
    with analyzer.constraint():
        for var, r in iters.items():
            analyzer.bind(var, r)
        mapping = detect(bindings, iters, predicate, "none", analyzer)
        with analyzer.constraint(ex.as_expr(predicate)):
            plain = tuple(analyzer.simplify(b) for b in bindings)
            if not mapping:
                return plain
            rows = (
                analyzer.simplify(to_expr(s, analyzer, ex.as_expr(b).dtype))
                for s, b in zip(mapping.sums, bindings, strict=True)
            )
            return tuple(min(r, p, key=lambda e: len(str(e))) for r, p in zip(rows, plain, strict=True))
