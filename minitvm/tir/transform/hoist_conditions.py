"""Move conditions out of loops: an init moves before its reduction loop, and an invariant condition around its loop.

If neighbouring statements do nothing unless the same condition holds, they are put under this condition together and
move further out with it. A buffer that is written and read under the same condition can then be allocated inside the
condition, where every read follows a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith import Analyzer
from ...expr import EQ, Expr, Node, children, free_vars, replace, rewrite_statements, structural_equal
from ..analysis.effects import effects
from ..conditions import all_of, always_defined, conjuncts, reads_memory, uses
from ..nodes import For, ForKind, If, PrimFunc, Seq, Stmt
from .affine import bounds, linear
from .unroll import bind


def hoist_conditions(func: PrimFunc) -> PrimFunc:
    """Move conditions out of loops: `for k: (if k == 0: S0); S1` -> `S0; for k: S1`, and `for j: if p(i): S` -> `if
    p(i): for j: S`.

    before:
        for i in range(4):
            for k in range(8):
                if k == 0:
                    C[i] = 0.0
                C[i] = C[i] + A[i, k]
    after:
        for i in range(4):
            C[i] = 0.0
            for k in range(8):
                C[i] = C[i] + A[i, k]

    The pass also rewrites `if p: S0; for j: if q(j): S1` as `if p: (S0; for j: if q(j): S1)` if each q(j) implies
    p.
    """
    return func.with_body(rewrite_statements(func.body, _hoist))


def _hoist(node: Node) -> Any:
    if isinstance(node, Seq):
        parts = _shared(node.stmts)
        return Seq.of(*parts) if len(parts) < len(node.stmts) else None
    if not isinstance(node, For) or node.thread is not None:
        return None
    if isinstance(node.body, If) and node.body.else_case is None:
        return _unswitched(node, node.body)
    return _init_first(node)


def _unswitched(loop: For, branch: If) -> Stmt | None:
    # Legal: the condition does not depend on the iteration, and it is defined even without the conditions before it.
    outside = [c for c in conjuncts(branch.condition) if not uses(c, [loop.var]) and _moves(c)]
    if not outside:
        return None
    inside = [c for c in conjuncts(branch.condition) if not any(c is o for o in outside)]
    body = If(all_of(inside), branch.then_case) if inside else branch.then_case
    return If(all_of(outside), replace(loop, body=body))


def _shared(stmts: Sequence[Stmt]) -> list[Stmt]:
    """Put neighbouring statements under a common condition: `if c: A; if c: B` -> `if c: (A; B)`.

    The condition may also be inside a statement, if the statement does nothing unless the condition holds.
    """
    # Legal: no statement changes the condition, and it is defined even without the conditions before it (`_moves`).
    parts: list[Stmt] = []
    run: list[Stmt] = []
    common: list[Expr] = []
    for stmt in (*stmts, None):
        left = [c for c in common if stmt is not None and _idle_unless(c, stmt, ())]
        if left and stmt is not None and not any(map(_is_concurrent, (*run, stmt))):
            run, common = [*run, stmt], left
            continue
        if len(run) > 1:
            inside = _shared([_under(common, part) for part in run])
            parts.append(If(all_of(common), Seq.of(*inside)))
        else:
            parts += run
        run, common = ([], []) if stmt is None else ([stmt], _conditions(stmt))
    return parts


def _is_concurrent(stmt: Stmt) -> bool:
    """Return whether a statement contains a loop whose iterations are divided among threads.

    Two statements with such loops stay two separate kernels.
    """
    if isinstance(stmt, For) and stmt.kind in (ForKind.PARALLEL, ForKind.THREAD):
        return True
    return any(_is_concurrent(child) for child in children(stmt) if isinstance(child, Stmt))


def _conditions(stmt: Stmt) -> list[Expr]:
    """Return the conditions that must all hold for a statement to do anything."""
    if not isinstance(stmt, If) or stmt.else_case is not None:
        return []
    return [c for c in conjuncts(stmt.condition) if _moves(c)]


def _moves(condition: Expr) -> bool:
    """Return whether a condition may be evaluated elsewhere.

    This is legal if it reads no memory that a statement could change, and does not divide by a value that may be zero.
    (An earlier condition may have prevented such a division so far.)
    """
    return not reads_memory(condition) and always_defined(condition)


def _idle_unless(condition: Expr, stmt: Stmt, around: tuple[For, ...]) -> bool:
    """Return whether a statement provably does nothing if `condition` does not hold. The loops `around` are between the
    condition and the statement.
    """
    if isinstance(stmt, For) and stmt.thread is None and not uses(condition, [stmt.var]):
        return _idle_unless(condition, stmt.body, (*around, stmt))
    if isinstance(stmt, Seq):
        return all(_idle_unless(condition, part, around) for part in stmt.stmts)
    if not isinstance(stmt, If) or stmt.else_case is not None:
        return False
    own = _conditions(stmt)
    if any(structural_equal(c, condition) for c in own):
        return True
    # Try a proof only if it may succeed.
    if set(free_vars(condition)) <= {v for c in own for v in free_vars(c)}:
        analyzer = Analyzer.inside(*around)
        with analyzer.constraint(*own):
            if analyzer.can_prove(condition):
                return True
    return _idle_unless(condition, stmt.then_case, around)


def _under(common: Sequence[Expr], stmt: Stmt) -> Stmt:
    """Simplify a statement that only runs if the conditions in `common` hold."""
    if not isinstance(stmt, If) or stmt.else_case is not None:
        return stmt
    own = [c for c in conjuncts(stmt.condition) if not any(structural_equal(c, known) for known in common)]
    return replace(stmt, condition=all_of(own)) if own else stmt.then_case


def _init_first(loop: For) -> Stmt | None:
    # Legal: the first statement of the body runs only in the first iteration, before everything else. It does not
    # change the start and end of the loop, which are now evaluated after it.
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
    written = {touch.buffer for touch in effects(first.then_case).writes}
    if any(touch.buffer in written for end in (loop.start, loop.extent) for touch in effects(end).reads):
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
