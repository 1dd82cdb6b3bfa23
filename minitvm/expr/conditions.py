"""Small functions on conditions and constants that every level uses."""

from __future__ import annotations

from collections.abc import Iterable

from .node import Node
from .nodes import And, Call, Expr, IntImm, LogicalOp, const
from .visitor import children


def is_const(e: Expr, value: int) -> bool:
    """Return whether an expression is the integer (or bool) constant `value`."""
    return isinstance(e, IntImm) and e.value == value


def both(a: Expr, b: Expr) -> Expr:
    """Return `a and b`, leaving out a constant True."""
    if is_const(a, 1):
        return b
    return a if is_const(b, 1) else And(a, b)


def all_of(conditions: Iterable[Expr]) -> Expr:
    """Return the conjunction of the conditions, or True if there are none."""
    result: Expr = const(True)
    for condition in conditions:
        result = both(result, condition)
    return result


def conjuncts(e: Expr) -> list[Expr]:
    """Return the conditions that an expression joins with `and`, or an empty list for a constant True."""
    if isinstance(e, And):
        return [*conjuncts(e.a), *conjuncts(e.b)]
    return [] if is_const(e, 1) else [e]


def certain_parts(e: Node) -> tuple[list[Node], list[Node]]:
    """Split the children of a node into those that are always evaluated with it, and those that may be skipped.

    For example, `if_then_else` skips one of its two values, and `and` and `or` on scalars may skip the second operand.
    """
    parts = list(children(e))
    if (isinstance(e, Call) and e.op == "if_then_else") or (isinstance(e, LogicalOp) and e.dtype.lanes == 1):
        return parts[:1], parts[1:]
    return parts, []
