"""Shrink allocated buffers to the region that is used inside the allocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...expr import Expr, IntImm, Ramp, Range, Var, const, find, free_vars, map_children, replace, substitute
from ...expr.visitor import accessed
from ..analysis.effects import effects
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, LetStmt, PrimFunc, Stmt
from .affine import Affine, Ranges, bounds, expr, interval, linear, split, with_loop


@dataclass(frozen=True, slots=True)
class UsedSpan:
    """The used part of one dimension, `[base + low, base + high]`, where `base` contains only variables from outside
    the allocation.
    """

    base: Affine
    low: int
    high: int

    @property
    def extent(self) -> int:
        """The number of elements in the span."""
        return self.high - self.low + 1


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """Shrink buffers to the part that is used: `B = alloc(128)` in a loop over tiles i0, used as `B[i0*16 + i1]` -> `B
    = alloc(16)`, used as `B[i1]`.

    before:
        for i in range(4):
            S = T.decl_buffer((4, 8))
            for j in range(8):
                S[i, j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[i, 7 - j]
    after:
        for i in range(4):
            S = T.decl_buffer((1, 8))
            for j in range(8):
                S[0, j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[0, 7 - j]
    """
    return func.with_body(_compact(func.body, {}))


def _compact(stmt: Any, ranges: Ranges) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, For):
        body = _compact(stmt.body, with_loop(stmt, ranges))
        return stmt if body is stmt.body else replace(stmt, body=body)
    if isinstance(stmt, Allocate):
        stmt = shrunk(stmt, ranges)
        body = _compact(stmt.body, ranges)
        return stmt if body is stmt.body else replace(stmt, body=body)
    return map_children(stmt, lambda child: _compact(child, ranges))


def used_spans(buffer: Buffer, body: Stmt, ranges: Ranges) -> list[UsedSpan | None]:
    """Return the part of each dimension that `body` uses, in terms of the variables defined outside of it; None for a
    dimension whose used part is unknown.
    """
    touched = effects(body, frozenset([buffer]))
    runs = []
    for touch in (*touched.reads, *touched.writes):
        around = ranges
        for loop in touch.loops:
            around = with_loop(loop, around)
        runs.append((touch.ranges, {loop.var for loop in touch.loops}, around))
    return [_hull([(sides[axis], inner, around) for sides, inner, around in runs]) for axis in range(buffer.ndim)]


def _hull(sides: Iterable[tuple[Range | None, set[Var], Ranges]]) -> UsedSpan | None:
    """Return the smallest span that covers all accesses to one dimension; None if it is unknown.

    Each access is given as (its range or None, the variables of its loops, the ranges of all variables).
    """
    total: UsedSpan | None = None
    for side, inner, ranges in sides:
        if side is None:
            return None
        outside, inside = split(linear(side.start), inner)
        first, length = interval(inside, ranges), bounds(side.extent, ranges)
        if first is None or length is None or not (total is None or total.base == outside):
            return None
        reach = first[0], first[1] + length[1] - 1
        low, high = reach if total is None else (min(reach[0], total.low), max(reach[1], total.high))
        total = UsedSpan(outside, low, high)
    return total


def compacted_shape(buffer: Buffer, spans: list[UsedSpan | None]) -> tuple[Expr, ...]:
    """Return the shape after compaction. A dimension stays the same if its used part is unknown or not smaller."""
    return tuple(
        const(span.extent, d.dtype) if _shrinks(span, d) else d  # type: ignore[union-attr]
        for span, d in zip(spans, buffer.shape, strict=True)
    )


def _shrinks(span: UsedSpan | None, dim: Expr) -> bool:
    return span is not None and (not isinstance(dim, IntImm) or span.extent < dim.value)


def _written_out(e: Expr, lets: Mapping[Var, Expr]) -> Expr:
    while any(var in lets for var in free_vars(e)):
        e = substitute(e, lets)
    return e


def shrunk(stmt: Allocate, ranges: Ranges) -> Allocate:
    """Shrink an allocation to the part that is used, and shift its accesses accordingly."""
    buffer = stmt.buffer
    spans = used_spans(buffer, stmt.body, ranges)
    shrinks = [_shrinks(span, dim) for span, dim in zip(spans, buffer.shape, strict=True)]
    if not any(shrinks) or buffer.strides:
        return stmt
    # Legal: every access is inside the spans, whose bases use only variables from outside the allocation. So all
    # accesses are shifted by the same amount: two of them touch the same element after the shift exactly if they did
    # before, and all are inside the new shape.
    small = replace(buffer, shape=compacted_shape(buffer, spans))

    # Lets inside give names to values that a base writes with outer variables. Written in one form, the two cancel.
    lets = {node.var: node.value for node in find(stmt.body, LetStmt)}

    def index(old: Expr, span: UsedSpan | None, moves: bool) -> Expr:
        if not moves or span is None:
            return old
        written = _written_out(old, lets) if span.base.terms else old
        scalar = written.base if isinstance(written, Ramp) else written  # for other vectors no span is known
        moved = expr(linear(scalar) - (span.base + span.low), scalar.dtype)
        return replace(written, base=moved) if isinstance(written, Ramp) else moved

    def go(node: Any) -> Any:
        if buffer not in accessed(node):
            return node
        new = map_children(node, go)
        if isinstance(new, BufferLoad | BufferStore) and new.buffer is buffer:
            return replace(new, buffer=small, indices=tuple(map(index, new.indices, spans, shrinks)))
        return new

    return Allocate(small, go(stmt.body), stmt.annotations)
