"""Move scratchpad storage into the innermost loop whose iterations all write it before they read it."""

from __future__ import annotations

from typing import Any

from ....expr import map_children, replace, walk
from ....tir.analysis.effects import exposes
from ....tir.analysis.scratchpads import is_scratchpad
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, If, LetStmt, PrimFunc, Seq, Stmt


def place_scratchpads(func: PrimFunc) -> PrimFunc:
    """Rewrite `alloc S; for i: (S[..] = ..; .. = S[..])` to `for i: alloc S; ...`. Runs on functions without blocks.

    After that, `compact_buffers` can shrink the storage to one tile, and each virtual thread gets separate storage.
    """
    taken: list[Allocate] = []
    body = _taken_out(func.body, taken)
    for allocation in reversed(taken):
        body = _placed(body, allocation)
    return func.with_body(body)


def _taken_out(stmt: Any, taken: list[Allocate]) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, Allocate) and is_scratchpad(stmt.buffer.scope):
        taken.append(stmt)
        return _taken_out(stmt.body, taken)
    return map_children(stmt, lambda child: _taken_out(child, taken))


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(n, BufferLoad | BufferStore) and n.buffer is buffer for n in walk(stmt))


def _placed(stmt: Stmt, allocation: Allocate) -> Stmt:
    buffer = allocation.buffer
    if isinstance(stmt, Seq):
        users = [i for i, part in enumerate(stmt.stmts) if _touches(part, buffer)]
        if len(users) == 1:
            (at,) = users
            return Seq((*stmt.stmts[:at], _placed(stmt.stmts[at], allocation), *stmt.stmts[at + 1 :]))
    elif isinstance(stmt, Allocate | LetStmt) or (isinstance(stmt, If) and stmt.else_case is None):
        inner = stmt.then_case if isinstance(stmt, If) else stmt.body
        return replace(stmt, **{"then_case" if isinstance(stmt, If) else "body": _placed(inner, allocation)})
    elif isinstance(stmt, For) and not exposes(stmt.body, buffer):
        return replace(stmt, body=_placed(stmt.body, allocation))
    return replace(allocation, body=stmt)
