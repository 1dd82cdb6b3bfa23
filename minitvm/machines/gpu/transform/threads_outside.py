"""Move the loops over a block's threads outside of all of its statements, so that each thread runs all stages.

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

A machine has no other loops over threads, because a kernel is the program of a single thread. Local storage that
several stages use belongs to the block, and becomes shared. But if one of its dimensions is the thread index in every
access, each thread keeps its own part. Stages that may pass values in memory that all blocks see get a barrier here,
and `insert_barriers` keeps the necessary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ....errors import Unsupported
from ....tir import nodes as tir
from ....tir.analysis.effects import effects
from ....tir.analysis.threads import LANES, is_hardware_thread, is_of_a_warp, is_private, is_shared, is_virtual
from ....tir.conditions import all_of, is_const
from ....tir.transform.separate_allocations import aligned_behind, in_own_part, widened


def threads_outside(body: Any) -> Any:
    """Return the body of a function in which each axis of threads is a single loop around everything in a block.

    Raises `Unsupported` if loops of one axis start at different threads, or if the number of threads of a block cannot
    be determined.
    """
    if not isinstance(body, tir.Stmt):
        return body
    if isinstance(body, tir.Allocate):
        owned = _of_the_block(body)
        return ex.replace(owned, body=threads_outside(owned.body))
    if isinstance(body, tir.For) and body.kind is tir.ForKind.THREAD and str(body.thread).startswith("blockIdx"):
        return ex.replace(body, body=_block(body.body))
    return ex.map_children(body, threads_outside)


def _of_the_block(allocation: tir.Allocate) -> tir.Allocate:
    """Make local storage shared if several loops over threads use it, because it then belongs to the block.

    It gets a part for each thread of the loops that contain all its accesses. Storage that several kernels use becomes
    global.
    """
    buffer, body = allocation.buffer, allocation.body
    if not is_private(buffer.scope):
        return allocation
    every = accesses_of(body, buffer)
    users = [(l, accesses_of(l, buffer)) for l in ex.find(body, tir.For) if l.kind is tir.ForKind.THREAD]
    blocks = [l for l, count in users if str(l.thread).startswith("blockIdx") and count == every]
    threads = [(l, count) for l, count in users if is_hardware_thread(l) and count]
    owners = {str(l.thread): l for l, count in threads if count == every}
    if any(count for l, count in users if not is_virtual(l)) and not (blocks or owners):
        # Kernels hand it on to each other: no block of threads has it for itself.
        common = ex.replace(buffer, scope="global")
        return ex.replace(allocation, buffer=common, body=_moved(body, buffer, common))
    if all(str(l.thread) in owners for l, _ in threads) or _is_of_a_thread_each(body, buffer):
        return allocation
    new = ex.replace(allocation, buffer=ex.replace(buffer, scope="shared"))
    new = ex.replace(new, body=_moved(body, buffer, new.buffer))
    for loop in reversed([l for l in ex.find(new.body, tir.For) if accesses_of(l, new.buffer) == every]):
        if is_hardware_thread(loop):
            wide = widened(loop, new.buffer)
            new = tir.Allocate(wide, in_own_part(new.body, new.buffer, wide, loop), aligned_behind(new))
    return new


def _is_of_a_thread_each(body: tir.Stmt, buffer: tir.Buffer) -> bool:
    """Return whether every access of a buffer is at the index of its thread along one dimension, for a single thread
    axis.
    """
    dimensions = set(range(buffer.ndim))
    axes: set[str] = set()

    def visit(node: ex.Node, around: tuple[tir.For, ...]) -> None:
        inner = (*around, node) if isinstance(node, tir.For) else around
        if dimensions and isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is buffer:
            threads = [loop for loop in inner if is_hardware_thread(loop)]
            axes.update(str(loop.thread) for loop in threads)
            if len(threads) != 1 or len(axes) > 1:
                dimensions.clear()
            analyzer = Analyzer.inside(*inner)
            dimensions.intersection_update(
                d for d in dimensions if analyzer.simplify(node.indices[d]) is threads[0].var
            )
        for child in ex.children(node):
            visit(child, inner)

    visit(body, ())
    return bool(dimensions)


def _moved(stmt: tir.Stmt, old: tir.Buffer, new: tir.Buffer) -> tir.Stmt:
    def change(node: ex.Node) -> ex.Node | None:
        return (
            ex.replace(node, buffer=new)
            if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is old
            else None
        )

    moved: tir.Stmt = ex.rewrite(stmt, change)
    return moved


def accesses_of(stmt: tir.Stmt, buffer: tir.Buffer) -> int:
    """Return the number of loads and stores of a buffer in the text of a statement."""
    return sum(isinstance(n, tir.BufferLoad | tir.BufferStore) and n.buffer is buffer for n in ex.walk(stmt))


def _block(stmt: tir.Stmt) -> tir.Stmt:
    """Rewrite the statements of one block of threads."""
    if isinstance(stmt, tir.For) and stmt.kind is tir.ForKind.THREAD and str(stmt.thread).startswith("blockIdx"):
        return ex.replace(stmt, body=_block(stmt.body))
    if isinstance(stmt, tir.Allocate | tir.LetStmt):
        return ex.replace(stmt, body=_block(stmt.body))
    if is_hardware_loop(stmt):
        return _inside(stmt)
    return _with_threads(stmt, ())


def _inside(loop: Any, around: tuple[str, ...] = ()) -> tir.Stmt:
    """Return a loop over threads whose body is surrounded by the further axes of threads that only some of its
    statements have.
    """
    bound = (*around, str(loop.thread))
    if is_hardware_loop(loop.body):
        return ex.replace(loop, body=_inside(loop.body, bound))
    return ex.replace(loop, body=_with_threads(loop.body, bound))


def _with_threads(stmt: tir.Stmt, bound: tuple[str, ...]) -> tir.Stmt:
    """Return the statements of a block's threads, inside of loops over the axes that are not bound around them."""
    axes: dict[str, list[tir.For]] = {}
    for loop in (node for node in ex.find(stmt, tir.For) if is_hardware_thread(node)):
        if loop.thread not in bound:
            axes.setdefault(str(loop.thread), []).append(loop)
    if not axes:
        return stmt
    threads = [_whole(axis, loops) for axis, loops in axes.items()]
    threads.sort(key=lambda loop: loop.thread == LANES)  # what a warp owns stands around its lanes
    inner = _stages(stmt, [l for l in threads if not is_const(l.extent, 1)])
    for loop in reversed(threads):
        inner = ex.replace(loop, body=inner)
    return inner


def is_hardware_loop(node: Any) -> bool:
    """Return whether a node is a loop over threadIdx."""
    return isinstance(node, tir.For) and is_hardware_thread(node)


def _whole(axis: str, loops: list[tir.For]) -> tir.For:
    """Return a loop over as many threads of an axis as the largest of these loops has."""
    first = loops[0]
    if not all(ex.structural_equal(loop.start, first.start) for loop in loops):
        raise Unsupported(
            f"loops over {axis} that start at {', '.join(str(loop.start) for loop in loops)} in one block"
        )
    extent = first.extent
    if not all(ex.structural_equal(loop.extent, extent) for loop in loops):
        sizes = [loop.extent.value for loop in loops if isinstance(loop.extent, ex.IntImm)]
        if len(sizes) < len(loops):
            extents = ", ".join(str(loop.extent) for loop in loops)
            raise Unsupported(f"loops over {axis} of the extents {extents} in one block: which is the largest?")
        extent = ex.IntImm(max(sizes), first.extent.dtype)
    var = ex.Var(first.var.name, first.var.dtype)
    return ex.replace(first, var=var, extent=extent)


def _stages(stmt: tir.Stmt, threads: Sequence[tir.For]) -> tir.Stmt:
    """Return the statement inside the loops `threads`. One thread runs parts outside of thread loops, and barriers
    separate stages.
    """
    if is_hardware_loop(stmt):
        return _stored_once(stmt, threads)
    if isinstance(stmt, tir.Seq):
        parts: list[tir.Stmt] = []
        for part in stmt.stmts:
            if parts and _meet(tir.Seq.of(*parts), part):
                parts.append(_barrier())
            parts.append(_stages(part, threads))
        return tir.Seq.of(*parts)
    if _together(stmt):
        return stmt  # its threads do it together
    if not any(is_hardware_loop(node) or _together(node) for node in ex.walk(stmt)):
        shown = any(not is_private(touch.buffer.scope) for touch in effects(stmt).writes)
        return tir.If(_first(threads), stmt) if shown else stmt
    inner = ex.map_children(stmt, lambda child: _stages(child, threads) if isinstance(child, tir.Stmt) else child)
    if (
        isinstance(inner, tir.For)
        and isinstance(stmt, tir.For)
        and not is_virtual(stmt)
        and _meet(stmt.body, stmt.body)
    ):
        return ex.replace(inner, body=tir.Seq.of(inner.body, _barrier()))  # the next iteration comes after this one
    return inner


def _first(threads: Sequence[tir.For]) -> ex.Expr:
    """Return the condition that holds in the first thread of each of these axes."""
    return all_of([ex.EQ(l.var, l.start) for l in threads])


def _stored_once(stmt: Any, threads: Sequence[tir.For]) -> Any:
    """Return a stage that loops over only some of the axes `threads`, so that one thread of each other axis stores.

    Legal: the stage runs once in the program. Its other threads compute the same values in storage of their own.
    """
    if not isinstance(stmt, tir.Stmt) or not threads or _together(stmt):
        return stmt
    if isinstance(stmt, tir.For) and is_hardware_thread(stmt):
        threads = [loop for loop in threads if loop.thread != stmt.thread]
    if isinstance(stmt, tir.BufferStore):
        is_visible = not (is_private(stmt.buffer.scope) or is_of_a_warp(stmt.buffer.scope))
        return tir.If(_first(threads), stmt) if is_visible and threads else stmt
    return ex.map_children(stmt, lambda child: _stored_once(child, threads))


def _together(node: ex.Node) -> bool:
    return isinstance(node, tir.Instruction) and node.together > 1


def _meet(first: tir.Stmt, second: tir.Stmt) -> bool:
    """Return whether one stage may access memory outside of the block's own that the other one writes."""
    one, other = effects(first), effects(second)

    def seen(touches: Any) -> set[tir.Buffer]:
        buffers = {touch.buffer for touch in touches}
        own = (b for b in buffers if is_private(b.scope) or is_shared(b.scope) or is_of_a_warp(b.scope))
        return buffers - set(own)

    wrote, writes = seen(one.writes), seen(other.writes)
    return bool(wrote & (seen(other.reads) | writes) or writes & seen(one.reads))


def _barrier() -> tir.Stmt:
    return tir.Evaluate(ex.Call(ex.DType("int32"), "tvm_storage_sync", (ex.StringImm("global"),)))
