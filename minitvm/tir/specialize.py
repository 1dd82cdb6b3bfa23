"""`specialize`: a loop program in which some of its sizes and scalars have been replaced with other expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..expr import Expr, Node, Var, find, replace, rewrite, substitute
from .nodes import Block, Buffer, BufferData, BufferLoad, BufferRegion, BufferStore, PrimFunc


def specialize(func: PrimFunc, values: Mapping[Var, Expr], shapes: Mapping[Buffer, Any]) -> PrimFunc:
    """Return `func` with variables replaced by expressions of the same dtypes. Scalar parameters among them are
    removed.

    `shapes` maps each parameter to its new shape, whose dimensions are equal to the old ones at these values. They may
    be written differently, for example in another integer dtype.
    """
    moved: dict[Buffer, Buffer] = {buffer: replace(buffer, shape=shape) for buffer, shape in shapes.items()}
    for block in find(func.body, Block):
        for buffer in (*block.alloc_buffers, *(match.buffer for match in block.match_buffers)):
            moved[buffer] = substitute(buffer, values)

    def change(at: Node) -> Node | None:
        if isinstance(at, BufferLoad | BufferStore | BufferRegion | BufferData):
            return None if moved[at.buffer] is at.buffer else replace(at, buffer=moved[at.buffer])
        if isinstance(at, Block) and (at.alloc_buffers or at.match_buffers):
            matched = tuple(replace(match, buffer=moved[match.buffer]) for match in at.match_buffers)
            return replace(at, alloc_buffers=tuple(moved[b] for b in at.alloc_buffers), match_buffers=matched)
        return None

    params = tuple(moved[p] if isinstance(p, Buffer) else p for p in func.params if p not in values)
    return PrimFunc(params, rewrite(substitute(func.body, values), change), func.attrs)
