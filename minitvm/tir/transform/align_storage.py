"""Compute strides for buffers whose rows are aligned by a schedule (`storage_align`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...expr import Expr, IntImm, Node, const, find, map_children, replace
from ..analysis.block_regions import buffers_written
from ..annotations import ALIGNMENTS, alignments_of
from ..nodes import Allocate, Block, Buffer, BufferLoad, BufferStore, PrimFunc

Entry = tuple[int, int, int]  # axis, factor, offset


def alignments(node: Node) -> dict[Buffer, list[Entry]]:
    """Return the alignments that blocks inside a node request for the buffers that they write."""
    entries: dict[Buffer, list[Entry]] = {}
    for block in find(node, Block):
        for number, axis, factor, offset in alignments_of(block):
            entries.setdefault(buffers_written(block)[number], []).append((axis, factor, offset))
    return entries


def aligned_strides(shape: Sequence[Expr], entries: Iterable[Entry]) -> tuple[Expr, ...]:
    """Return row-major strides in which the stride of each axis with an entry is increased until it equals `offset`
    modulo `factor`.

    Returns () if no stride changes, or if a dimension is not constant.
    """
    dims = [d.value for d in shape if isinstance(d, IntImm)]
    if len(dims) != len(shape):
        return ()
    by_axis = {axis: (factor, offset) for axis, factor, offset in entries}
    strides, plain = [], []
    stride = least = 1
    for axis in range(len(dims) - 1, -1, -1):
        factor, offset = by_axis.get(axis, (1, 0))
        stride += (offset - stride) % factor
        strides.append(stride)
        plain.append(least)
        stride *= dims[axis]
        least *= dims[axis]
    return tuple(const(s) for s in reversed(strides)) if strides != plain else ()


def align_storage(func: PrimFunc) -> PrimFunc:
    """Give aligned buffers their strides: `B = alloc(8, 8)`, where the stride of dimension 0 must be 1 modulo 4, gets
    the strides (9, 1).

    before:
        S = T.decl_buffer((4, 8), annotations={"buffer_dim_align": [[0, 16, 4]]})
        for i, j in T.grid(4, 8):
            S[i, j] = A[i, j]
        for i, j in T.grid(4, 8):
            B[i, j] = S[i, 7 - j]
    after:
        S = T.decl_buffer((4, 8), strides=(20, 1))
        for i, j in T.grid(4, 8):
            S[i, j] = A[i, j]
        for i, j in T.grid(4, 8):
            B[i, j] = S[i, 7 - j]

    This pass runs after `compact_buffers`, because the strides depend on the shape that remains.
    """
    if not any(ALIGNMENTS in one.annotations for one in find(func.body, Allocate)):
        return func
    # Legal: no other code depends on the layout of an allocation. Larger strides keep elements distinct, and change no
    # index.
    padded: dict[Buffer, Buffer] = {}

    def go(node: Any) -> Any:
        if isinstance(node, Allocate) and ALIGNMENTS in node.annotations:
            strides = aligned_strides(node.buffer.shape, node.annotations[ALIGNMENTS])
            if strides:
                padded[node.buffer] = replace(node.buffer, strides=strides)
            kept = {key: value for key, value in node.annotations.items() if key != ALIGNMENTS}
            return Allocate(padded.get(node.buffer, node.buffer), go(node.body), kept)
        new = map_children(node, go)
        if isinstance(new, BufferLoad | BufferStore) and new.buffer in padded:
            return replace(new, buffer=padded[new.buffer])
        return new

    return func.with_body(go(func.body))
