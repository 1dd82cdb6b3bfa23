"""Remove the masks of accumulators: local buffers whose accesses all have constant slots. They then fit in registers.

All accesses of a slot have the same mask, so masked-out lanes are never read and may hold any value. Slots that overlap
only in such lanes are placed one after the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ....expr import Node, Ramp, Var, const, contains, find, map_children, replace, rewrite_statements
from ....expr.visitor import accessed
from ....tir.analysis.registers import Register, slot
from ....tir.conditions import uses
from ....tir.nodes import Allocate, Buffer, BufferLoad, For, LetStmt, PrimFunc, Stmt
from ....tir.transform.affine import structural_key
from ....tir.transform.promote_accumulators import Access, active_lanes


def unmask_registers(func: PrimFunc) -> PrimFunc:
    """Remove the masks from accesses to accumulators. Runs after `unroll`, when slots are constants.

    before:
        n: T.int32
        A: T.Buffer((4,), "float32")
        B: T.Buffer((4,), "float32")
        S = T.decl_buffer((4,), scope="local")
        S.vstore([T.Ramp(0, 1, 4)], A[T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))
        B.vstore(
            [T.Ramp(0, 1, 4)],
            S.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4)),
            predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4)
        )
    after:
        S = T.decl_buffer((4,), scope="local")
        S[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 1, 4)]
        B.vstore([T.Ramp(0, 1, 4)], S[T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))
    """
    # Legal: a masked-out lane is only read under the same mask, so its value is never seen.
    return func.with_body(rewrite_statements(func.body, _unmasked))


def _unmasked(node: Node) -> Stmt | None:
    if not isinstance(node, Allocate) or node.buffer.scope != "local":
        return None
    accesses = [n for n in find(node.body, Access) if n.buffer is node.buffer]
    starts = None if all(a.predicate is None for a in accesses) else _layout(accesses, node.body)
    if starts is None:
        return None
    size = sum(register.lanes for register in starts)
    whole = Buffer(node.buffer.name, (const(size),), node.buffer.dtype, "local")

    def go(item: Any) -> Any:
        if node.buffer not in accessed(item):
            return item
        new = map_children(item, go)
        if not isinstance(new, Access) or new.buffer is not node.buffer:
            return new
        register = slot(new.indices[0])
        assert register is not None
        start = const(starts[register])
        index = start if register.lanes == 1 else Ramp(start, const(1), register.lanes)
        return replace(new, buffer=whole, indices=(index,), predicate=None)

    return Allocate(whole, go(node.body))


def _layout(accesses: list[Access], body: Stmt) -> dict[Register, int] | None:
    """Return the new place of each slot, or None if accesses are not slots, have several masks, or share lanes that are
    in use.
    """
    inside: set[Var] = {n.var for n in find(body, For | LetStmt)}
    masks: dict[Register, Any] = {}
    active: dict[Register, int] = {}
    for access in accesses:
        register = slot(access.indices[0]) if len(access.indices) == 1 else None
        mask = access.predicate
        if register is None or (mask is not None and (uses(mask, inside) or register.lanes == 1)):
            return None
        if mask is not None and contains(mask, BufferLoad):
            return None
        if masks.setdefault(register, structural_key(mask)) != structural_key(mask):
            return None
        active[register] = active_lanes(access)
    ordered = sorted(active, key=lambda register: register.start)
    if any(a.start + active[a] > b.start for a, b in pairwise(ordered)):
        return None
    starts, end = {}, 0
    for register in ordered:
        starts[register] = end
        end += register.lanes
    return starts
