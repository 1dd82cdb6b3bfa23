"""Vectors wider than a language has, in pieces: stores of one value, and reductions of what is loaded.

    S[ramp(0, 1, 64)] = broadcast(0, 64)    ->    S[ramp(0, 1, 16)] = broadcast(0, 16), and three more
    vector_reduce_add(S[ramp(0, 1, 64)])    ->    vector_reduce_add(S[ramp(0, 1, 16)] + ... + S[ramp(48, 1, 16)])

That is what accumulators in several vectors are filled with, and end in (`tir.transform.vector_reductions`); loops in
vectors are as wide as the target's from the start.
"""

from __future__ import annotations

from typing import Any

from ..expr import Broadcast, Call, Node, Ramp, const, replace, rewrite
from ..expr.conditions import is_const
from ..tir.nodes import BufferLoad, BufferStore, Seq, Stmt
from ..tir.transform.vector_reductions import REDUCTIONS

_COMBINED: dict[str, Any] = {intrinsic: kind for kind, intrinsic in REDUCTIONS.items()}


def in_pieces(body: Stmt, widest: int) -> Stmt:
    """A statement in which such vectors have at most so many lanes."""

    def change(node: Node) -> Node | None:
        if isinstance(node, BufferStore) and isinstance(node.value, Broadcast):
            parts, filled = _pieces(node, widest), Broadcast(node.value.value, widest)
            return Seq(tuple(replace(node, indices=(part,), value=filled) for part in parts)) if parts else None
        if isinstance(node, Call) and node.op in _COMBINED and isinstance(node.args[0], BufferLoad):
            load = node.args[0]
            first, *others = [replace(load, indices=(part,)) for part in _pieces(load, widest)] or [load]
            for other in others:
                first = _COMBINED[node.op](first, other)
            return replace(node, args=(first,)) if others else None
        return None

    changed: Stmt = rewrite(body, change)
    return changed


def _pieces(access: BufferLoad | BufferStore, widest: int) -> list[Ramp]:
    """The places of an access in vectors of `widest` lanes; none where it is no wider, or not of neighbours."""
    place = access.indices[0]
    if not isinstance(place, Ramp) or not is_const(place.stride, 1) or access.predicate is not None:
        return []
    if place.lanes <= widest or place.lanes % widest:
        return []
    return [Ramp(place.base + const(k, place.base.dtype), place.stride, widest) for k in range(0, place.lanes, widest)]
