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

A machine has no other loops over threads: a kernel is what one of them does. Local storage that several stages use is
the block's, and becomes shared; but where one dimension of it is the number of the thread in every access, each thread
has its part for itself. Stages that may hand on values in memory that all blocks see get a barrier here, of which
`insert_barriers` keeps those that are needed.
"""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....errors import Unsupported
from ....expr import (
    EQ,
    Call,
    DType,
    Expr,
    IntImm,
    Node,
    StringImm,
    Var,
    children,
    find,
    map_children,
    replace,
    rewrite,
    structural_equal,
    walk,
)
from ....tir.analysis.effects import effects
from ....tir.analysis.threads import LANES, is_hardware_thread, is_of_a_warp, is_private, is_shared, is_virtual
from ....tir.conditions import all_of, is_const
from ....tir.nodes import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    If,
    Instruction,
    LetStmt,
    Seq,
    Stmt,
)
from ....tir.transform.separate_allocations import aligned_behind, in_own_part, widened


def threads_outside(body: Any) -> Any:
    """The body of a function, in whose blocks of threads each axis of threads is one loop around everything.

    Raises `Unsupported` for loops of one axis that start at different threads, or of which it cannot be said how many
    threads the block has.
    """
    if not isinstance(body, Stmt):
        return body
    if isinstance(body, Allocate):
        owned = _of_the_block(body)
        return replace(owned, body=threads_outside(owned.body))
    if isinstance(body, For) and body.kind is ForKind.THREAD and str(body.thread).startswith("blockIdx"):
        return replace(body, body=_block(body.body))
    return map_children(body, threads_outside)


def _of_the_block(allocation: Allocate) -> Allocate:
    """Local storage that belongs to no single thread, since several loops over threads use it, is the block's: shared.

    It has a part for each thread of those loops that hold all its accesses. What several kernels use is global.
    """
    buffer, body = allocation.buffer, allocation.body
    if not is_private(buffer.scope):
        return allocation
    every = accesses_of(body, buffer)
    users = [(l, accesses_of(l, buffer)) for l in find(body, For) if l.kind is ForKind.THREAD]
    blocks = [l for l, count in users if str(l.thread).startswith("blockIdx") and count == every]
    threads = [(l, count) for l, count in users if is_hardware_thread(l) and count]
    owners = {str(l.thread): l for l, count in threads if count == every}
    if any(count for l, count in users if not is_virtual(l)) and not (blocks or owners):
        # Kernels hand it on to each other: no block of threads has it for itself.
        common = replace(buffer, scope="global")
        return replace(allocation, buffer=common, body=_moved(body, buffer, common))
    if all(str(l.thread) in owners for l, _ in threads) or _is_of_a_thread_each(body, buffer):
        return allocation
    new = replace(allocation, buffer=replace(buffer, scope="shared"))
    new = replace(new, body=_moved(body, buffer, new.buffer))
    for loop in reversed([l for l in find(new.body, For) if accesses_of(l, new.buffer) == every]):
        if is_hardware_thread(loop):
            wide = widened(loop, new.buffer)
            new = Allocate(wide, in_own_part(new.body, new.buffer, wide, loop), aligned_behind(new))
    return new


def _is_of_a_thread_each(body: Stmt, buffer: Buffer) -> bool:
    """Whether along one dimension of a buffer every access is at the number of its thread, of one axis of threads."""
    dimensions = set(range(buffer.ndim))
    axes: set[str] = set()

    def visit(node: Node, around: tuple[For, ...]) -> None:
        inner = (*around, node) if isinstance(node, For) else around
        if dimensions and isinstance(node, BufferLoad | BufferStore) and node.buffer is buffer:
            threads = [loop for loop in inner if is_hardware_thread(loop)]
            axes.update(str(loop.thread) for loop in threads)
            if len(threads) != 1 or len(axes) > 1:
                dimensions.clear()
            analyzer = Analyzer.inside(*inner)
            dimensions.intersection_update(
                d for d in dimensions if analyzer.simplify(node.indices[d]) is threads[0].var
            )
        for child in children(node):
            visit(child, inner)

    visit(body, ())
    return bool(dimensions)


def _moved(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    def change(node: Node) -> Node | None:
        return replace(node, buffer=new) if isinstance(node, BufferLoad | BufferStore) and node.buffer is old else None

    moved: Stmt = rewrite(stmt, change)
    return moved


def accesses_of(stmt: Stmt, buffer: Buffer) -> int:
    """How many loads and stores of a buffer the text of a statement has."""
    return sum(isinstance(n, BufferLoad | BufferStore) and n.buffer is buffer for n in walk(stmt))


def _block(stmt: Stmt) -> Stmt:
    """What one block of threads does."""
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD and str(stmt.thread).startswith("blockIdx"):
        return replace(stmt, body=_block(stmt.body))
    if isinstance(stmt, Allocate | LetStmt):
        return replace(stmt, body=_block(stmt.body))
    if is_hardware_loop(stmt):
        return _inside(stmt)
    return _with_threads(stmt, ())


def _inside(loop: Any, around: tuple[str, ...] = ()) -> Stmt:
    """A loop over threads with those of the axes that only some statements inside have, around all that it does."""
    bound = (*around, str(loop.thread))
    if is_hardware_loop(loop.body):
        return replace(loop, body=_inside(loop.body, bound))
    return replace(loop, body=_with_threads(loop.body, bound))


def _with_threads(stmt: Stmt, bound: tuple[str, ...]) -> Stmt:
    """What the threads of a block do, inside of loops over the axes that are not bound around it."""
    axes: dict[str, list[For]] = {}
    for loop in (node for node in find(stmt, For) if is_hardware_thread(node)):
        if loop.thread not in bound:
            axes.setdefault(str(loop.thread), []).append(loop)
    if not axes:
        return stmt
    threads = [_whole(axis, loops) for axis, loops in axes.items()]
    threads.sort(key=lambda loop: loop.thread == LANES)  # what a warp owns stands around its lanes
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
    if _together(stmt):
        return stmt  # its threads do it together
    if not any(is_hardware_loop(node) or _together(node) for node in walk(stmt)):
        shown = any(not is_private(touch.buffer.scope) for touch in effects(stmt).writes)
        return If(alone, stmt) if shown else stmt
    inner = map_children(stmt, lambda child: _stages(child, alone) if isinstance(child, Stmt) else child)
    if isinstance(inner, For) and isinstance(stmt, For) and not is_virtual(stmt) and _meet(stmt.body, stmt.body):
        return replace(inner, body=Seq.of(inner.body, _barrier()))  # the next iteration comes after this one
    return inner


def _together(node: Node) -> bool:
    return isinstance(node, Instruction) and node.together > 1


def _meet(first: Stmt, second: Stmt) -> bool:
    """Whether one stage may touch, in memory that is not the block's own, what the other one writes."""
    one, other = effects(first), effects(second)

    def seen(touches: Any) -> set[Buffer]:
        buffers = {touch.buffer for touch in touches}
        own = (b for b in buffers if is_private(b.scope) or is_shared(b.scope) or is_of_a_warp(b.scope))
        return buffers - set(own)

    wrote, writes = seen(one.writes), seen(other.writes)
    return bool(wrote & (seen(other.reads) | writes) or writes & seen(one.reads))


def _barrier() -> Stmt:
    return Evaluate(Call(DType("int32"), "tvm_storage_sync", (StringImm("global"),)))
