"""Give each kernel a single parallel loop, which is its outermost: fuse perfectly nested parallel loops, and make all
others serial.
"""

from __future__ import annotations

from typing import Any

from ...expr import Expr, FloorDiv, FloorMod, IntImm, Var, map_children, replace, substitute
from ...target import Target
from ..analysis.effects import effects
from ..conditions import is_const, iterations, uses
from ..nodes import Allocate, For, ForKind, LetStmt, PrimFunc, Seq, Stmt
from .affine import structural_key
from .unroll import bind


def fuse_parallel_loops(func: PrimFunc, target: Target | None = None) -> PrimFunc:
    """Fuse perfectly nested parallel loops into one.

    before:
        for i in T.parallel(4):
            for j in T.parallel(8):
                B[i, j] = A[i, j] * 2.0
    after:
        for i_j in T.parallel(32):
            i_j_q: T.int32 = i_j // 8
            i_j_r: T.int32 = i_j % 8
            B[i_j_q, i_j_r] = A[i_j_q, i_j_r] * 2.0

    `for i in parallel(m): for j in parallel(n): S` becomes one parallel loop of m*n iterations. A parallel loop
    anywhere else inside another loop becomes serial, and so do all on a machine without threads.
    """
    return func.with_body(_top(func.body) if getattr(target, "has_threads", True) else _serial(func.body))


def _top(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Seq):
        return Seq.of(*map(_top, stmt.stmts))
    if isinstance(stmt, Allocate):
        return replace(stmt, body=_top(stmt.body))
    if isinstance(stmt, LetStmt):
        body = _top(stmt.body)
        return _sunk(stmt, body) if _is_steady(stmt.value, body) else replace(stmt, body=_serial(body))
    if not isinstance(stmt, For) or stmt.kind != ForKind.PARALLEL:
        return _serial(stmt)
    loop = _fused(stmt)
    return replace(loop, body=_serial(with_named_parts(loop.var, loop.body)))


def _is_steady(value: Expr, body: Stmt) -> bool:
    """Return whether `value` stays the same while `body` runs."""
    written = {touch.buffer for touch in effects(body).writes}
    return not any(touch.buffer in written for touch in effects(value).reads)


def _sunk(let: LetStmt, body: Stmt) -> Stmt:
    """Move a let down to the statements that use it, so that parallel loops stay outermost in their kernels. Returns
    the new body.
    """
    if not uses(body, [let.var]):
        return body
    if isinstance(body, Seq):
        return Seq.of(*(_sunk(let, part) for part in body.stmts))
    if isinstance(body, Allocate):
        return replace(body, body=_sunk(let, body.body))
    own = let.var.with_name(let.var.name)
    inner = substitute(body, {let.var: own})
    if isinstance(inner, For) and inner.kind == ForKind.PARALLEL and not uses(inner.extent, [own]):
        if not uses(inner.start, [own]):
            return replace(inner, body=LetStmt(own, let.value, inner.body))
    return LetStmt(own, let.value, _serial(inner))


def _fused(outer: For) -> For:
    inner = outer.body
    if not isinstance(inner, For) or inner.kind != ForKind.PARALLEL:
        return outer
    inner = _fused(inner)
    zero = all(is_const(loop.start, 0) for loop in (outer, inner))
    if not zero or uses(inner.extent, [outer.var]):
        return outer
    # Legal: (i, j) -> i * n + j is one-to-one from [0, m) x [0, n) onto [0, m * n), and iterations of nested parallel
    # loops run in any order.
    fused = Var(f"{outer.var.name}_{inner.var.name}", outer.var.dtype)
    count = iterations(inner.extent)  # two negative extents have no positive product
    extent = outer.extent * count.astype(outer.extent.dtype)
    if isinstance(outer.extent, IntImm) and isinstance(count, IntImm):
        if outer.extent.value * count.value > outer.var.dtype.max:
            return outer
        extent = IntImm(outer.extent.value * count.value, outer.extent.dtype)
    values = {
        outer.var: FloorDiv(fused, inner.extent.astype(fused.dtype)),
        inner.var: FloorMod(fused, inner.extent.astype(fused.dtype)).astype(inner.var.dtype),
    }
    return For(fused, outer.start, extent, ForKind.PARALLEL, bind(inner.body, values), None, outer.annotations)


def with_named_parts(var: Var, body: Stmt) -> Stmt:
    """Name quotients and remainders of a variable so that indices are linear: `S(f // 13, f % 13)` -> `let p = f // 13,
    q = f % 13: S(p, q)`.
    """
    parts: dict[Any, tuple[Var, Any]] = {}

    def go(node: Any) -> Any:
        new = map_children(node, go)
        if not isinstance(new, FloorDiv | FloorMod) or not isinstance(new.b, IntImm):
            return new
        if new.a is not var and not any(new.a is name for name, _ in parts.values()):
            return new
        key = structural_key(new)
        if key not in parts:
            suffix = "q" if isinstance(new, FloorDiv) else "r"
            parts[key] = (Var(f"{var.name}_{suffix}", new.dtype), new)
        return parts[key][0]

    total = go(body)
    for name, value in reversed(parts.values()):
        total = LetStmt(name, value, total)
    return total


def _serial(node: Any) -> Any:
    if not isinstance(node, Stmt):
        return node
    new = map_children(node, _serial)
    # Legal: one after another is one of the orders in which parallel iterations may run.
    if isinstance(new, For) and new.kind == ForKind.PARALLEL:
        return replace(new, kind=ForKind.SERIAL)
    return new
