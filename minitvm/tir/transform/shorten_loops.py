"""Shorten a loop if a condition selects a part of its iterations.

For example, a tile that may exceed an extent unknown at compile time tests in each iteration whether this iteration
exists. A condition that is linear in the loop variable holds for the first or for the last iterations, so the end of
this part can be computed once.
"""

from __future__ import annotations

from typing import Any

from ...expr import Expr, Max, Min, Node, Var, const, find, replace, rewrite_statements
from ..conditions import all_of, always_defined, conjuncts, reads_memory
from ..nodes import For, ForKind, If, PrimFunc
from .affine import Affine, coefficient, expr, moves, slack
from .simplify import fold


def shorten_loops(func: PrimFunc) -> PrimFunc:
    """Compute the bounds of serial loops from the conditions at the start of their bodies.

    Loops over the threads of a grid keep their conditions.

    before:
        A: T.Buffer((100,), "float32")
        B: T.Buffer((100,), "float32")
        for b in range(4):
            for i in range(32):
                if b * 32 + i < 100:
                    B[b * 32 + i] = A[b * 32 + i]
    after:
        for b in range(4):
            for i in range(T.max(T.min(32, 100 - b * 32), 0)):
                B[b * 32 + i] = A[b * 32 + i]
    """
    if any(loop.thread is not None for loop in find(func.body, For)):
        return func
    return func.with_body(rewrite_statements(func.body, _shortened))


def _shortened(loop: Node) -> Any:
    if not isinstance(loop, For) or loop.kind != ForKind.SERIAL or loop.annotations:
        return None
    body = loop.body
    if not isinstance(body, If) or body.else_case is not None:
        return None
    # Legal: a condition that is linear in the loop's variable, always defined and independent of memory holds for an
    # interval of iterations. The other iterations did nothing, since the body is only the branch.
    low, high, left = loop.start, loop.start + loop.extent, []
    for condition in conjuncts(body.condition):
        bound = _bound(condition, loop.var)
        if bound is None:
            left.append(condition)
            continue
        first, end = bound
        low = low if first is None else Max(low, first)
        high = high if end is None else Min(high, end)
    if len(left) == len(conjuncts(body.condition)):
        return None
    dtype = loop.var.dtype
    extent = Max(high - low, const(0, dtype))
    inside = If(all_of(left), body.then_case) if left else body.then_case
    return replace(loop, start=fold(low, {}), extent=fold(extent, {}), body=inside)


def _bound(condition: Expr, var: Var) -> tuple[Expr | None, Expr | None] | None:
    """Return the bounds (first, end) of the values of `var` for which a condition holds; `end` is exclusive, and one of
    the two is None, because the condition bounds `var` only on one side. Return None if the condition is not linear in
    `var`.

    f + c*v < 0  <=>  v < ceil(-f / c)        f - c*v < 0  <=>  floor(f / c) < v        for c > 0
    """
    form = slack(condition) if not reads_memory(condition) and always_defined(condition) else None
    step = 0 if form is None else coefficient(form, var)
    if form is None or step == 0:
        return None
    rest = form.without(var)
    if moves(rest, [var]):
        return None
    if step > 0:
        behind = expr(Affine({term: -times for term, times in rest.terms.items()}, step - 1 - rest.const), var.dtype)
        return None, behind if step == 1 else behind // step
    before = expr(rest, var.dtype)
    return (before if step == -1 else before // -step) + 1, None
