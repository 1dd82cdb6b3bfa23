"""Shrink a workspace of unknown size to the part that one iteration uses, if each iteration of a serial loop refills
it.

A buffer of constant size is placed on the stack inside the loops (`place_allocations`). This is impossible for a buffer
whose size is unknown at compile time. Shrinking it is legal because no iteration of the serial loop reads elements that
another iteration wrote, so all iterations can reuse the same elements, which then stay in the cache. Each iteration of
a parallel loop still has its own part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...expr import Expr, IntImm, Node, Var, children, find, map_children, rewrite, structural_equal
from ...expr.visitor import accessed
from ..analysis.effects import exposes
from ..conditions import reads_memory, uses
from ..nodes import Allocate, Buffer, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from .affine import Ranges, with_loop
from .compact_buffers import shrunk
from .separate_allocations import aligned_behind, in_own_part, widened


def reuse_workspaces(func: PrimFunc) -> PrimFunc:
    """Shrink workspaces of unknown size that every iteration refills. `place_allocations` handles all other
    allocations.

    before:
        n: T.int32
        A: T.Buffer((8, n, n), "float32")
        B: T.Buffer((8, n, n), "float32")
        S = T.decl_buffer((8, n, n))
        for h in T.parallel(8):
            for i in range(n):
                for k in range(n):
                    S[h, i, k] = A[h, i, k] * 2.0
                for k in range(n):
                    B[h, i, k] = S[h, i, n - 1 - k]
    after, simplified:
        S = T.decl_buffer((8, 1, 1, n))
        for h in T.parallel(8):
            for i in range(n):
                for k in range(n):
                    S[h, 0, 0, k] = A[h, i, k] * 2.0
                for k in range(n):
                    B[h, i, k] = S[h, 0, 0, n - k - 1]
    """
    if any(loop.thread is not None for loop in find(func.body, For)):
        return func  # iterations of a grid's loops have no order
    return func.with_body(_visit(func.body, {}))


def _visit(stmt: Any, ranges: Ranges) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    inner = with_loop(stmt, ranges) if isinstance(stmt, For) else ranges
    new = map_children(stmt, lambda child: _visit(child, inner))
    return _reused(new, ranges) if isinstance(new, Allocate) else new


@dataclass(frozen=True, slots=True)
class _Place:
    """The body of a loop that contains all uses of a buffer, with the variable ranges there and the loops and lets
    around it.
    """

    body: Stmt
    ranges: Ranges
    around: tuple[For | LetStmt, ...]

    @property
    def loop(self) -> For:
        """The innermost loop around the body."""
        last = self.around[-1]
        assert isinstance(last, For)  # _places
        return last

    @property
    def parallel(self) -> list[For]:
        """The parallel loops around the body, outermost first."""
        return [item for item in self.around if isinstance(item, For) and item.kind == ForKind.PARALLEL]


def _reused(allocation: Allocate, ranges: Ranges) -> Stmt:
    if all(isinstance(dim, IntImm) for dim in allocation.buffer.shape):
        return allocation  # a part of it also has a constant size
    places = list(_places(allocation.body, allocation.buffer, ranges, ()))
    while places and places[-1].loop.kind != ForKind.SERIAL:
        places.pop()
    if not places or not _are_counted_outside(places[-1]):
        return allocation
    # Iterations of the parallel loops already have their own parts: shrinking only for these loops changes nothing.
    tasks = [place for place in places if place.loop.kind == ForKind.PARALLEL]
    divided = _shape_at(allocation, tasks[-1]) if tasks else allocation.buffer.shape
    inside = places[-1]
    small = shrunk(Allocate(allocation.buffer, inside.body, allocation.annotations), inside.ranges)
    shape = small.buffer.shape
    if all(isinstance(dim, IntImm) for dim in shape) or all(map(structural_equal, shape, divided)):
        return allocation
    # Legal: `_places` has shown that no iteration of the serial loop reads what another wrote, and they run one after
    # another, so all may use the same elements. Below, each iteration of the outer parallel loops gets a part of its
    # own.
    made: Stmt = rewrite(allocation.body, lambda node: small.body if node is inside.body else None)
    result = Allocate(small.buffer, made, allocation.annotations)
    for loop in reversed(inside.parallel):
        wide = widened(loop, result.buffer)
        result = Allocate(wide, in_own_part(result.body, result.buffer, wide, loop), aligned_behind(result))
    return result


def _places(stmt: Node, buffer: Buffer, ranges: Ranges, around: tuple[For | LetStmt, ...]) -> Iterator[_Place]:
    """Yield the loops that contain all uses of the buffer and pass no values through it from one iteration to another,
    outermost loop first.
    """
    users = [child for child in children(stmt) if buffer in accessed(child)]
    if isinstance(stmt, For | LetStmt):
        around = (*around, stmt)
    if len(users) != 1 or isinstance(users[0], Expr) or not isinstance(stmt, For | LetStmt | If | Seq | Allocate):
        return
    (inner,) = users
    if isinstance(stmt, For):
        ranges = with_loop(stmt, ranges)
        if stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL) or exposes(stmt.body, buffer):
            return
        yield _Place(stmt.body, ranges, around)
    yield from _places(inner, buffer, ranges, around)


def _shape_at(allocation: Allocate, place: _Place) -> tuple[Expr, ...]:
    return shrunk(Allocate(allocation.buffer, place.body, allocation.annotations), place.ranges).buffer.shape


def _are_counted_outside(place: _Place) -> bool:
    """Return whether the extents of the parallel loops can be computed outside of all loops: they use no variable of a
    loop or let, and read no memory.
    """
    named: set[Var] = {item.var for item in place.around}
    return not any(uses(loop.extent, named) or reads_memory(loop.extent) for loop in place.parallel)
