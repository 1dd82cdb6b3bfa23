"""Storage that each iteration of a concurrent loop allocates gets a dimension of its own for that loop.

    for i in parallel(4):
        S = alloc(8)
        ... S[j] ...

becomes

    S = alloc(4, 8)
    for i in parallel(4):
        ... S[i, j] ...

so that it may be placed outside of the loop without the iterations meeting in it. Where it fits the stack of a thread,
`place_allocations` moves it back in, and `compact_buffers` takes the dimension away again.
"""

from __future__ import annotations

from typing import Any

from ...expr import Node, Var, map_children, replace, rewrite
from ..analysis.threads import is_shared, is_thread
from ..conditions import reads_memory, uses
from ..nodes import (
    CONCURRENT,
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    PrimFunc,
    Stmt,
)


def separate_allocations(func: PrimFunc) -> PrimFunc:
    """Allocations inside parallel, vectorised and thread loops move outside, one part an iteration."""
    return func.with_body(_visit(func.body, frozenset()))


def _visit(node: Any, named: frozenset[Var]) -> Any:
    """`named`: the variables of loops and lets around."""
    if not isinstance(node, Stmt):
        return node
    inner = named | {node.var} if isinstance(node, For | LetStmt) else named
    new = map_children(node, lambda child: _visit(child, inner))
    if not isinstance(new, For) or new.kind not in CONCURRENT:
        return new
    inside: list[Allocate] = []
    body = _without(new.body, inside)
    if inside and new.thread is None and (uses(new.extent, named) or reads_memory(new.extent)):
        return replace(new, kind=ForKind.SERIAL)  # how many parts there are is not known outside of all loops
    loop: Stmt = replace(new, body=body)
    for allocation in inside:
        if is_shared(allocation.buffer.scope) and is_thread(new):
            loop = Allocate(allocation.buffer, loop, allocation.annotations)  # it is the block's
            continue
        wide = widened(new, allocation.buffer)
        loop = Allocate(wide, in_own_part(loop, allocation.buffer, wide, new), aligned_behind(allocation))
    return loop


def _without(stmt: Any, taken: list[Allocate]) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, Allocate):
        taken.append(stmt)
        return _without(stmt.body, taken)
    return map_children(stmt, lambda child: _without(child, taken))


def aligned_behind(allocation: Allocate) -> dict[str, Any]:
    """The annotations, with axes counted on the buffer that has one more in front."""
    from ..annotations import ALIGNMENTS

    notes = dict(allocation.annotations)
    if ALIGNMENTS in notes:
        notes[ALIGNMENTS] = [(axis + 1, factor, offset) for axis, factor, offset in notes[ALIGNMENTS]]
    return notes


def widened(loop: For, buffer: Buffer) -> Buffer:
    """A buffer with a part for each iteration of a loop."""
    dtype = buffer.shape[0].dtype if buffer.shape else loop.extent.dtype
    strides = (buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else ()
    return replace(buffer, shape=(loop.extent.astype(dtype), *buffer.shape), strides=strides)


def in_own_part(stmt: Stmt, old: Buffer, wide: Buffer, loop: For) -> Stmt:
    """A statement inside a loop, on the part that belongs to its iteration."""

    def change(node: Node) -> Node | None:
        if isinstance(node, BufferLoad | BufferStore) and node.buffer is old:
            index = (loop.var - loop.start).astype(wide.shape[0].dtype)
            return replace(node, buffer=wide, indices=(index, *node.indices))
        return None

    changed: Stmt = rewrite(stmt, change)
    return changed
