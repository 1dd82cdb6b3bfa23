"""Fold index arithmetic and conditions under the ranges of the loops around them; drop branches that are decided.

The rules are those that lowering itself makes work for: linear forms, floor divisions of sums with a bounded rest,
comparisons decided by intervals. Floats are left alone, as are calls.
"""

from __future__ import annotations

from typing import Any

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    const,
    map_children,
    replace,
)  # fmt: skip
from ..nodes import Allocate, For, If, LetStmt, PrimFunc, Seq, Stmt, While
from .affine import Interval, Linear, bounds, interval, linear, loop_interval

Ranges = dict[Var, Interval]


def simplify(func: PrimFunc) -> PrimFunc:
    """The same function with indices in linear form and without decided branches."""
    return func.with_body(simplify_stmt(func.body, {}))


def simplify_stmt(stmt: Stmt, ranges: Ranges) -> Stmt:
    """A statement simplified where the variables have these ranges."""
    if isinstance(stmt, Seq):
        return Seq.of(*(part for s in stmt.stmts if not is_no_op(part := simplify_stmt(s, ranges))))
    if isinstance(stmt, For):
        return _loop(stmt, ranges)
    if isinstance(stmt, If):
        return _branch(stmt, ranges)
    if isinstance(stmt, LetStmt):
        value = fold(stmt.value, ranges)
        found = bounds(value, ranges) if value.dtype.is_int and value.dtype.lanes == 1 else None
        inner = ranges if found is None else {**ranges, stmt.var: found}
        body = simplify_stmt(stmt.body, inner)
        return body if is_no_op(body) else _same_or(stmt, value=value, body=body)
    if isinstance(stmt, Allocate):
        body = simplify_stmt(stmt.body, ranges)
        return body if is_no_op(body) else _same_or(stmt, body=body)
    if isinstance(stmt, While):
        return _same_or(stmt, condition=fold(stmt.condition, ranges), body=simplify_stmt(stmt.body, ranges))
    return map_children(stmt, lambda child: fold(child, ranges) if isinstance(child, Expr) else child)


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, Seq) and not stmt.stmts


def _same_or(stmt: Any, **fields: Any) -> Any:
    return stmt if all(getattr(stmt, k) is v for k, v in fields.items()) else replace(stmt, **fields)


def _loop(stmt: For, ranges: Ranges) -> Stmt:
    start, extent = fold(stmt.start, ranges), fold(stmt.extent, ranges)
    count = bounds(extent, ranges)
    if count is not None and count[1] <= 0:
        return Seq(())
    found = loop_interval(start, extent, ranges)
    if isinstance(extent, IntImm) and extent.value == 1 and stmt.thread is None:
        from .unroll import bind

        return simplify_stmt(bind(stmt.body, {stmt.var: start.astype(stmt.var.dtype)}), ranges)
    inner = {k: v for k, v in ranges.items() if k is not stmt.var} if found is None else {**ranges, stmt.var: found}
    body = simplify_stmt(stmt.body, inner)
    return body if is_no_op(body) else _same_or(stmt, start=start, extent=extent, body=body)


def _branch(stmt: If, ranges: Ranges) -> Stmt:
    condition = fold(stmt.condition, ranges)
    if isinstance(condition, IntImm):
        chosen = stmt.then_case if condition.value else stmt.else_case
        return Seq(()) if chosen is None else simplify_stmt(chosen, ranges)
    then_case = simplify_stmt(stmt.then_case, narrowed(condition, ranges))
    else_case = None if stmt.else_case is None else simplify_stmt(stmt.else_case, ranges)
    if else_case is not None and is_no_op(else_case):
        else_case = None
    if is_no_op(then_case):
        return Seq(()) if else_case is None else If(fold(Not(condition), ranges), else_case)
    return _same_or(stmt, condition=condition, then_case=then_case, else_case=else_case)


def narrowed(condition: Expr, ranges: Ranges) -> Ranges:
    """The ranges where a condition on single variables holds."""
    if isinstance(condition, And):
        return narrowed(condition.b, narrowed(condition.a, ranges))
    if isinstance(condition, LT | EQ) and isinstance(condition.a, Var) and isinstance(condition.b, IntImm):
        var, limit = condition.a, condition.b.value
        old = ranges.get(var)
        if isinstance(condition, EQ):
            return {**ranges, var: (limit, limit)}
        if old is not None and limit - 1 < old[1] and limit > old[0]:
            return {**ranges, var: (old[0], limit - 1)}
    return ranges


def fold(e: Any, ranges: Ranges) -> Any:
    """An expression simplified; the same node when nothing changed."""
    if isinstance(e, Var | IntImm) or not isinstance(e, Expr):
        return e
    if isinstance(e, Add | Sub | Mul) and _is_scalar_index(e):
        return _linear_sum(e, ranges)
    new = map_children(e, lambda child: fold(child, ranges))
    if isinstance(new, Call):
        return _call(new)
    if isinstance(new, CompareOp):
        return _compare(new, ranges)
    if isinstance(new, And | Or | Not):
        return _logical(new)
    if isinstance(new, Select) and isinstance(new.condition, IntImm):
        return new.true_value if new.condition.value else new.false_value
    if not _is_scalar_index(new):
        return new
    if isinstance(new, FloorDiv | FloorMod):
        return _division(new, ranges)
    if isinstance(new, Min | Max):
        return _extreme(new, ranges)
    if isinstance(new, Cast) and isinstance(new.value, IntImm) and new.dtype.min <= new.value.value <= new.dtype.max:
        return IntImm(new.value.value, new.dtype)
    return new


def _is_scalar_index(e: Expr) -> bool:
    return e.dtype in ("int32", "int64")


def _linear_sum(e: Expr, ranges: Ranges) -> Expr:
    # Atoms may themselves simplify (a floor division that becomes a sum), so they are folded first.
    form = linear(e)
    changed = Linear({}, form.constant)
    for atom, factor in form.terms.values():
        inner = atom if isinstance(atom, Var) else map_children(atom, lambda c: fold(c, ranges))
        inner = _division(inner, ranges) if isinstance(inner, FloorDiv | FloorMod) else inner
        inner = _extreme(inner, ranges) if isinstance(inner, Min | Max) else inner
        part = linear(inner)
        changed = changed.minus(
            Linear({k: (a, -c * factor) for k, (a, c) in part.terms.items()}, -part.constant * factor)
        )
    return changed.expr(str(e.dtype))


def _division(e: Any, ranges: Ranges) -> Expr:
    """`(c*q + r) // c -> q` and `(c*q + r) % c -> r` where `0 <= r < c` (also with c a multiple of r's unit)."""
    quotient = isinstance(e, FloorDiv)
    if not isinstance(e.b, IntImm) or e.b.value <= 0:
        return e
    c, dtype = e.b.value, str(e.dtype)
    if c == 1:
        return e.a if quotient else const(0, dtype)
    form = linear(e.a)
    whole = Linear({k: (a, f) for k, (a, f) in form.terms.items() if f % c == 0}, 0)
    rest = Linear({k: t for k, t in form.terms.items() if k not in whole.terms}, form.constant)
    found = interval(rest, ranges)
    if found is not None and found[0] // c == found[1] // c:
        number = found[0] // c
        if quotient:
            return Linear({k: (a, f // c) for k, (a, f) in whole.terms.items()}, number).expr(dtype)
        return Linear(rest.terms, rest.constant - number * c).expr(dtype)
    if whole.terms:
        inner = _division(type(e)(rest.expr(dtype), e.b), ranges)
        if not quotient:
            return inner
        part = linear(inner)
        terms = {k: (a, f // c) for k, (a, f) in whole.terms.items()}
        return (
            Linear(terms, 0).minus(Linear({k: (a, -f) for k, (a, f) in part.terms.items()}, -part.constant)).expr(dtype)
        )
    return _reduced_division(e, form, c, ranges)


def _reduced_division(e: Any, form: Linear, c: int, ranges: Ranges) -> Expr:
    """`(u*q + r) // (u*d) -> q // d` and `(u*q + r) % (u*d) -> u * (q % d) + r` where `0 <= r < u`."""
    dtype = str(e.dtype)
    units = sorted({abs(f) for _, f in form.terms.values() if abs(f) > 1 and c % abs(f) == 0}, reverse=True)
    for u in units:
        whole = Linear({k: (a, f // u) for k, (a, f) in form.terms.items() if f % u == 0}, 0)
        rest = Linear({k: t for k, t in form.terms.items() if t[1] % u}, form.constant)
        found = interval(rest, ranges)
        if found is None or found[0] < 0 or found[1] >= u:
            continue
        if isinstance(e, FloorDiv):
            return _division(FloorDiv(whole.expr(dtype), const(c // u, dtype)), ranges)
        inner = linear(_division(FloorMod(whole.expr(dtype), const(c // u, dtype)), ranges))
        scaled = Linear({k: (a, f * u) for k, (a, f) in inner.terms.items()}, inner.constant * u)
        return scaled.minus(Linear({k: (a, -f) for k, (a, f) in rest.terms.items()}, -rest.constant)).expr(dtype)
    if isinstance(e, FloorDiv) and isinstance(e.a, FloorDiv) and isinstance(e.a.b, IntImm) and e.a.b.value > 0:
        return _division(FloorDiv(e.a.a, const(e.a.b.value * c, dtype)), ranges)
    return type(e)(form.expr(dtype), e.b)


def _extreme(e: Any, ranges: Ranges) -> Expr:
    found = interval(linear(e.a).minus(linear(e.b)), ranges)
    if found is None:
        return e
    if found[1] <= 0:
        return e.a if isinstance(e, Min) else e.b
    if found[0] >= 0:
        return e.b if isinstance(e, Min) else e.a
    return e


def _compare(e: CompareOp, ranges: Ranges) -> Expr:
    if e.a.dtype.lanes > 1 or not _is_scalar_index(e.a):
        return e
    difference = linear(e.a).minus(linear(e.b))
    found = interval(difference, ranges)
    if found is None:
        return e
    low, high = found
    verdicts: dict[type, tuple[bool, bool]] = {  # (certainly true, certainly false)
        LT: (high < 0, low >= 0), LE: (high <= 0, low > 0), GT: (low > 0, high <= 0), GE: (low >= 0, high < 0),
        EQ: (low == high == 0, low > 0 or high < 0), NE: (low > 0 or high < 0, low == high == 0),
    }  # fmt: skip
    true, false = verdicts[type(e)]
    if true or false:
        return const(true)
    return _divided_comparison(e, difference, ranges)


def _divided_comparison(e: CompareOp, difference: Linear, ranges: Ranges) -> Expr:
    """`u*q + r == 0` -> `q == 0 and r == 0` where `0 <= r < u` and q >= 0: what a split loop's start looks like."""
    if not isinstance(e, EQ) or difference.constant != 0 or len(difference.terms) < 2:
        return e
    positive = all(f > 0 for _, f in difference.terms.values())
    lows = [bounds(a, ranges) for a, _ in difference.terms.values()]
    if not positive or any(b is None or b[0] < 0 for b in lows):
        return e
    dtype = str(e.a.dtype)
    parts: list[Expr] = [EQ(a.astype(dtype), const(0, dtype)) for a, _ in difference.terms.values()]
    total = parts[0]
    for part in parts[1:]:
        total = And(total, part)
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
