"""Interleave loops over virtual threads: each statement runs for all virtual threads before the next one starts.

One processor then does the work of several threads, so that the latency of one thread overlaps with the work of the
others.

This is legal because the iterations of a loop over virtual threads are independent (`bind` proves it), so every
interleaving has the same meaning. Storage that is allocated inside belongs to each virtual thread, so it gets an
additional dimension. The value of a let that reads memory gets such storage too: all virtual threads read it before any
of them stores. A condition that differs between virtual threads, but reads no memory, is put around each statement that
it guards.
"""

from __future__ import annotations

from typing import Any

from ...expr import Expr, IntImm, map_children, replace, substitute
from .. import nodes as tir
from ..analysis.threads import is_virtual
from ..conditions import is_const, reads_memory, uses
from .separate_allocations import in_own_part, widened
from .unroll import bind


def inject_virtual_thread(func: tir.PrimFunc) -> tir.PrimFunc:
    """Interleave the loops bound to "vthread", innermost first. Runs on functions without blocks.

    before:
        A: T.Buffer((2, 8), "float32")
        B: T.Buffer((2,), "float32")
        for v in T.thread_binding(2, thread="vthread.x"):
            B[v] = 0.0
            for k in range(8):
                B[v] = B[v] + A[v, k]
    after:
        for v in T.unroll(2):
            B[v] = 0.0
        for k in range(8):
            for v in T.unroll(2):
                B[v] = B[v] + A[v, k]
    """
    return func.with_body(_visit(func.body))


def _visit(node: Any) -> Any:
    if not isinstance(node, tir.Stmt):
        return node
    new = map_children(node, _visit)
    return interleaved(new) if isinstance(new, tir.For) and is_virtual(new) else new


def interleaved(loop: tir.For) -> tir.Stmt:
    """Move a loop over virtual threads inward, around only the statements that need it."""
    if is_const(loop.extent, 0):
        return tir.Seq(())
    return _inward(loop, loop.body)


def _inward(loop: tir.For, stmt: tir.Stmt, under: tuple[Expr, ...] = ()) -> tir.Stmt:
    """Return `stmt` for all virtual threads of `loop`; in each of them, it runs only if the conditions in `under`
    hold.
    """
    if isinstance(stmt, tir.Seq):
        return tir.Seq(tuple(_inward(loop, part, under) for part in stmt.stmts))
    if isinstance(stmt, tir.Allocate):
        wide = widened(loop, stmt.buffer)
        return replace(stmt, buffer=wide, body=_inward(loop, in_own_part(stmt.body, stmt.buffer, wide, loop), under))
    # Legal: virtual threads are independent, as `bind` has shown, so their statements may run in any order that keeps
    # the order within each thread. A loop, let or branch around them is the same for all of them.
    fixed = not _depends(loop, stmt)
    if isinstance(stmt, tir.For) and stmt.kind is not tir.ForKind.THREAD and fixed:
        return replace(stmt, body=_inward(loop, stmt.body, under))
    if isinstance(stmt, tir.LetStmt) and fixed and not under:
        return replace(stmt, body=_inward(loop, stmt.body))
    if isinstance(stmt, tir.LetStmt):
        return _inward(loop, _held(stmt) if reads_memory(stmt.value) else _inlined(stmt), under)
    if isinstance(stmt, tir.If) and fixed and not under:
        other = None if stmt.else_case is None else _inward(loop, stmt.else_case)
        return tir.If(stmt.condition, _inward(loop, stmt.then_case), other)
    if isinstance(stmt, tir.If) and stmt.else_case is None and not reads_memory(stmt.condition):
        return _inward(loop, stmt.then_case, (*under, stmt.condition))
    # The loop stays here, around one statement. It is unrolled if the number of threads is known.
    for condition in reversed(under):
        stmt = tir.If(condition, stmt)
    kind = tir.ForKind.UNROLLED if isinstance(loop.extent, IntImm) else tir.ForKind.SERIAL
    var = loop.var.with_name(loop.var.name)
    return tir.For(var, loop.start, loop.extent, kind, bind(stmt, {loop.var: var}))


def _depends(loop: tir.For, stmt: tir.Stmt) -> bool:
    """Return whether a statement itself, not counting the statements inside it, differs between virtual threads."""
    own: list[Expr] = []
    if isinstance(stmt, tir.For):
        own = [stmt.start, stmt.extent]
    elif isinstance(stmt, tir.If):
        own = [stmt.condition]
    elif isinstance(stmt, tir.LetStmt):
        own = [stmt.value]
    # Memory does not differ either: no thread writes what another one reads, except in step, in storage that they
    # share.
    return any(uses(e, [loop.var]) for e in own)


def _inlined(let: tir.LetStmt) -> tir.Stmt:
    """Substitute the value of a let that reads no memory into its body."""
    return substitute(let.body, {let.var: let.value.astype(let.var.dtype)})


def _held(let: tir.LetStmt) -> tir.Stmt:
    """Store the value of a let that reads memory in a local buffer, so that all virtual threads read the value before
    any of them continues.
    """
    own = tir.Buffer(let.var.name, (), let.var.dtype, "local")
    body = substitute(let.body, {let.var: tir.BufferLoad(own, ())})
    return tir.Allocate(own, tir.Seq((tir.BufferStore(own, let.value, ()), body)))
