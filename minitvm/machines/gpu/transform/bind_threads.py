"""Bind each axis of GPU threads by a single loop, and let one thread do the work that does not depend on the thread.

Virtual threads run inside of the real ones, each with separate local storage. TVM's pass UnifyThreadBinding also makes
one loop per axis, but it lets all threads write the same value, and handles only storage that is allocated inside.
"""

from __future__ import annotations

from typing import Any

from ....errors import Unsupported
from ....expr import EQ, Expr, children, contains, find, map_children, replace, structural_equal
from ....tir.analysis.threads import LANES, depends, is_hardware_thread, is_shared, is_thread, is_virtual, owns
from ....tir.conditions import all_of, is_const, uses
from ....tir.nodes import Allocate, BufferStore, For, ForKind, If, Instruction, PrimFunc, Stmt
from ....tir.transform.separate_allocations import in_own_part, widened
from ....tir.transform.unroll import bind
from .threads_outside import accesses_of, threads_outside


def bind_threads(func: PrimFunc) -> PrimFunc:
    """Make each loop over threads the only one of its axis, and guard statements that write shared data. Runs after
    `drop_blocks`.

    before:
        A: T.Buffer((8,), "float32")
        B: T.Buffer((8,), "float32")
        C: T.Buffer((8,), "float32")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            for u in T.thread_binding(8, thread="threadIdx.x"):
                C[u] = A[u]
    after:
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            C[t] = A[t]
    """
    if not contains(func.body, Instruction) and not any(n.kind == ForKind.THREAD for n in find(func.body, For)):
        return func
    # Legal: loops over one axis run on the same threads, so the inner loop's variable equals the outer loop's. A store
    # that does not depend on the thread writes the same value from each thread; one thread writes it, and a barrier
    # comes before its readers.
    body = _with_own_parts(_virtual_inside(_bound_once(threads_outside(func.body), {})))
    guards = dict(_guards(body, ()))
    return func.with_body(_by_one_lane(_guarded(body, guards) if guards else body, None))


def _is_of_threads(node: Any) -> bool:
    return isinstance(node, Instruction) or (isinstance(node, For) and node.kind == ForKind.THREAD)


def _bound_once(node: Any, bound: dict[str, For]) -> Any:
    if not isinstance(node, Stmt):
        return node
    if isinstance(node, For) and is_hardware_thread(node):
        axis = str(node.thread)
        if axis in bound:
            thread = bound[axis].var.astype(node.var.dtype)
            inner = _bound_once(bind(node.body, {node.var: thread}), bound)
            fewer = not structural_equal(node.extent, bound[axis].extent)
            return If(thread < node.start + node.extent, inner) if fewer else inner
        bound = {**bound, axis: node}
    return map_children(node, lambda child: _bound_once(child, bound))


def _virtual_inside(node: Any) -> Any:
    if not isinstance(node, Stmt):
        return node
    new = map_children(node, _virtual_inside)
    if isinstance(new, For) and is_virtual(new):
        inner = new.body
        if isinstance(inner, For) and is_hardware_thread(inner) and not uses(inner.extent, [new.var]):
            return replace(inner, body=_virtual_inside(replace(new, body=inner.body)))
    return new


def _with_own_parts(node: Any) -> Any:
    """Give each virtual thread a separate part of local storage that is used per virtual thread, wherever it is
    allocated.
    """
    if not isinstance(node, Stmt):
        return node
    new = map_children(node, _with_own_parts)
    if not isinstance(new, Allocate):
        return new
    virtual = [n for n in find(new.body, For) if is_virtual(n) and owns(n, new.buffer.scope)]
    every = accesses_of(new.body, new.buffer)
    for loop in [l for l in virtual if accesses_of(l, new.buffer) == every]:
        wide = widened(loop, new.buffer)
        new = replace(new, buffer=wide, body=in_own_part(new.body, new.buffer, wide, loop))
    return new


def _guards(node: Any, threads: tuple[For, ...]) -> Any:
    """Yield (store, condition) for each store to shared storage that is the same for all threads of a loop around
    it.
    """
    if not isinstance(node, Stmt) or (isinstance(node, Instruction) and node.together > 1):
        return
    if isinstance(node, BufferStore) and is_shared(node.buffer.scope):
        alone = [l for l in threads if not is_const(l.extent, 1) and not depends(l, node)]
        if alone:
            yield node, all_of([EQ(l.var, l.start) for l in alone])
    inner = (*threads, node) if isinstance(node, For) and is_thread(node) else threads
    for child in children(node):
        yield from _guards(child, inner)


def _by_one_lane(node: Any, lanes: For | None) -> Any:
    """Let the first thread of a warp do work that is done once for all, while all threads reach the instruction.

    Raises `Unsupported` if the block does not have exactly the number of threads that the instruction needs along the
    axis.
    """
    if not isinstance(node, Stmt):
        return node
    if isinstance(node, For) and node.thread == LANES:
        lanes = node
    if isinstance(node, Instruction) and node.together > 1:
        found = "no such loop" if lanes is None else f"{lanes.extent} threads"
        if lanes is None or not is_const(lanes.extent, node.together):
            raise Unsupported(
                f"{node.name} is run by {node.together} threads together\n"
                f"  wanted: a loop of {node.together} over {LANES} in the kernel\n  found:  {found}"
            )
        return replace(node, body=If(EQ(lanes.var, lanes.start), node.body))
    return map_children(node, lambda child: _by_one_lane(child, lanes))


def _guarded(node: Any, guards: dict[Stmt, Expr]) -> Any:
    if not isinstance(node, Stmt):
        return node
    if node in guards:
        return If(guards[node], node)
    return map_children(node, lambda child: _guarded(child, guards))
