"""Sums of indices as they are written for people: remainders by their name, terms in an order.

A simplified sum has neither: `x * 16 - x // 4 * 64` is `x % 4 * 16`, and its terms are in the order of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Add, Expr, FloorDiv, IntImm, Mul, Node, Sub, Var, const, free_vars, rewrite, structural_equal

Term = tuple[int, Expr | None]  # a factor and what it multiplies, None for 1


def with_remainders(e: Expr) -> Expr:
    """An expression with `k * x - k * c * (x // c)` in its sums written as `x % c * k`."""

    def change(node: Node) -> Node | None:
        return _folded(node) if isinstance(node, Add | Sub) else None

    changed: Expr = rewrite(e, change)
    return changed


def last_first(e: Expr, order: Sequence[Var]) -> Expr:
    """A sum whose terms come in the order of the last of `order` that each uses, backwards; constants at the end, or in
    front where all else is subtracted.
    """
    found = terms(e)
    if len(found) < 2:
        return e

    def place(term: Term) -> int:
        used = free_vars(term[1]) if term[1] is not None else ()
        return max((order.index(v) for v in used if v in order), default=-1)

    ordered = sorted(found, key=place, reverse=True)
    if all(factor < 0 for factor, term in ordered if term is not None):
        ordered.sort(key=lambda t: t[1] is not None)
    return _sum(ordered, e)


def terms(e: Expr) -> list[Term]:
    """The terms of a sum of products with constants."""
    if isinstance(e, Add):
        return [*terms(e.a), *terms(e.b)]
    if isinstance(e, Sub):
        return [*terms(e.a), *((-k, t) for k, t in terms(e.b))]
    if isinstance(e, IntImm):
        return [(e.value, None)] if e.value else []
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        return [(k * e.b.value, t) for k, t in terms(e.a)]
    return [(1, e)]


def _folded(e: Expr) -> Expr | None:
    found = terms(e)
    for k, (factor, term) in enumerate(found):
        if not isinstance(term, FloorDiv) or not isinstance(term.b, IntImm) or factor % term.b.value:
            continue
        whole = -factor // term.b.value
        for j, (other, x) in enumerate(found):
            if x is not None and other == whole and structural_equal(x, term.a):
                rest = [t for at, t in enumerate(found) if at not in (j, k)]
                rest.insert(min(j, k), (whole, x % term.b))
                made = _sum(rest, e)
                return _folded(made) or made
    return None


def _sum(found: Sequence[Term], like: Expr) -> Expr:
    made: Expr | None = None
    for factor, term in found:
        if made is not None and factor < 0:
            made = made - _product(-factor, term, like)
        else:
            product = _product(factor, term, like)
            made = product if made is None else made + product
    return const(0, like.dtype) if made is None else made


def _product(factor: int, term: Expr | None, like: Expr) -> Expr:
    if term is None:
        return const(factor, like.dtype)
    return term if factor == 1 else term * const(factor, like.dtype)
