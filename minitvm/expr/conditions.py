"""Questions that every level asks of conditions and of small constants."""

from __future__ import annotations

from collections.abc import Iterable

from .nodes import And, Expr, IntImm, const


def is_const(e: Expr, value: int) -> bool:
    """Whether an expression is that integer (or bool) constant."""
    return isinstance(e, IntImm) and e.value == value


def both(a: Expr, b: Expr) -> Expr:
    """`a and b`, with a constant True left out."""
    if is_const(a, 1):
        return b
    return a if is_const(b, 1) else And(a, b)


def all_of(conditions: Iterable[Expr]) -> Expr:
    """The conjunction of conditions, True when there are none."""
    result: Expr = const(True)
    for condition in conditions:
        result = both(result, condition)
    return result


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that `and` joins in an expression; none for a constant True."""
    if isinstance(e, And):
        return [*conjuncts(e.a), *conjuncts(e.b)]
    return [] if is_const(e, 1) else [e]
