"""Find the local buffers that can be kept in variables: each access uses one of a few constant slots.

A slot is a start and a number of lanes. Two slots of one buffer must be the same or disjoint, so that each becomes one
variable: a scalar, or a SIMD vector. Code generation uses this analysis, and so do the statistics of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ...expr import Expr, IntImm, Node, Ramp, find
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, LetStmt, PrimFunc, Seq, Stmt, Tile

MAX_REGISTERS = 256


@dataclass(frozen=True, slots=True)
class Register:
    """One slot of a local buffer: the elements `[start, start + lanes)`."""

    start: int
    lanes: int


def slot(index: Expr) -> Register | None:
    """Return the slot that a constant index refers to; None for any other index."""
    if isinstance(index, IntImm):
        return Register(index.value, 1)
    if isinstance(index, Ramp) and isinstance(index.base, IntImm) and isinstance(index.stride, IntImm):
        return Register(index.base.value, index.lanes) if index.stride.value == 1 else None
    return None


def registers_of(buffer: Buffer, body: Stmt) -> list[Register] | None:
    """Return the slots of a buffer in order of first use; None if the buffer must be in memory, for example because of
    a masked store.
    """
    slots: dict[Register, None] = {}
    for node in find(body, Tile | BufferLoad | BufferStore):
        if isinstance(node, Tile) and node.buffer is buffer:  # an instruction takes its address
            return None
        if not isinstance(node, BufferLoad | BufferStore) or node.buffer is not buffer:
            continue
        at = slot(node.indices[0]) if len(node.indices) == 1 else None
        if at is None or (node.predicate is not None and (isinstance(node, BufferStore) or at.lanes == 1)):
            return None
        slots.setdefault(at)
    if len(slots) > MAX_REGISTERS or not _disjoint(list(slots)):
        return None
    return list(slots)


def in_registers(kernel: PrimFunc) -> frozenset[Buffer]:
    """Return the allocated buffers of a kernel that do not need memory."""
    nests = list(find(kernel.body, Allocate))
    in_memory = {stmt.buffer for stmt in nests if registers_of(stmt.buffer, stmt.body) is None}
    return frozenset(stmt.buffer for stmt in nests) - in_memory


def _disjoint(slots: list[Register]) -> bool:
    ordered = sorted(slots, key=lambda r: r.start)
    return all(a.start + a.lanes <= b.start for a, b in pairwise(ordered))


def stored_first(buffer: Buffer, register: Register, body: Stmt) -> bool:
    """Return whether the first access to a slot is a store on every path, so that the slot needs no initial value."""
    if isinstance(body, Seq):
        for stmt in body.stmts:
            if stored_first(buffer, register, stmt):
                return True
            if _accesses(buffer, register, stmt):
                return False
        return False
    if isinstance(body, Allocate):
        return stored_first(buffer, register, body.body)
    if isinstance(body, LetStmt):
        return not _accesses(buffer, register, body.value) and stored_first(buffer, register, body.body)
    stores = isinstance(body, BufferStore) and body.buffer is buffer and slot(body.indices[0]) == register
    return stores and not _accesses(buffer, register, body.value)  # type: ignore[attr-defined]


def _accesses(buffer: Buffer, register: Register, node: Node) -> bool:
    return any(n.buffer is buffer and slot(n.indices[0]) == register for n in find(node, BufferLoad | BufferStore))
