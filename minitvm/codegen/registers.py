"""Which local buffers can live in variables: those whose every access is the same few constant slots.

A slot is a start and a number of lanes. Two slots of one buffer must be the same or disjoint, so that each becomes one
variable: a scalar, or a SIMD vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Expr, IntImm, Ramp, walk
from ..tir.nodes import Buffer, BufferLoad, BufferStore, Stmt

MAX_REGISTERS = 256


@dataclass(frozen=True, slots=True)
class Register:
    """The elements `[start, start + lanes)` of a local buffer."""

    start: int
    lanes: int


def slot(index: Expr) -> Register | None:
    """The slot that a constant index names; None for any other index."""
    if isinstance(index, IntImm):
        return Register(index.value, 1)
    if isinstance(index, Ramp) and isinstance(index.base, IntImm) and isinstance(index.stride, IntImm):
        return Register(index.base.value, index.lanes) if index.stride.value == 1 else None
    return None


def registers_of(buffer: Buffer, body: Stmt) -> list[Register] | None:
    """The slots of a buffer in order of first use, or None when it needs memory."""
    found: dict[Register, None] = {}
    for node in walk(body):
        if not isinstance(node, BufferLoad | BufferStore) or node.buffer is not buffer:
            continue
        at = slot(node.indices[0]) if len(node.indices) == 1 else None
        if at is None or node.predicate is not None:
            return None
        found.setdefault(at)
    if len(found) > MAX_REGISTERS or not _disjoint(list(found)):
        return None
    return list(found)


def _disjoint(slots: list[Register]) -> bool:
    ordered = sorted(slots, key=lambda r: r.start)
    return all(a.start + a.lanes <= b.start for a, b in zip(ordered, ordered[1:]))
