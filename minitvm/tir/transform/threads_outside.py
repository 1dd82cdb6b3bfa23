"""The threads of a block are around all that it does: they run one after another what a program says stage by stage.

    for bx in thread_binding(4, "blockIdx.x"):
        for tx in thread_binding(16, "threadIdx.x"):
            S[tx] = A[bx * 16 + tx]                              # in shared storage
        N[bx] = 0.0
        for tx in thread_binding(16, "threadIdx.x"):
            B[bx * 16 + tx] = S[15 - tx]

becomes

    for bx in thread_binding(4, "blockIdx.x"):
        for tx in thread_binding(16, "threadIdx.x"):
            S[tx] = ...
            if tx == 0:
                N[bx] = 0.0
            B[bx * 16 + tx] = S[15 - tx]                         # `insert_barriers` puts a barrier in front

A machine has no other loops over threads: a kernel is what one of them does. Stages that may hand on values in memory
that all blocks see get a barrier here, of which `insert_barriers` keeps those that are needed.
"""

from __future__ import annotations

from typing import Any

from ...errors import Unsupported
from ...expr import EQ, Call, DType, Expr, IntImm, StringImm, Var, map_children, replace, structural_equal, walk
from ..analysis.effects import effects
from ..analysis.threads import is_hardware_thread, is_shared
from ..conditions import all_of, is_const
from ..nodes import Allocate, Buffer, Evaluate, For, ForKind, If, LetStmt, Seq, Stmt


def threads_outside(body: Any) -> Any:
    """The body of a function, in whose blocks of threads each axis of threads is one loop around everything.

    Raises `Unsupported` for loops of one axis that start at different threads, or of which it cannot be said how many
    threads the block has.
    """
    if not isinstance(body, Stmt):
        return body
    if isinstance(body, For) and body.kind is ForKind.THREAD and str(body.thread).startswith("blockIdx"):
        return replace(body, body=_block(body.body))
    return map_children(body, threads_outside)


def _block(stmt: Stmt) -> Stmt:
    """What one block of threads does."""
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD and str(stmt.thread).startswith("blockIdx"):
        return replace(stmt, body=_block(stmt.body))
    if isinstance(stmt, Allocate | LetStmt):
        return replace(stmt, body=_block(stmt.body))
    if is_hardware_loop(stmt):
        return stmt
    axes: dict[str, list[For]] = {}
    for loop in (node for node in walk(stmt) if isinstance(node, For) and is_hardware_thread(node)):
        axes.setdefault(str(loop.thread), []).append(loop)
    if not axes:
        return stmt
    threads = [_whole(axis, loops) for axis, loops in axes.items()]
    alone = all_of([EQ(l.var, l.start) for l in threads if not is_const(l.extent, 1)])
    inner = _stages(stmt, alone)
    for loop in reversed(threads):
        inner = replace(loop, body=inner)
    return inner


def is_hardware_loop(node: Any) -> bool:
    """Whether a node is a loop over threadIdx."""
    return isinstance(node, For) and is_hardware_thread(node)


def _whole(axis: str, loops: list[For]) -> For:
    """A loop over as many threads of an axis as the largest of these loops has."""
    first = loops[0]
    if not all(structural_equal(loop.start, first.start) for loop in loops):
        raise Unsupported(
            f"loops over {axis} that start at {', '.join(str(loop.start) for loop in loops)} in one block"
        )
    extent = first.extent
    if not all(structural_equal(loop.extent, extent) for loop in loops):
        sizes = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
        if len(sizes) < len(loops):
            extents = ", ".join(str(loop.extent) for loop in loops)
            raise Unsupported(f"loops over {axis} of the extents {extents} in one block: which is the largest?")
        extent = IntImm(max(sizes), first.extent.dtype)
    var = Var(first.var.name, first.var.dtype)
    return replace(first, var=var, extent=extent)


def _stages(stmt: Stmt, alone: Expr) -> Stmt:
    """The statement inside all threads: what is in no loop over them is done by one, barriers stand between stages."""
    if is_hardware_loop(stmt):
        return stmt
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for part in stmt.stmts:
            if parts and _meet(Seq.of(*parts), part):
                parts.append(_barrier())
            parts.append(_stages(part, alone))
        return Seq.of(*parts)
    if not any(is_hardware_loop(node) for node in walk(stmt)):
        shown = any(not touch.buffer.scope.startswith("local") for touch in effects(stmt).writes)
        return If(alone, stmt) if shown else stmt
    inner = map_children(stmt, lambda child: _stages(child, alone) if isinstance(child, Stmt) else child)
    if isinstance(inner, For) and isinstance(stmt, For) and _meet(stmt.body, stmt.body):
        return replace(inner, body=Seq.of(inner.body, _barrier()))  # the next iteration comes after this one
    return inner


def _meet(first: Stmt, second: Stmt) -> bool:
    """Whether one stage may touch, in memory that is not the block's own, what the other one writes."""
    one, other = effects(first), effects(second)

    def seen(touches: Any) -> set[Buffer]:
        buffers = {touch.buffer for touch in touches}
        return {b for b in buffers if not is_shared(b.scope) and not b.scope.startswith("local")}

    wrote, writes = seen(one.writes), seen(other.writes)
    return bool(wrote & (seen(other.reads) | writes) or writes & seen(one.reads))


def _barrier() -> Stmt:
    return Evaluate(Call(DType("int32"), "tvm_storage_sync", (StringImm("global"),)))
