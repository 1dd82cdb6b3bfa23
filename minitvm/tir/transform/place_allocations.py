"""Move allocations down to the smallest statement that contains all of their accesses.

A buffer may be allocated inside a loop only if it passes no value from one iteration to the next. To decide this, we
follow one iteration in program order: every read must be inside a region that was certainly written before
(`Coverage`). A small buffer that ends up inside a loop nest is placed on the stack; all others are workspaces of the
host function.
"""

from __future__ import annotations

from typing import Any

from ...expr import Expr, IntImm, children, find, map_children, replace
from ...expr.visitor import accessed
from ..analysis.effects import exposes
from ..analysis.threads import is_of_a_warp, is_private, is_shared, owns
from ..annotations import ALIGNMENTS
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from .affine import Ranges, with_loop
from .align_storage import aligned_strides
from .compact_buffers import compacted_shape, used_spans

STACK_BUFFER_BYTES = 768 << 10
STACK_BYTES = 960 << 10


def place_allocations(func: PrimFunc) -> PrimFunc:
    """Move allocations inward: `alloc B; for i: (B[..] = ..; .. = B[..])` -> `for i: alloc B; ...`, if no iteration
    reads a value that another wrote.

    before:
        S = T.decl_buffer((4, 8))
        for i in range(4):
            for j in range(8):
                S[i, j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[i, 7 - j]
    after:
        for i in range(4):
            S = T.decl_buffer((4, 8), scope="local")
            for j in range(8):
                S[i, j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[i, 7 - j]
    """
    # Legal: each iteration of a loop may have new storage if no iteration reads what another one wrote in it.
    taken: list[Allocate] = []
    body = _taken_out(func.body, taken)
    room = STACK_BYTES
    for allocation in reversed(taken):
        placed = _Placement(allocation, room).place(body, {}, top=True)
        if placed is not None:
            body = placed.stmt
            room -= placed.stack_bytes
    return func.with_body(_workspaces_outside(body))


def _workspaces_outside(stmt: Any) -> Any:
    """Move workspaces of the host out of stack allocations, because stack allocations belong to a kernel."""
    if not isinstance(stmt, Stmt) or isinstance(stmt, For):
        return stmt
    new = map_children(stmt, _workspaces_outside)
    if not isinstance(new, Allocate) or not is_private(new.buffer.scope):
        return new
    workspaces: list[Allocate] = []
    result = replace(new, body=_without_workspaces(new.body, workspaces))
    for workspace in reversed(workspaces):
        result = replace(workspace, body=result)
    return result


def _without_workspaces(stmt: Any, workspaces: list[Allocate]) -> Any:
    if not isinstance(stmt, Stmt) or isinstance(stmt, For):
        return stmt
    if isinstance(stmt, Allocate) and stmt.buffer.scope == "global":
        workspaces.append(stmt)
        return _without_workspaces(stmt.body, workspaces)
    new = map_children(stmt, lambda child: _without_workspaces(child, workspaces))
    return Seq.of(*new.stmts) if isinstance(new, Seq) else new


def _taken_out(stmt: Any, taken: list[Allocate]) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, Allocate):
        taken.append(stmt)
        return _taken_out(stmt.body, taken)
    new = map_children(stmt, lambda child: _taken_out(child, taken))
    return Seq.of(*new.stmts) if isinstance(new, Seq) else new


class _Placed:
    __slots__ = ("stack_bytes", "stmt")

    def __init__(self, stmt: Stmt, stack_bytes: int = 0) -> None:
        self.stmt = stmt
        self.stack_bytes = stack_bytes


class _Placement:
    """Finds the innermost legal place for one allocation."""

    def __init__(self, allocation: Allocate, room: int) -> None:
        self.buffer = allocation.buffer
        self.annotations = allocation.annotations
        self.room = room

    def touches(self, stmt: Stmt | Expr) -> bool:
        return self.buffer in accessed(stmt)

    def place(self, stmt: Stmt, ranges: Ranges, top: bool) -> _Placed | None:
        """Return `stmt` with the allocation inside or around it. `top` says that `stmt` is outside of all loops and
        branches.

        Returns None if nothing uses the buffer, or if the allocation would be inside a nest and does not fit on the
        stack.
        """
        if not self.touches(stmt):
            return None
        if isinstance(stmt, Seq):
            return self.in_sequence(stmt, ranges, top)
        if any(isinstance(child, Expr) and self.touches(child) for child in children(stmt)):
            return self.around(stmt, ranges, top)  # its condition, bounds or value are not inside its body
        if isinstance(stmt, Allocate | LetStmt):
            return self.rebuilt(stmt, "body", ranges, top)
        deeper = self.deeper(stmt, ranges)
        return self.around(stmt, ranges, top) if deeper is None else deeper

    def in_sequence(self, stmt: Seq, ranges: Ranges, top: bool) -> _Placed | None:
        users = [i for i, part in enumerate(stmt.stmts) if self.touches(part)]
        if len(users) == 1:
            inner = self.place(stmt.stmts[users[0]], ranges, top)
        else:
            inner = self.around(Seq(stmt.stmts[users[0] : users[-1] + 1]), ranges, top)
        if inner is None:
            return None
        return _Placed(Seq.of(*stmt.stmts[: users[0]], inner.stmt, *stmt.stmts[users[-1] + 1 :]), inner.stack_bytes)

    def deeper(self, stmt: Stmt, ranges: Ranges) -> _Placed | None:
        """Try to put the allocation inside a loop or branch; return None if it must stay outside."""
        if isinstance(stmt, If) and (stmt.else_case is None or not self.touches(stmt.else_case)):
            return self.rebuilt(stmt, "then_case", ranges, top=False)
        if not isinstance(stmt, For) or stmt.kind == ForKind.VECTORIZED:
            return None
        if stmt.kind == ForKind.THREAD and self.buffer.scope != "global":
            inside = owns(stmt, self.buffer.scope)
        else:
            inside = not exposes(stmt.body, self.buffer)
        if not inside:
            return None
        return self.rebuilt(stmt, "body", with_loop(stmt, ranges), top=False)

    def rebuilt(self, stmt: Any, field: str, ranges: Ranges, top: bool) -> _Placed | None:
        inner = self.place(getattr(stmt, field), ranges, top)
        return None if inner is None else _Placed(replace(stmt, **{field: inner.stmt}), inner.stack_bytes)

    def around(self, stmt: Stmt, ranges: Ranges, top: bool) -> _Placed | None:
        """Return the allocation wrapped around `stmt`; None if it would be inside a nest and does not fit
        on the stack.
        """
        size = self.stack_size(stmt, ranges)
        fits = size is not None and size <= min(STACK_BUFFER_BYTES, self.room)
        if not top and not fits:
            return None
        kept = is_shared(self.buffer.scope) or is_of_a_warp(self.buffer.scope)
        in_grid = kept and isinstance(stmt, For) and stmt.kind == ForKind.THREAD
        on_stack = fits and (in_grid or not (top and (not is_private(self.buffer.scope) or _is_shared(stmt))))
        buffer = self.buffer
        scope = "local" if on_stack else "global"
        in_registers = is_of_a_warp(buffer.scope) or is_private(buffer.scope)
        if on_stack and (in_registers or (kept and _is_shared(stmt))):
            scope = buffer.scope
        if buffer.scope != scope:
            buffer = replace(buffer, scope=scope)
            stmt = _with_buffer(stmt, self.buffer, buffer)
        return _Placed(Allocate(buffer, stmt, self.annotations), size if on_stack and size else 0)

    def stack_size(self, stmt: Stmt, ranges: Ranges) -> int | None:
        if self.buffer.strides:
            return None
        shape = compacted_shape(self.buffer, used_spans(self.buffer, stmt, ranges))
        strides = aligned_strides(shape, self.annotations.get(ALIGNMENTS, ()))
        count = strides[0].value if strides and isinstance(strides[0], IntImm) else 1
        for dim in shape[:1] if strides else shape:
            if not isinstance(dim, IntImm):
                return None
            count *= dim.value
        return count * self.buffer.dtype.bytes


def _is_shared(stmt: Stmt) -> bool:
    """Return whether several threads or kernels would access a buffer that is allocated around this statement."""
    return any(loop.kind in (ForKind.PARALLEL, ForKind.THREAD) for loop in find(stmt, For))


def _with_buffer(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    def go(node: Any) -> Any:
        if old not in accessed(node):
            return node
        fresh = map_children(node, go)
        if isinstance(fresh, BufferLoad | BufferStore) and fresh.buffer is old:
            return replace(fresh, buffer=new)
        return fresh

    return go(stmt)
