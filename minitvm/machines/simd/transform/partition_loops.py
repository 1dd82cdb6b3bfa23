"""Cut loops where a condition in them stops being always true, so that the main part runs without the condition.

A pipeline loop that waits for asynchronous copies is not cut: its conditions are checked once per step, to decide which
copies begin, and a cut would duplicate everything else. A parallel loop is not cut either, because that would need a
barrier. Instead, its body is duplicated in an `if` on the loop variable. A vectorised loop keeps its condition as a
mask.
"""

from __future__ import annotations

from typing import Any

from ....expr import LT, Expr, IntImm, Var, children, const, find, map_children, replace
from ....tir.async_copies import is_wait
from ....tir.conditions import conjuncts
from ....tir.nodes import Allocate, Evaluate, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from ....tir.transform.affine import Ranges, bounds, coefficient, interval, slack, with_loop
from ....tir.transform.hoist_conditions import hoist_conditions
from ....tir.transform.simplify import fold, simplify_stmt
from ....tir.transform.unroll import bind, unrolled_size

CODE_GROWTH = 400  # statements, unrolled, that a cut may copy
MAX_CUTS = 4  # of one nest


def partition_loops(func: PrimFunc) -> PrimFunc:
    """Peel off the iterations for which a condition is not known to hold.

    before:
        A: T.Buffer((10,), "float32")
        B: T.Buffer((10,), "float32")
        for i in range(3):
            for j in T.vectorized(4):
                if i * 4 + j < 10:
                    B[i * 4 + j] = A[i * 4 + j]
    after:
        for i in range(2):
            for j in T.vectorized(4):
                B[i * 4 + j] = A[i * 4 + j]
        for j in T.vectorized(4):
            if j + 8 < 10:
                B[j + 8] = A[j + 8]
    """
    # Legal: the pieces run the same iterations in the same order. A condition is dropped where it is shown to hold.
    body = simplify_stmt(_partition(func.body, {}, MAX_CUTS), {})
    return hoist_conditions(func.with_body(body))


def _partition(stmt: Any, ranges: Ranges, cuts: int) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, LetStmt):
        return _let(stmt, ranges, cuts)
    if not isinstance(stmt, For):
        return map_children(stmt, lambda child: _partition(child, ranges, cuts))
    inner = dict(with_loop(stmt, ranges))
    at = _cut(stmt, ranges) if cuts > 0 and stmt.kind != ForKind.VECTORIZED and stmt.thread is None else None
    if at is None:
        body = _partition(stmt.body, inner, cuts)
        return stmt if body is stmt.body else replace(stmt, body=body)
    if stmt.kind == ForKind.PARALLEL:
        first = stmt.start.value  # type: ignore[attr-defined]
        return replace(stmt, body=_branches(stmt.var, first + at, stmt.body, inner, cuts))
    pieces = _pieces(stmt, at)
    return Seq.of(*(_partition(simplify_stmt(piece, ranges), ranges, cuts - 1) for piece in pieces))


def _let(stmt: LetStmt, ranges: Ranges, cuts: int) -> Stmt:
    limits = bounds(stmt.value, ranges) if stmt.value.dtype in ("int32", "int64") else None
    if limits is not None and not (stmt.var.dtype.min <= limits[0] and limits[1] - limits[0] < stmt.var.dtype.max):
        limits = None  # an unknown number of iterations times a step: the bounds say nothing
    inner = ranges if limits is None else {**ranges, stmt.var: limits}
    at = None
    if limits is not None and cuts > 0:
        dtype = stmt.var.dtype
        loop = For(
            stmt.var, const(limits[0], dtype), const(limits[1] - limits[0] + 1, dtype), ForKind.SERIAL, stmt.body
        )
        at = _cut(loop, ranges)
    if at is None or limits is None:
        body = _partition(stmt.body, inner, cuts)
        return stmt if body is stmt.body else replace(stmt, body=body)
    return replace(stmt, body=_branches(stmt.var, limits[0] + at, stmt.body, inner, cuts))


def _branches(var: Var, limit: int, body: Stmt, ranges: Ranges, cuts: int) -> Stmt:
    """Return `if var < limit: S else: S`, with each S simplified for its range of `var`. Storage around S is shared."""
    if isinstance(body, Allocate):
        return replace(body, body=_branches(var, limit, body.body, ranges, cuts))
    low, high = ranges[var]
    parts = []
    for values in ((low, limit - 1), (limit, high)):
        inner = {**ranges, var: values}
        parts.append(_partition(simplify_stmt(bind(body, {}), inner), inner, cuts - 1))
    return If(LT(var, const(limit, var.dtype)), parts[0], parts[1])


def _pieces(loop: For, at: int) -> tuple[For, For]:
    dtype = loop.extent.dtype
    total = loop.extent.value  # type: ignore[attr-defined]
    first = replace(loop, extent=const(at, dtype))
    start = fold(loop.start.astype(dtype) + const(at, dtype), {})
    fresh = loop.var.with_name(loop.var.name)
    rest = replace(
        loop, var=fresh, start=start, extent=const(total - at, dtype), body=bind(loop.body, {loop.var: fresh})
    )
    return first, rest


def _cut(loop: For, ranges: Ranges) -> int | None:
    """Return how many first iterations certainly satisfy some condition in the loop, or None if no condition gives a
    cut.
    """
    if not isinstance(loop.extent, IntImm) or not isinstance(loop.start, IntImm):
        return None
    if loop.kind == ForKind.SERIAL and any(map(is_wait, find(loop.body, Evaluate))):
        return None
    places = [p for p in _thresholds(loop.body, loop, dict(with_loop(loop, ranges))) if 0 < p < loop.extent.value]
    if not places or unrolled_size(loop.body) > CODE_GROWTH:
        return None
    return min(places)


def _thresholds(node: Any, loop: For, ranges: Ranges) -> list[int]:
    """Return, for each `f < c` that depends on the loop, the number of iterations in which it certainly holds."""
    thresholds: list[int] = []
    if isinstance(node, For):
        ranges = dict(with_loop(node, ranges))
    if isinstance(node, If):
        for condition in conjuncts(node.condition):
            place = _threshold(condition, loop, ranges)
            if place is not None:
                thresholds.append(place)
    if isinstance(node, Stmt):
        for child in children(node):
            thresholds += _thresholds(child, loop, ranges)
    return thresholds


def _threshold(condition: Expr, loop: For, ranges: Ranges) -> int | None:
    form = slack(condition)
    if form is None:
        return None
    step = coefficient(form, loop.var)
    others = interval(form.without(loop.var), ranges)
    if step <= 0 or others is None:
        return None
    # step * v + others < 0 for all values of the others: v < -max(others) / step.
    last = (-others[1] + step - 1) // step
    return last - loop.start.value  # type: ignore[attr-defined]
