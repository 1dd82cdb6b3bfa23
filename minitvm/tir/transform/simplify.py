"""Fold index arithmetic and conditions under the ranges of the loops around them; drop branches that are decided.

The walk over statements that tells an `arith.Analyzer` what holds where. Conditions keep the form in which they were
written, which later passes read. Floats are left alone, as are calls.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    Var,
    const,
    free_vars,
    map_children,
    replace,
)
from ..conditions import is_const, reads_memory
from ..nodes import Allocate, Async, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt, While
from .affine import Ranges


def simplify(func: PrimFunc) -> PrimFunc:
    """The same function with indices in linear form and without decided branches.

    before:
        for i in range(1):
            for j in range(8):
                if i * 8 + j < 9:
                    B[i * 8 + j] = A[(i * 8 + j) // 8 + (i * 8 + j) % 8]
    after:
        for j in range(8):
            B[j] = A[j]
    """
    # Legal: an expression changes to one that is equal for all values that its variables have there, and a branch or an
    # iteration goes away only if it is shown never to run, or to do nothing.
    return func.with_body(_simplified(func.body, Analyzer()))


def simplify_stmt(stmt: Stmt, ranges: Ranges) -> Stmt:
    """A statement simplified where the variables have these ranges."""
    return _simplified(stmt, Analyzer(ranges))


def fold(e: Any, ranges: Ranges) -> Any:
    """An expression simplified where the variables have these ranges; the same node when nothing changed."""
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
    return map_children(stmt, lambda child: _folded(child, analyzer) if isinstance(child, Expr) else child)


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, Seq) and not stmt.stmts


def _same_or(stmt: Any, **fields: Any) -> Any:
    return stmt if all(getattr(stmt, k) is v for k, v in fields.items()) else replace(stmt, **fields)


def _loop(stmt: For, analyzer: Analyzer) -> Stmt:
    start, extent = _folded(stmt.start, analyzer), _folded(stmt.extent, analyzer)
    most = analyzer.bounds(extent)[1]
    if most is not None and most <= 0:
        return Seq(())
    if isinstance(extent, IntImm) and stmt.thread is None:
        count = _iterations_that_act(stmt, start, extent.value, analyzer)
        if count == 1:
            from .unroll import bind

            return _simplified(bind(stmt.body, {stmt.var: start.astype(stmt.var.dtype)}), analyzer)
        if count < extent.value and stmt.kind is not ForKind.VECTORIZED:  # of a vector's lanes some are masked
            extent = const(count, extent.dtype)
    with analyzer.constraint():
        analyzer.bind(stmt.var, Range(start, extent))
        body = _simplified(stmt.body, analyzer)
    return body if is_no_op(body) else _same_or(stmt, start=start, extent=extent, body=body)


def _iterations_that_act(stmt: For, start: Expr, extent: int, analyzer: Analyzer) -> int:
    """How many iterations, from the first on, may do something: conditions fail in all behind them, as in a tail.

    At least 1. The conditions stand around all that an iteration does, inside of further loops or not.
    """

    def idle_from(first: int) -> bool:
        with analyzer.constraint():
            analyzer.bind(stmt.var, Range(start + const(first, start.dtype), const(extent - first, start.dtype)))
            return _idle(stmt.body, analyzer)

    if extent == 1 or not _guarded(stmt.body) or not idle_from(extent - 1):
        return extent
    low, high = 1, extent - 1  # idle from `high` on; whether from a smaller one on is not known
    while low < high:
        middle = (low + high) // 2
        if idle_from(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _guarded(stmt: Stmt) -> bool:
    """Whether all that a statement does is under a condition."""
    if isinstance(stmt, Seq):
        return all(map(_guarded, stmt.stmts))
    if isinstance(stmt, For | LetStmt | Allocate):
        return _guarded(stmt.body)
    return isinstance(stmt, If) and stmt.else_case is None


def _idle(stmt: Stmt, analyzer: Analyzer) -> bool:
    """Whether a guarded statement surely does nothing."""
    if isinstance(stmt, Seq):
        return all(_idle(part, analyzer) for part in stmt.stmts)
    if isinstance(stmt, For):
        with analyzer.constraint():
            analyzer.bind(stmt.var, Range(_folded(stmt.start, analyzer), _folded(stmt.extent, analyzer)))
            return _idle(stmt.body, analyzer)
    if isinstance(stmt, LetStmt | Allocate):
        return _idle(stmt.body, analyzer)
    return isinstance(stmt, If) and is_const(_folded(stmt.condition, analyzer), 0)


def _never(mask: Expr | None, analyzer: Analyzer) -> bool:
    """Whether a mask of the form "the lanes below a limit" leaves no lane."""
    if not isinstance(mask, LT) or not isinstance(mask.a, Ramp) or not isinstance(mask.b, Broadcast):
        return False
    ascending = isinstance(mask.a.stride, IntImm) and mask.a.stride.value >= 0
    return ascending and is_const(_folded(LT(mask.a.base, mask.b.value), analyzer), 0)


def _branch(stmt: If, analyzer: Analyzer) -> Stmt:
    condition = _folded(stmt.condition, analyzer)
    if isinstance(condition, IntImm):
        taken = stmt.then_case if condition.value else stmt.else_case
        return Seq(()) if taken is None else _simplified(taken, analyzer)
    # What memory held when the condition was read may have changed by the time a statement below reads it again.
    facts = [] if reads_memory(condition) else [condition]
    with analyzer.constraint(*facts):
        then_case = _simplified(stmt.then_case, analyzer)
    with analyzer.constraint(*map(Not, facts)):
        else_case = None if stmt.else_case is None else _simplified(stmt.else_case, analyzer)
    if else_case is not None and is_no_op(else_case):
        else_case = None
    if is_no_op(then_case):
        return Seq(()) if else_case is None else If(_folded(Not(condition), analyzer), else_case)
    return _same_or(stmt, condition=condition, then_case=then_case, else_case=else_case)


def _folded(e: Any, analyzer: Analyzer) -> Any:
    if isinstance(e, Var | IntImm) or not isinstance(e, Expr):
        return e
    if e.dtype in ("int32", "int64") and not isinstance(e, Call | BufferLoad | Select):
        return analyzer.simplify(e)
    if isinstance(e, Select):
        return _select(e, analyzer)
    new = map_children(e, lambda child: _folded(child, analyzer))
    if isinstance(new, Call):
        return _call(new)
    if isinstance(new, CompareOp):
        return _compare(new, analyzer)
    if isinstance(new, And | Or | Not):
        return _logical(new)
    if isinstance(new, Cast) and new.dtype.is_int and isinstance(new.value, IntImm):
        return analyzer.simplify(new)
    return new


def _select(e: Select, analyzer: Analyzer) -> Expr:
    condition = _folded(e.condition, analyzer)
    decided = condition.value if isinstance(condition, Broadcast) else condition
    if isinstance(decided, IntImm):
        return _folded(e.true_value if decided.value else e.false_value, analyzer)
    true, false = _folded(e.true_value, analyzer), _folded(e.false_value, analyzer)
    return _same_or(e, condition=condition, true_value=true, false_value=false)


def _compare(e: CompareOp, analyzer: Analyzer) -> Expr:
    if e.a.dtype not in ("int32", "int64"):
        return e
    decided: Expr = analyzer.simplify(e)
    if isinstance(decided, IntImm):
        return decided
    # On fewer variables a condition holds for all iterations of a loop, or for all lanes of a vector, at once.
    return decided if set(free_vars(decided)) < set(free_vars(e)) else _all_zero(e, analyzer)


def _all_zero(e: CompareOp, analyzer: Analyzer) -> Expr:
    """`u*q + r == 0` -> `q == 0 and r == 0` where q and r are not negative: what a split loop's start looks like."""
    if not isinstance(e, EQ):
        return e
    difference = analyzer.affine(e.a) - analyzer.affine(e.b)
    terms = [analyzer.to_expr(type(difference).of(term), e.a.dtype) for term in difference.terms]
    if difference.const or len(terms) < 2 or any(c < 0 for c in difference.terms.values()):
        return e
    if not all(map(analyzer.can_prove_nonnegative, terms)):
        return e
    total: Expr = EQ(terms[0], const(0, e.a.dtype))
    for term in terms[1:]:
        total = And(total, EQ(term, const(0, e.a.dtype)))
    return total


def _logical(e: Any) -> Expr:
    if isinstance(e, Not):
        if isinstance(e.a, IntImm):
            return const(not e.a.value)
        opposite: dict[Any, Any] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}
        if isinstance(e.a, CompareOp) and e.a.a.dtype.is_int:
            return opposite[type(e.a)](e.a.a, e.a.b)
        return e
    decisive = isinstance(e, Or)  # `or` is decided by True, `and` by False
    for one, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(one, IntImm):
            return one if bool(one.value) is decisive else other
    return e


def _call(e: Call) -> Expr:
    if e.op == "likely":
        return e.args[0]
    if e.op == "if_then_else":
        condition = e.args[0].value if isinstance(e.args[0], Broadcast) else e.args[0]
        if isinstance(condition, IntImm):
            return e.args[1] if condition.value else e.args[2]
    return e
