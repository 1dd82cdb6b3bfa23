"""What a kernel's body does with the buffers that it is called with: read, written first, or read and then written.

All of it is read off the effects of the body.
"""

from __future__ import annotations

from ...expr import IntImm, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, Stmt
from .effects import effects, exposes
from .touches import Box


def buffer_access(body: Stmt) -> dict[Buffer, str]:
    """How each buffer from outside is used: "r" read only, "w" written first, "rw" read, then written.

    "w" is a promise: whatever the buffer held before, the statement does the same.
    """
    stores, loads = _stored_and_loaded(body)
    modes = {b: "rw" if exposes(body, b) else "w" for b in stores & loads}
    return {**dict.fromkeys(loads - stores, "r"), **dict.fromkeys(stores - loads, "w"), **modes}


def _stored_and_loaded(body: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers from outside of a statement that it stores to, and those that it loads from."""
    stored, loaded, own = set(), set(), set()
    for item in walk(body):
        if isinstance(item, BufferStore):
            stored.add(item.buffer)
        elif isinstance(item, BufferLoad):
            loaded.add(item.buffer)
        elif isinstance(item, Allocate):
            own.add(item.buffer)
    return stored - own, loaded - own


def elements_written(body: Stmt) -> dict[Buffer, int | None]:
    """An upper bound of the elements of each buffer that a statement stores to; None where there is none."""
    stored = frozenset(_stored_and_loaded(body)[0])
    totals: dict[Buffer, int | None] = {}
    for touch in effects(body, stored).writes:
        before, count = totals.get(touch.buffer, 0), touch.elements_at_most()
        totals[touch.buffer] = None if before is None or count is None else before + count
    return totals


def elements_surely_read(body: Stmt, buffer: Buffer) -> int:
    """A lower bound of the elements of a buffer that a run of a statement reads."""
    return max((_inside(t.least, buffer) for t in effects(body, frozenset([buffer])).reads if t.least), default=0)


def _inside(box: Box, buffer: Buffer) -> int:
    """The elements of a box that lie in the buffer; 0 where that is not a number."""
    count = 1
    for r, dim in zip(box, buffer.shape, strict=True):
        if not (isinstance(r.start, IntImm) and isinstance(r.extent, IntImm) and isinstance(dim, IntImm)):
            return 0
        count *= max(min(r.start.value + r.extent.value, dim.value) - max(r.start.value, 0), 0)
    return count
