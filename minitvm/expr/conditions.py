"""Questions that every level asks of conditions and of small constants."""

from __future__ import annotations

from collections.abc import Iterable

from .node import Node
from .nodes import And, Call, Expr, IntImm, LogicalOp, const
from .visitor import children


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


def certain_parts(e: Node) -> tuple[list[Node], list[Node]]:
    """The children of a node that are evaluated whenever it is, and those that a condition among these may leave out.

    Left out can be either value of `if_then_else`, and the second operand of `and` and `or` of scalars.
    """
    parts = list(children(e))
    if (isinstance(e, Call) and e.op == "if_then_else") or (isinstance(e, LogicalOp) and e.dtype.lanes == 1):
        return parts[:1], parts[1:]
    return parts, []
