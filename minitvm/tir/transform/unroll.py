"""Replace loops marked `unroll` by a sequence of their iterations, within a budget of statements."""

from __future__ import annotations

from typing import Any

from ...expr import Expr, IntImm, Var, const, map_children, replace
from ...expr.visitor import accessed, variables
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, PrimFunc, Seq, Stmt
from .affine import expr, linear
from .growth import count_copy

# A micro-kernel of 8x3 vectors with its loads and its write-back has about 100 statements. More statements take longer
# to compile.
STATEMENT_BUDGET = 1500


def unroll(func: PrimFunc) -> PrimFunc:
    """Unroll loops: `for i in unroll(2): S(i)` -> `S(0)`, `S(1)`. A loop that exceeds the budget or has an unknown
    extent becomes serial.

    before:
        for i in T.unroll(3):
            B[i] = A[i] * 2.0
    after:
        B[0] = A[0] * 2.0
        B[1] = A[1] * 2.0
        B[2] = A[2] * 2.0
    """
    return func.with_body(_unroll(func.body, STATEMENT_BUDGET))


def _unroll(stmt: Any, budget: int) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if not isinstance(stmt, For) or stmt.kind != ForKind.UNROLLED:
        return map_children(stmt, lambda child: _unroll(child, budget))
    constant = isinstance(stmt.start, IntImm) and isinstance(stmt.extent, IntImm)
    count = stmt.extent.value if isinstance(stmt.extent, IntImm) else 0
    body = _unroll(stmt.body, budget // max(1, count))
    if not constant or count * statement_count(body) > budget:
        return replace(stmt, kind=ForKind.SERIAL, body=body)
    first = int(stmt.start.value)  # type: ignore[attr-defined]
    if count == 0:
        return Seq(())
    # Legal: the copies run in the order of the iterations, each with the value that the variable had in it. A copy
    # defines its own lets, loops and storage, as an iteration did.
    return Seq.of(*(bind(body, {stmt.var: const(first + i, stmt.var.dtype)}) for i in range(count)))


def statement_count(stmt: Stmt) -> int:
    """Return the number of stores, lets and calls. The size of the generated source is proportional to this number."""
    return max(1, sum(isinstance(s, Stmt) and not isinstance(s, Seq | For) for s in _statements(stmt)))


def _statements(stmt: Stmt) -> list[Stmt]:
    statements, stack = [], [stmt]
    while stack:
        top = stack.pop()
        statements.append(top)
        stack.extend(getattr(top, name) for name in top._children if isinstance(getattr(top, name), Stmt))
        if isinstance(top, Seq):
            stack.extend(top.stmts)
    return statements


def unrolled_size(stmt: Stmt) -> int:
    """Return the number of statements that a statement has after all loops marked `unroll` are unrolled."""
    if isinstance(stmt, For):
        body = unrolled_size(stmt.body)
        counted = stmt.kind == ForKind.UNROLLED and isinstance(stmt.extent, IntImm)
        return body * stmt.extent.value if counted else body  # type: ignore[attr-defined]
    if isinstance(stmt, Seq):
        return sum(map(unrolled_size, stmt.stmts))
    inner = [getattr(stmt, f) for f in stmt._children if isinstance(getattr(stmt, f), Stmt)]
    return sum(map(unrolled_size, inner)) if inner else statement_count(stmt)


def bind(stmt: Any, values: dict[Var, Expr], buffers: dict[Buffer, Buffer] | None = None) -> Any:
    """Substitute expressions for variables in a copy of a statement. Changed indices become linear, and lets and loops
    get new variables.

    Allocations get new buffers, so that the copy and the original define different variables and buffers. `buffers` are
    the buffers renamed so far.
    """
    count_copy()
    renamed = buffers or {}
    replaced, moved = frozenset(values), frozenset(renamed)

    def go(node: Any) -> Any:
        if isinstance(node, Expr):
            if isinstance(node, Var):
                return values.get(node, node)
            if replaced.isdisjoint(variables(node)) and moved.isdisjoint(accessed(node)):
                return node
        elif isinstance(node, LetStmt):
            fresh = node.var.with_name(node.var.name)
            inner = bind(node.body, {**values, node.var: fresh}, renamed)
            return LetStmt(fresh, go(node.value), inner)
        elif isinstance(node, For):
            fresh = node.var.with_name(node.var.name)
            inner = bind(node.body, {**values, node.var: fresh}, renamed)
            return replace(node, var=fresh, start=go(node.start), extent=go(node.extent), body=inner)
        elif isinstance(node, Allocate):
            own = replace(node.buffer)
            return replace(node, buffer=own, body=bind(node.body, values, {**renamed, node.buffer: own}))
        new = map_children(node, go)
        if isinstance(new, BufferLoad | BufferStore) and (new is not node or new.buffer in renamed):
            indices = tuple(fold_index(i) for i in new.indices)
            return replace(new, buffer=renamed.get(new.buffer, new.buffer), indices=indices)
        return new

    return go(stmt)


def fold_index(index: Expr) -> Expr:
    """Return an index in linear form. For a ramp, its base is put into linear form."""
    from ...expr import Ramp

    if isinstance(index, Ramp):
        return Ramp(fold_index(index.base), index.stride, index.lanes)
    if index.dtype.lanes > 1:
        return index
    return expr(linear(index), index.dtype)
