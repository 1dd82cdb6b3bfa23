"""Find the views that blocks match on parts of a buffer, and move them to another buffer."""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import Node, replace, rewrite
from ..analysis.tree import statements
from ..nodes import Block, Buffer, BufferData, BufferLoad, BufferRegion, BufferStore, Stmt


def views_on(stmt: Stmt, buffer: Buffer) -> list[Buffer]:
    """Return the buffers that blocks inside a statement match on a buffer, or on a view of it."""
    family = [buffer]
    for block in statements(stmt):
        if isinstance(block, Block):
            family += [m.buffer for m in block.match_buffers if m.source.buffer in family]
    return family[1:]


def with_buffers(stmt: Stmt, moved: Mapping[Buffer, Buffer]) -> Stmt:
    """Replace buffers with other buffers of the same shape and dtype, wherever they are used or defined."""

    def change(at: Node) -> Node | None:
        if isinstance(at, BufferLoad | BufferStore | BufferRegion | BufferData) and at.buffer in moved:
            return replace(at, buffer=moved[at.buffer])
        if isinstance(at, Block):
            allocated = tuple(moved.get(b, b) for b in at.alloc_buffers)
            matched = tuple(replace(m, buffer=moved.get(m.buffer, m.buffer)) for m in at.match_buffers)
            return replace(at, alloc_buffers=allocated, match_buffers=matched)
        return None

    changed: Stmt = rewrite(stmt, change)
    return changed
