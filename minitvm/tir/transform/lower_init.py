"""A block's `init` becomes an ordinary statement that runs where all reduction iterators stand at their start."""

from __future__ import annotations

from typing import Any

from ...expr import EQ, REDUCE, And, Expr, Node, const, replace, rewrite
from ..nodes import Block, If, PrimFunc, Seq, Stmt


def lower_init(func: PrimFunc) -> PrimFunc:
    """`init: S0; body: S1` -> `if k == start: S0` and then `S1`."""
    return func.with_body(rewrite(func.body, _lower))


def _lower(node: Node) -> Any:
    if not isinstance(node, Block) or node.init is None:
        return None
    starts = [EQ(axis.var, axis.dom.start) for axis in node.iter_vars if axis.kind == REDUCE]
    guarded: Stmt = If(_all(starts), node.init) if starts else node.init
    return replace(node, init=None, body=Seq.of(guarded, node.body))


def _all(conditions: list[EQ]) -> Expr:
    total: Expr = conditions[0] if conditions else const(True)
    for condition in conditions[1:]:
        total = And(total, condition)
    return total
