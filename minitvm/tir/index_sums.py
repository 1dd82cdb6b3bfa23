"""Write index sums the way people do: use `%` for remainders and put the terms in a sensible order.

Simplified sums have neither. For example, they contain `x * 16 - x // 4 * 64` instead of `x % 4 * 16`, and the order of
their terms is arbitrary.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .. import expr as ex
from ..arith import Analyzer
from ..expr.conditions import is_const

Term = tuple[int, ex.Expr | None]  # a factor and the expression that it multiplies, None for 1


def with_remainders(e: ex.Expr) -> ex.Expr:
    """Rewrite `k * x - k * c * (x // c)` as `x % c * k` in the sums of an expression."""

    def change(node: ex.Node) -> ex.Node | None:
        return _folded(node) if isinstance(node, ex.Add | ex.Sub) else None

    changed: ex.Expr = ex.rewrite(e, change)
    return changed


def with_remainders_inside(e: ex.Expr) -> ex.Expr:
    """Rewrite each digit `x // a % b` in an expression as TVM does: `x % (a * b) // a`."""

    def change(node: ex.Node) -> ex.Node | None:
        if (
            not isinstance(node, ex.FloorMod)
            or not isinstance(node.a, ex.FloorDiv)
            or not isinstance(node.b, ex.IntImm)
        ):
            return None
        x, step = node.a.a, node.a.b
        return (x % (step.value * node.b.value)) // step if isinstance(step, ex.IntImm) and step.value > 0 else None

    changed: ex.Expr = ex.rewrite(e, change)
    return changed


def last_first(e: ex.Expr, order: Sequence[ex.Var]) -> ex.Expr:
    """Sort the terms of a sum by the last variable in `order` that they use, in descending order.

    Constants come last, unless all other terms are subtracted; then they come first.
    """
    addends = terms(e)
    if len(addends) < 2:
        return e

    def place(term: Term) -> int:
        used = ex.free_vars(term[1]) if term[1] is not None else ()
        return max((order.index(v) for v in used if v in order), default=-1)

    ordered = sorted(addends, key=place, reverse=True)
    if all(factor < 0 for factor, term in ordered if term is not None):
        ordered.sort(key=lambda t: t[1] is not None)
    return _sum(ordered, e)


def with_unit_places(
    back: Sequence[ex.Expr],
    variables: Sequence[ex.Var],
    finals: Sequence[ex.Expr],
    places: Sequence[ex.Var],
    shape: Sequence[ex.Expr],
) -> tuple[ex.Expr, ...]:
    """Write the inverse of a layout so that it includes the indices that are always 0, as TVM does.

    For example, write `axis0 * 4 + axis1` even if all elements are in the first tile of 4.
    """
    by_variable = dict(zip(variables, back, strict=True))
    for final, place, dim in zip(finals, places, shape, strict=True):
        index, step = (final.a, final.b) if isinstance(final, ex.FloorDiv) else (final, ex.const(1, final.dtype))
        if (
            not is_const(dim, 1)
            or not isinstance(index, ex.Var)
            or index not in by_variable
            or not isinstance(step, ex.IntImm)
        ):
            continue
        tile = _product(step.value, place, by_variable[index])
        by_variable[index] = tile if is_const(by_variable[index], 0) else tile + by_variable[index]
    return tuple(by_variable.values())


def padded_edges(
    dims: Sequence[ex.Expr],
    shape: Sequence[ex.Expr],
    places: Sequence[ex.Var],
    back: Sequence[ex.Expr],
    conditions: int,
) -> ex.Expr | None:
    """Return the condition for the padding of a tiled layout as TVM writes it: a comparison of the tile index, and one
    of the position inside the tile.

    For example, `axis0 == 3 and 2 <= axis1` for 14 elements in tiles of 4. `back` are the elements as sums over
    `places`, the indices of the new shape. `conditions` is the number of conditions that select the existing elements.
    Returns None if there are other conditions.
    """
    ranges = {p: ex.Range(ex.const(0, d.dtype), d) for p, d in zip(places, shape, strict=True)}
    inside = Analyzer(ranges)
    numbered: list[tuple[int, ex.Expr]] = []
    edges = 0
    for value, dim in zip(back, dims, strict=True):
        digits = terms(value)
        start = -sum(k for k, t in digits if t is None)
        whole = [(k, t) for k, t in digits if t is not None]
        if not isinstance(dim, ex.IntImm) or not whole or start < 0:
            return None
        step, tile = max(whole, key=lambda t: t[0])
        if start == 0 and step == 1 and isinstance(tile, ex.Var) and len(whole) == 1:  # not in tiles
            low, high = inside.bounds(tile)
            if high != dim.value - 1:
                edges += 1
                numbered.append((places.index(tile), _from(dim, tile, high)))
            continue
        rest = _sum([t for t in whole if t[1] is not tile], value)
        low, high = inside.bounds(rest)
        if not isinstance(tile, ex.Var) or tile not in ranges or low is None or high is None or low < 0 or high >= step:
            return None
        last, left = divmod(dim.value + start, step)
        if start:
            edges += 1
            if start > high:
                return None
            numbered.append((places.index(tile), _edge(inside, tile, 0, rest < start)))
        if left > high:  # for example, if a digit with only one value is left out
            return None
        if left:
            edges += 1
            numbered.append(
                (places.index(tile), _edge(inside, tile, last, _from(ex.const(left, rest.dtype), rest, high)))
            )
        if inside.bounds(tile)[1] != (last if left else last - 1):
            return None
    if edges != conditions:
        return None
    return functools.reduce(ex.Or, [edge for _, edge in sorted(numbered, key=lambda e: e[0])])


def _from(least: ex.Expr, index: ex.Expr, high: int | None) -> ex.Expr:
    last = high is not None and is_const(least, high)
    return ex.EQ(index, least) if isinstance(index, ex.Var) and last else least <= index


def _edge(inside: Analyzer, tile: ex.Var, at: int, condition: ex.Expr) -> ex.Expr:
    return condition if inside.bounds(tile) == (at, at) else ex.And(ex.EQ(tile, ex.const(at, tile.dtype)), condition)


def terms(e: ex.Expr) -> list[Term]:
    """Return the terms of a sum, each as a constant factor and an expression (None for a constant term)."""
    if isinstance(e, ex.Add):
        return [*terms(e.a), *terms(e.b)]
    if isinstance(e, ex.Sub):
        return [*terms(e.a), *((-k, t) for k, t in terms(e.b))]
    if isinstance(e, ex.IntImm):
        return [(e.value, None)] if e.value else []
    if isinstance(e, ex.Mul) and isinstance(e.b, ex.IntImm):
        return [(k * e.b.value, t) for k, t in terms(e.a)]
    return [(1, e)]


def _folded(e: ex.Expr) -> ex.Expr | None:
    addends = terms(e)
    for k, (factor, term) in enumerate(addends):
        if not isinstance(term, ex.FloorDiv) or not isinstance(term.b, ex.IntImm) or factor % term.b.value:
            continue
        whole = -factor // term.b.value
        for j, (other, x) in enumerate(addends):
            if x is not None and other == whole and ex.structural_equal(x, term.a):
                rest = [t for at, t in enumerate(addends) if at not in (j, k)]
                rest.insert(min(j, k), (whole, x % term.b))
                total = _sum(rest, e)
                return _folded(total) or total
    return None


def _sum(addends: Sequence[Term], like: ex.Expr) -> ex.Expr:
    total: ex.Expr | None = None
    for factor, term in addends:
        if total is not None and factor < 0:
            total = total - _product(-factor, term, like)
        else:
            product = _product(factor, term, like)
            total = product if total is None else total + product
    return ex.const(0, like.dtype) if total is None else total


def _product(factor: int, term: ex.Expr | None, like: ex.Expr) -> ex.Expr:
    if term is None:
        return ex.const(factor, like.dtype)
    return term if factor == 1 else term * ex.const(factor, like.dtype)
