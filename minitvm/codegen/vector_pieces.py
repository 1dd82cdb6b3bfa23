"""Vectors wider than a language has, in pieces: stores of one value, and reductions of what is loaded.

    S[ramp(0, 1, 64)] = broadcast(0, 64)    ->    S[ramp(0, 1, 16)] = broadcast(0, 16), and three more
    vector_reduce_add(S[ramp(0, 1, 64)])    ->    vector_reduce_add(S[ramp(0, 1, 16)] + ... + S[ramp(48, 1, 16)])

That is what accumulators in several vectors are filled with, and end in (`tir.transform.vector_reductions`); loops in
vectors are as wide as the target's from the start.
"""

from __future__ import annotations

from typing import Any

from ..expr import Add, Broadcast, Call, Max, Min, Mul, Node, Ramp, const, replace, rewrite
from ..tir.nodes import BufferLoad, BufferStore, Seq, Stmt

_COMBINED: dict[str, Any] = {
    "vector_reduce_add": Add, "vector_reduce_mul": Mul, "vector_reduce_max": Max, "vector_reduce_min": Min
}  # fmt: skip


def in_pieces(body: Stmt, widest: int) -> Stmt:
    """A statement in which such vectors have at most so many lanes."""

    def change(node: Node) -> Node | None:
        if isinstance(node, BufferStore) and isinstance(node.value, Broadcast):
            filled = Broadcast(node.value.value, widest)
            parts = _pieces(node, widest)
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
    if not isinstance(place, Ramp) or place.lanes <= widest or place.lanes % widest or access.predicate is not None:
        return []
    if getattr(place.stride, "value", None) != 1:
        return []
    return [Ramp(place.base + const(k, place.base.dtype), place.stride, widest) for k in range(0, place.lanes, widest)]
