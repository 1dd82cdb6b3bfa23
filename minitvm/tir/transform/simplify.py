"""Simplify index arithmetic and conditions using the ranges of the loops around them, and remove decided branches.

The pass walks over statements and tells an `arith.Analyzer` the facts that hold in each place. Conditions keep the form
in which they are written, because later passes rely on it. Floats and calls are not changed.
"""

from __future__ import annotations

from typing import Any

from ... import expr as ex
from ...arith import Analyzer
from ..conditions import is_const, reads_memory
from ..nodes import Allocate, Async, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt, While
from .affine import Ranges


def simplify(func: PrimFunc) -> PrimFunc:
    """Return the same function with indices in linear form and without decided branches.

    before:
        for i in range(1):
            for j in range(8):
                if i * 8 + j < 9:
                    B[i * 8 + j] = A[(i * 8 + j) // 8 + (i * 8 + j) % 8]
    after:
        for j in range(8):
            B[j] = A[j]
    """
    # Legal: an expression is replaced by one that is equal for all values that its variables have there. A branch or an
    # iteration is removed only if it provably never runs, or does nothing.
    return func.with_body(_simplified(func.body, Analyzer()))


def simplify_stmt(stmt: Stmt, ranges: Ranges) -> Stmt:
    """Simplify a statement, given the ranges of its free variables."""
    return _simplified(stmt, Analyzer(ranges))


def fold(e: Any, ranges: Ranges) -> Any:
    """Simplify an expression, given the ranges of its variables; return the same node if nothing changes."""
    return _folded(e, Analyzer(ranges))


def _simplified(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    if isinstance(stmt, Seq):
        return Seq.of(*(part for s in stmt.stmts if not is_no_op(part := _simplified(s, analyzer))))
    if isinstance(stmt, For):
        return _loop(stmt, analyzer)
    if isinstance(stmt, If):
        return _branch(stmt, analyzer)
    if isinstance(stmt, LetStmt):
        value = _folded(stmt.value, analyzer)
        with analyzer.constraint():
            if value.dtype.is_int and value.dtype.lanes == 1:
                analyzer.bind_value(stmt.var, value)
            body = _simplified(stmt.body, analyzer)
        return body if is_no_op(body) else _same_or(stmt, value=value, body=body)
    if isinstance(stmt, Allocate | Async):
        body = _simplified(stmt.body, analyzer)
        return body if is_no_op(body) else _same_or(stmt, body=body)
    if isinstance(stmt, While):
        return _same_or(stmt, condition=_folded(stmt.condition, analyzer), body=_simplified(stmt.body, analyzer))
    if isinstance(stmt, BufferStore) and _never(stmt.predicate, analyzer):
        return Seq(())
    return ex.map_children(stmt, lambda child: _folded(child, analyzer) if isinstance(child, ex.Expr) else child)


def is_no_op(stmt: Stmt) -> bool:
    """Return whether a statement is an empty sequence."""
    return isinstance(stmt, Seq) and not stmt.stmts


def _same_or(stmt: Any, **fields: Any) -> Any:
    return stmt if all(getattr(stmt, k) is v for k, v in fields.items()) else ex.replace(stmt, **fields)


def _loop(stmt: For, analyzer: Analyzer) -> Stmt:
    start, extent = _folded(stmt.start, analyzer), _folded(stmt.extent, analyzer)
    most = analyzer.bounds(extent)[1]
    if most is not None and most <= 0:
        return Seq(())
    if isinstance(extent, ex.IntImm) and stmt.thread is None:
        count = _iterations_that_act(stmt, start, extent.value, analyzer)
        if count == 1:
            from .unroll import bind

            return _simplified(bind(stmt.body, {stmt.var: start.astype(stmt.var.dtype)}), analyzer)
        if count < extent.value and stmt.kind is not ForKind.VECTORIZED:  # some lanes of a vector are masked
            extent = ex.const(count, extent.dtype)
    with analyzer.constraint():
        analyzer.bind(stmt.var, ex.Range(start, extent))
        body = _simplified(stmt.body, analyzer)
    return body if is_no_op(body) else _same_or(stmt, start=start, extent=extent, body=body)


def _iterations_that_act(stmt: For, start: ex.Expr, extent: int, analyzer: Analyzer) -> int:
    """Return the number of leading iterations that may do something. In all later iterations a condition fails, as in
    the tail of a tiled loop.

    The result is at least 1. The conditions must guard everything that an iteration does; they may be inside inner
    loops.
    """

    def idle_from(first: int) -> bool:
        with analyzer.constraint():
            analyzer.bind(
                stmt.var, ex.Range(start + ex.const(first, start.dtype), ex.const(extent - first, start.dtype))
            )
            return _idle(stmt.body, analyzer)

    if extent == 1 or not _guarded(stmt.body) or not idle_from(extent - 1):
        return extent
    low, high = 1, extent - 1  # idle from `high` on; perhaps from a smaller number on
    while low < high:
        middle = (low + high) // 2
        if idle_from(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _guarded(stmt: Stmt) -> bool:
    """Return whether everything that a statement does is guarded by a condition."""
    if isinstance(stmt, Seq):
        return all(map(_guarded, stmt.stmts))
    if isinstance(stmt, For | LetStmt | Allocate):
        return _guarded(stmt.body)
    return isinstance(stmt, If) and stmt.else_case is None


def _idle(stmt: Stmt, analyzer: Analyzer) -> bool:
    """Return whether a guarded statement certainly does nothing, given the facts that `analyzer` knows."""
    if isinstance(stmt, Seq):
        return all(_idle(part, analyzer) for part in stmt.stmts)
    if isinstance(stmt, For):
        with analyzer.constraint():
            analyzer.bind(stmt.var, ex.Range(_folded(stmt.start, analyzer), _folded(stmt.extent, analyzer)))
            return _idle(stmt.body, analyzer)
    if isinstance(stmt, LetStmt | Allocate):
        return _idle(stmt.body, analyzer)
    return isinstance(stmt, If) and is_const(_folded(stmt.condition, analyzer), 0)


def _never(mask: ex.Expr | None, analyzer: Analyzer) -> bool:
    """Return whether a mask of the form "the lanes below a limit" enables no lane."""
    if not isinstance(mask, ex.LT) or not isinstance(mask.a, ex.Ramp) or not isinstance(mask.b, ex.Broadcast):
        return False
    ascending = isinstance(mask.a.stride, ex.IntImm) and mask.a.stride.value >= 0
    return ascending and is_const(_folded(ex.LT(mask.a.base, mask.b.value), analyzer), 0)


def _branch(stmt: If, analyzer: Analyzer) -> Stmt:
    condition = _folded(stmt.condition, analyzer)
    if isinstance(condition, ex.IntImm):
        taken = stmt.then_case if condition.value else stmt.else_case
        return Seq(()) if taken is None else _simplified(taken, analyzer)
    # The memory may have changed between the evaluation of the condition and a later read by a statement below.
    facts = [] if reads_memory(condition) else [condition]
    with analyzer.constraint(*facts):
        then_case = _simplified(stmt.then_case, analyzer)
    with analyzer.constraint(*map(ex.Not, facts)):
        else_case = None if stmt.else_case is None else _simplified(stmt.else_case, analyzer)
    if else_case is not None and is_no_op(else_case):
        else_case = None
    if is_no_op(then_case):
        return Seq(()) if else_case is None else If(_folded(ex.Not(condition), analyzer), else_case)
    return _same_or(stmt, condition=condition, then_case=then_case, else_case=else_case)


def _folded(e: Any, analyzer: Analyzer) -> Any:
    if isinstance(e, ex.Var | ex.IntImm) or not isinstance(e, ex.Expr):
        return e
    if e.dtype in ("int32", "int64") and not isinstance(e, ex.Call | BufferLoad | ex.Select):
        return analyzer.simplify(e)
    if isinstance(e, ex.Select):
        return _select(e, analyzer)
    new = ex.map_children(e, lambda child: _folded(child, analyzer))
    if isinstance(new, ex.Call):
        return _call(new)
    if isinstance(new, ex.CompareOp):
        return _compare(new, analyzer)
    if isinstance(new, ex.And | ex.Or | ex.Not):
        return _logical(new)
    if isinstance(new, ex.Cast) and new.dtype.is_int and isinstance(new.value, ex.IntImm):
        return analyzer.simplify(new)
    return new


def _select(e: ex.Select, analyzer: Analyzer) -> ex.Expr:
    condition = _folded(e.condition, analyzer)
    decided = condition.value if isinstance(condition, ex.Broadcast) else condition
    if isinstance(decided, ex.IntImm):
        return _folded(e.true_value if decided.value else e.false_value, analyzer)
    true, false = _folded(e.true_value, analyzer), _folded(e.false_value, analyzer)
    return _same_or(e, condition=condition, true_value=true, false_value=false)


def _compare(e: ex.CompareOp, analyzer: Analyzer) -> ex.Expr:
    if e.a.dtype not in ("int32", "int64"):
        return e
    decided: ex.Expr = analyzer.simplify(e)
    if isinstance(decided, ex.IntImm):
        return decided
    # With fewer variables, a condition holds for all iterations of a loop, or for all lanes of a vector, at once.
    return decided if set(ex.free_vars(decided)) < set(ex.free_vars(e)) else _all_zero(e, analyzer)


def _all_zero(e: ex.CompareOp, analyzer: Analyzer) -> ex.Expr:
    """Rewrite `u*q + r == 0` to `q == 0 and r == 0` if q and r are nonnegative. Such conditions test for the first
    iteration of a split loop.
    """
    if not isinstance(e, ex.EQ):
        return e
    difference = analyzer.affine(e.a) - analyzer.affine(e.b)
    terms = [analyzer.to_expr(type(difference).of(term), e.a.dtype) for term in difference.terms]
    if difference.const or len(terms) < 2 or any(c < 0 for c in difference.terms.values()):
        return e
    if not all(map(analyzer.can_prove_nonnegative, terms)):
        return e
    total: ex.Expr = ex.EQ(terms[0], ex.const(0, e.a.dtype))
    for term in terms[1:]:
        total = ex.And(total, ex.EQ(term, ex.const(0, e.a.dtype)))
    return total


def _logical(e: Any) -> ex.Expr:
    if isinstance(e, ex.Not):
        if isinstance(e.a, ex.IntImm):
            return ex.const(not e.a.value)
        opposite: dict[Any, Any] = {ex.LT: ex.GE, ex.GE: ex.LT, ex.GT: ex.LE, ex.LE: ex.GT, ex.EQ: ex.NE, ex.NE: ex.EQ}
        if isinstance(e.a, ex.CompareOp) and e.a.a.dtype.is_int:
            return opposite[type(e.a)](e.a.a, e.a.b)
        return e
    decisive = isinstance(e, ex.Or)  # `or` is decided by True, `and` by False
    for one, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(one, ex.IntImm):
            return one if bool(one.value) is decisive else other
    return e


def _call(e: ex.Call) -> ex.Expr:
    if e.op == "likely":
        return e.args[0]
    if e.op == "if_then_else":
        condition = e.args[0].value if isinstance(e.args[0], ex.Broadcast) else e.args[0]
        if isinstance(condition, ex.IntImm):
            return e.args[1] if condition.value else e.args[2]
    return e
