"""Give storage that is allocated in a concurrent loop an additional dimension, with one part for each iteration.

The storage can then be allocated outside of the loop, and no two iterations use the same elements. In a vectorised
loop, the new dimension is the last one, so that the lanes of an element are neighbours. If the storage fits on the
stack of a thread, `place_allocations` moves it back into the loop, and `compact_buffers` removes the dimension again.

Storage in the scopes "shared", "local" and "warp" belongs to each block or thread of a grid, wherever it is allocated.
In the same way, "local" storage belongs to each iteration of a parallel loop, unless its indices divide it among the
iterations. Such storage is therefore first moved into the innermost loop of its owners, where it shrinks to the part
that one owner uses. Otherwise, a buffer that does not fit into a block's storage, or has an unknown size, would become
one workspace shared by all blocks.
"""

from __future__ import annotations

from typing import Any

from ...expr import Let, Node, Var, children, map_children, replace, rewrite, walk
from ...expr.visitor import accessed
from .. import nodes as tir
from ..analysis.threads import is_shared, is_thread, owns
from ..conditions import iterations, reads_memory, uses
from ..strides import strides_of_parts
from .affine import Ranges, with_loop
from .compact_buffers import shrunk


def separate_allocations(func: tir.PrimFunc) -> tir.PrimFunc:
    """Move allocations out of parallel, vectorised and thread loops, with a separate part for each iteration.

    before:
        for i in T.parallel(4):
            S = T.decl_buffer((8,))
            for j in range(8):
                S[j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[j] + S[7 - j]
    after, simplified:
        S = T.decl_buffer((4, 8))
        for i in T.parallel(4):
            for j in range(8):
                S[i, j] = A[i, j] * 2.0
            for j in range(8):
                B[i, j] = S[i, j] + S[i, 7 - j]
    """
    return func.with_body(_visit(_into_owners(func.body, {}), frozenset()))


def _into_owners(stmt: Any, ranges: Ranges) -> Any:
    """Move allocations into the innermost loop that owns them and contains all of their accesses."""
    if not isinstance(stmt, tir.Stmt):
        return stmt
    inner = with_loop(stmt, ranges) if isinstance(stmt, tir.For) else ranges
    new = map_children(stmt, lambda child: _into_owners(child, inner))
    if not isinstance(new, tir.Allocate):
        return new
    return _moved_in(new.body, new, ranges) or new


def _moved_in(stmt: tir.Stmt, allocation: tir.Allocate, ranges: Ranges) -> tir.Stmt | None:
    """Return a statement in which an allocation is moved into the loop that owns it; None if no loop does. The
    statement must contain all uses of the allocation.
    """
    if isinstance(stmt, tir.Seq):
        using = [k for k, part in enumerate(stmt.stmts) if _uses(part, allocation.buffer)]
        inside = _moved_in(stmt.stmts[using[0]], allocation, ranges) if len(using) == 1 else None
        return (
            None if inside is None else tir.Seq(tuple(inside if k == using[0] else s for k, s in enumerate(stmt.stmts)))
        )
    parts = [child for child in children(stmt) if _uses(child, allocation.buffer)]
    if len(parts) != 1 or not isinstance(parts[0], tir.Stmt):
        return None
    inner = with_loop(stmt, ranges) if isinstance(stmt, tir.For) else ranges
    inside = _moved_in(parts[0], allocation, inner)
    if inside is None and isinstance(stmt, tir.For) and _has_its_own(stmt, allocation.buffer):
        inside = shrunk(replace(allocation, body=parts[0]), inner)
    return None if inside is None else map_children(stmt, lambda child: inside if child is parts[0] else child)


def _has_its_own(loop: tir.For, buffer: tir.Buffer) -> bool:
    """Return whether each iteration of a loop has its own copy of a buffer that is used only inside the loop."""
    of_the_iteration = not buffer.scope.startswith(("global", "shared", "warp"))
    if owns(loop, buffer.scope):
        return True
    return loop.kind is tir.ForKind.PARALLEL and of_the_iteration and not _is_divided(loop, buffer)


def _is_divided(loop: tir.For, buffer: tir.Buffer) -> bool:
    """Return whether all accesses to a buffer depend on the loop, so that each iteration already has its own part."""
    varying, accesses = {loop.var}, []
    for node in walk(loop.body):
        if isinstance(node, tir.LetStmt | Let) and uses(node.value, varying):
            varying.add(node.var)
        elif isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is buffer:
            accesses.append(node)
    return all(any(uses(index, varying) for index in node.indices) for node in accesses)


def _uses(node: Node, buffer: tir.Buffer) -> bool:
    return buffer in accessed(node)


def _visit(node: Any, named: frozenset[Var]) -> Any:
    """Move the allocations in a statement out of concurrent loops. `named` are the variables of the loops and lets
    around the statement.
    """
    if not isinstance(node, tir.Stmt):
        return node
    inner = named | {node.var} if isinstance(node, tir.For | tir.LetStmt) else named
    new = map_children(node, lambda child: _visit(child, inner))
    if not isinstance(new, tir.For) or new.kind not in tir.CONCURRENT:
        return new
    inside: list[tir.Allocate] = []
    body = _without(new.body, inside)
    if inside and new.thread is None and (uses(new.extent, named) or reads_memory(new.extent)):
        return replace(new, kind=tir.ForKind.SERIAL)  # the number of parts is not known outside of all loops
    # Legal: an iteration's allocation belongs to it and has no values at first, so no value passes between iterations.
    # With a dimension for the loop, only iteration i touches part i, in whatever order the iterations run.
    loop: tir.Stmt = replace(new, body=body)
    for allocation in inside:
        if is_shared(allocation.buffer.scope) and is_thread(new):
            loop = tir.Allocate(allocation.buffer, loop, allocation.annotations)  # the allocation belongs to the block
            continue
        if new.kind is tir.ForKind.VECTORIZED and not allocation.buffer.strides and not allocation.annotations:
            wide = interleaved(new, allocation.buffer)
            loop = tir.Allocate(wide, in_own_lane(loop, allocation.buffer, wide, new))
            continue
        wide = widened(new, allocation.buffer)
        loop = tir.Allocate(wide, in_own_part(loop, allocation.buffer, wide, new), aligned_behind(allocation))
    return loop


def _without(stmt: Any, taken: list[tir.Allocate]) -> Any:
    if not isinstance(stmt, tir.Stmt):
        return stmt
    if isinstance(stmt, tir.Allocate):
        taken.append(stmt)
        return _without(stmt.body, taken)
    return map_children(stmt, lambda child: _without(child, taken))


def aligned_behind(allocation: tir.Allocate) -> dict[str, Any]:
    """Return the annotations of an allocation, with axes renumbered for a buffer that has an additional first
    dimension.
    """
    from ..annotations import ALIGNMENTS

    notes = dict(allocation.annotations)
    if ALIGNMENTS in notes:
        notes[ALIGNMENTS] = [(axis + 1, factor, offset) for axis, factor, offset in notes[ALIGNMENTS]]
    return notes


def widened(loop: tir.For, buffer: tir.Buffer) -> tir.Buffer:
    """Return a buffer with a separate part for each iteration of a loop: it has an additional first dimension."""
    dtype = buffer.shape[0].dtype if buffer.shape else loop.extent.dtype
    strides = strides_of_parts(buffer.shape, buffer.strides)
    return replace(buffer, shape=(iterations(loop.extent).astype(dtype), *buffer.shape), strides=strides)


def interleaved(loop: tir.For, buffer: tir.Buffer) -> tir.Buffer:
    """Return a buffer with a separate element for each lane of a loop. The additional dimension is the last one, so
    that lanes are neighbours.
    """
    dtype = buffer.shape[0].dtype if buffer.shape else loop.extent.dtype
    return replace(buffer, shape=(*buffer.shape, iterations(loop.extent).astype(dtype)))


def in_own_lane(stmt: tir.Stmt, old: tir.Buffer, wide: tir.Buffer, loop: tir.For) -> tir.Stmt:
    """Rewrite a statement inside a loop so that it uses the elements of its own lane."""

    def change(node: Node) -> Node | None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is old:
            index = (loop.var - loop.start).astype(wide.shape[-1].dtype)
            return replace(node, buffer=wide, indices=(*node.indices, index))
        return None

    changed: tir.Stmt = rewrite(stmt, change)
    return changed


def in_own_part(stmt: tir.Stmt, old: tir.Buffer, wide: tir.Buffer, loop: tir.For) -> tir.Stmt:
    """Rewrite a statement inside a loop so that it uses the part of its own iteration."""

    def change(node: Node) -> Node | None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is old:
            index = (loop.var - loop.start).astype(wide.shape[0].dtype)
            return replace(node, buffer=wide, indices=(index, *node.indices))
        return None

    changed: tir.Stmt = rewrite(stmt, change)
    return changed
