"""Threads that share storage wait for each other where one may touch what another one has touched before.

    for tx in thread_binding(8, "threadIdx.x"):
        for k in range(4):
            S[tx] = A[k, tx]                                  # S: shared
            barrier
            B[tx] = B[tx] + S[7 - tx]
            barrier                                           # before the next iteration writes S again

The meaning of a program has them after every statement (`tir.threads`); here stay those between statements of which one
writes a buffer that the other one accesses. TVM's pass ThreadSync.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...arith import iter_map
from ...errors import Unsupported
from ...expr import Call, DType, Range, StringImm, children, free_vars, map_children, replace, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, Evaluate, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from ..threads import is_shared, is_thread, is_virtual

BARRIER = "tvm_storage_sync"


def insert_barriers(func: PrimFunc) -> PrimFunc:
    """Put barriers between the statements of thread loops. Before `place_allocations`, which gives storage new scopes.

    Raises `Unsupported` where some threads would not reach a barrier: under a condition, or in a loop, that depends on
    the thread.
    """
    return func.with_body(_visit(func.body))


def _visit(node: Any) -> Any:
    if not isinstance(node, Stmt):
        return node
    if isinstance(node, For) and is_thread(node) and not is_virtual(node):
        return _Threads((node,)).inside(node).stmt
    return map_children(node, _visit)


@dataclass(frozen=True)
class _Effects:
    """A statement with its barriers, and the shared buffers that are touched in it."""

    stmt: Stmt
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]

    def disturbs(self, reads: frozenset[Buffer], writes: frozenset[Buffer]) -> bool:
        """Whether this statement may not begin before others, which read and write those buffers, have ended."""
        return bool(self.writes & (reads | writes) or self.reads & writes)


class _Threads:
    """The statements inside loops over the threads of a block."""

    def __init__(self, loops: tuple[For, ...]) -> None:
        self.loops = loops

    def inside(self, loop: For) -> _Effects:
        body = self.effects(loop.body)
        return _Effects(replace(loop, body=body.stmt), body.reads, body.writes)

    def effects(self, stmt: Stmt) -> _Effects:
        if isinstance(stmt, Seq):
            return self.sequence(stmt)
        if isinstance(stmt, For) and stmt.kind is not ForKind.VECTORIZED:
            if is_thread(stmt) and not is_virtual(stmt):
                return _Threads((*self.loops, stmt)).inside(stmt)
            return self.loop(stmt)
        if isinstance(stmt, LetStmt | Allocate):
            body = self.effects(stmt.body)
            reads = body.reads if isinstance(stmt, Allocate) else body.reads | _read(stmt.value)
            return _Effects(replace(stmt, body=body.stmt), reads, body.writes)
        if isinstance(stmt, If):
            return self.branch(stmt)
        return _Effects(stmt, _read(stmt), frozenset(s.buffer for s in _stores(stmt)))

    def sequence(self, stmt: Seq) -> _Effects:
        parts: list[Stmt] = []
        reads: frozenset[Buffer] = frozenset()
        writes: frozenset[Buffer] = frozenset()
        every = [self.effects(part) for part in stmt.stmts]
        for part in every:
            if part.disturbs(reads, writes):
                parts.append(_barrier())
                reads = writes = frozenset()
            parts.append(part.stmt)
            reads, writes = reads | part.reads, writes | part.writes
        return _Effects(
            Seq.of(*parts),
            frozenset().union(*(p.reads for p in every)),
            frozenset().union(*(p.writes for p in every)),
        )

    def loop(self, loop: For) -> _Effects:
        body = self.effects(loop.body)
        inner = body.stmt
        if body.writes & body.reads or not self.writes_apart(loop):
            inner = Seq.of(inner, _barrier())
        self.refuse_some(loop, inner, (loop.start, loop.extent))
        return _Effects(replace(loop, body=inner), body.reads | _read(loop.extent), body.writes)

    def branch(self, stmt: If) -> _Effects:
        yes = self.effects(stmt.then_case)
        no = self.effects(stmt.else_case) if stmt.else_case is not None else None
        made = If(stmt.condition, yes.stmt, None if no is None else no.stmt)
        self.refuse_some(stmt, made, (stmt.condition,))
        reads, writes = yes.reads | _read(stmt.condition), yes.writes
        return _Effects(made, reads if no is None else reads | no.reads, writes if no is None else writes | no.writes)

    def writes_apart(self, loop: For) -> bool:
        """Whether no two iterations of a loop, of any threads, write one element of shared storage."""
        stores = _stores(loop)
        if len(stores) != len({s.buffer for s in stores}):
            return False
        for store in stores:
            used = {v for e in store.indices for v in free_vars(e)}
            moving = {l.var: Range(l.start, l.extent) for l in (*self.loops, *_loops_to(loop, store)) if l.var in used}
            if loop.var not in moving or not iter_map.detect(store.indices, moving, level="injective"):
                return False
        return True

    def refuse_some(self, stmt: Stmt, made: Stmt, decides: Sequence[Any]) -> None:
        waits = any(isinstance(n, Call) and n.op == BARRIER for n in walk(made))
        own = {l.var for l in self.loops}
        if waits and any(v in own for e in decides for v in free_vars(e)):
            head = f"if {stmt.condition}" if isinstance(stmt, If) else f"the loop over {stmt.var.name}"  # type: ignore[attr-defined]
            raise Unsupported(
                f"{head}: some threads would not reach a barrier\n"
                "  wanted: conditions and loops around uses of shared storage that are the same for all threads\n"
                f"  found:  {', '.join(str(e) for e in decides)}, which depends on the thread"
            )


def _loops_to(loop: For, store: BufferStore) -> list[For]:
    """The loops from `loop` down to a store in it."""
    found = [loop]
    at: Any = loop
    while at is not store:
        at = next(c for c in children(at) if c is store or any(n is store for n in walk(c)))
        if isinstance(at, For):
            found.append(at)
    return found


def _stores(node: Stmt) -> list[BufferStore]:
    return [n for n in walk(node) if isinstance(n, BufferStore) and is_shared(n.buffer.scope)]


def _read(node: Any) -> frozenset[Buffer]:
    return frozenset(n.buffer for n in walk(node) if isinstance(n, BufferLoad) and is_shared(n.buffer.scope))


def _barrier() -> Stmt:
    return Evaluate(Call(DType("int32"), BARRIER, (StringImm("shared"),)))
