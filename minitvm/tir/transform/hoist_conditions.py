"""Conditions move out of loops: an init to before its reduction loop, an invariant condition around the loop."""

from __future__ import annotations

from typing import Any

from ...expr import EQ, Expr, Node, replace, rewrite_statements
from ..conditions import all_of, conjuncts, reads_memory, uses
from ..nodes import For, ForKind, If, PrimFunc, Seq, Stmt
from .affine import bounds, linear
from .unroll import bind


def hoist_conditions(func: PrimFunc) -> PrimFunc:
    """`for k: (if k == 0: S0); S1` -> `S0; for k: S1`, and `for j: if p(i): S` -> `if p(i): for j: S`."""
    return func.with_body(rewrite_statements(func.body, _hoist))


def _hoist(node: Node) -> Any:
    if not isinstance(node, For) or node.thread is not None:
        return None
    if isinstance(node.body, If) and node.body.else_case is None:
        return _unswitched(node, node.body)
    return _init_first(node)


def _unswitched(loop: For, branch: If) -> Stmt | None:
    # Legal: the condition reads no memory that the body could change, and does not depend on the iteration.
    outside = [c for c in conjuncts(branch.condition) if not uses(c, [loop.var]) and not reads_memory(c)]
    if not outside:
        return None
    inside = [c for c in conjuncts(branch.condition) if not any(c is o for o in outside)]
    body = If(all_of(inside), branch.then_case) if inside else branch.then_case
    return If(all_of(outside), replace(loop, body=body))


def _init_first(loop: For) -> Stmt | None:
    # Legal: the first statement of the body runs in the first iteration only, and there before everything else.
    first, *rest = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    ordered = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    if not ordered or not isinstance(first, If) or first.else_case is not None or not rest:
        return None
    starts = [c for c in conjuncts(first.condition) if _is_start(c, loop)]
    if not starts:
        return None
    others = [c for c in conjuncts(first.condition) if not any(c is s for s in starts)]
    if any(reads_memory(c) for c in others):
        return None
    init: Stmt = If(all_of(others), first.then_case) if others else first.then_case
    init = bind(init, {loop.var: loop.start.astype(loop.var.dtype)})
    count = bounds(loop.extent, {})
    if count is None or count[0] < 1:
        init = If(loop.extent > 0, init)
    return Seq.of(init, replace(loop, body=Seq.of(*rest)))


def _is_start(condition: Expr, loop: For) -> bool:
    if not isinstance(condition, EQ):
        return False
    difference = linear(condition.a) - linear(condition.b)
    distance = linear(loop.var) - linear(loop.start)
    return difference in (distance, -distance)
