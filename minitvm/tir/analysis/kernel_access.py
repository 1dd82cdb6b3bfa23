"""How a kernel uses its buffers: it only reads them, writes them first, or reads and then writes them.

The result is computed from the effects of the body, or only from its stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...expr import IntImm, find
from ...expr.visitor import handed_out
from ..conditions import reads_memory
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, If, LetStmt, Seq, Stmt
from .effects import effects, exposes
from .touches import Box, Touch, of_element

_ANY = 1 << 63  # elements, if there is no bound


def buffer_access(body: Stmt) -> dict[Buffer, str]:
    """Return how a statement uses each outside buffer: "r" (only read), "w" (written first) or "rw" (read, then
    written).

    "w" means that the statement's effect does not depend on the old contents of the buffer.
    """
    stores, loads = _stored_and_loaded(body)
    modes = {b: "rw" if exposes(body, b) else "w" for b in stores & loads}
    return {**dict.fromkeys(loads - stores, "r"), **dict.fromkeys(stores - loads, "w"), **modes}


def _stored_and_loaded(body: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    """Return the outside buffers that a statement stores to, and those that it loads from."""
    stored, loaded, own = set(), set(), set()
    for item in find(body, BufferStore | BufferLoad | Allocate):
        if isinstance(item, BufferStore):
            stored.add(item.buffer)
        elif isinstance(item, BufferLoad):
            loaded.add(item.buffer)
        elif isinstance(item, Allocate):
            own.add(item.buffer)
    return stored - own, loaded - own


def elements_written(body: Stmt) -> dict[Buffer, int | None]:
    """Return, for each buffer, an upper bound on the number of elements that a statement stores; None if there is no
    known bound.
    """
    totals: dict[Buffer, int | None] = {}
    for touch in _stores(body):
        before, count = totals.get(touch.buffer, 0), touch.elements_at_most()
        totals[touch.buffer] = None if before is None or count is None else before + count
    return totals


def _stores(stmt: Stmt) -> Iterator[Touch]:
    """Yield the possible stores of a statement to outside buffers: the writes among its effects, without their
    conditions.
    """
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _stores(part)
    elif isinstance(stmt, For):
        yield from (touch.inside(stmt) for touch in _stores(stmt.body))
    elif isinstance(stmt, If):
        for case in (stmt.then_case, stmt.else_case):
            inner = _stores(case) if case is not None else ()
            yield from (map(Touch.perhaps, inner) if reads_memory(stmt.condition) else inner)
    elif isinstance(stmt, LetStmt):
        yield from (touch.at({stmt.var: stmt.value}) for touch in _stores(stmt.body))
    elif isinstance(stmt, Allocate):
        yield from (touch for touch in _stores(stmt.body) if touch.buffer is not stmt.buffer)
    elif isinstance(stmt, BufferStore) and not handed_out(stmt):
        yield of_element(stmt)
    else:
        yield from effects(stmt).writes


def elements_surely_read(body: Stmt) -> dict[Buffer, int]:
    """Return, for each buffer of known size, a lower bound on the number of elements that one run of a
    statement reads.
    """
    _, loaded = _stored_and_loaded(body)
    known = frozenset(filter(_is_known, loaded))
    touches: dict[Buffer, list[Touch]] = {}
    for touch in effects(body, known).reads:
        touches.setdefault(touch.buffer, []).append(touch)
    return {buffer: _most_surely_read(those) for buffer, those in touches.items()}


def _is_known(buffer: Buffer) -> bool:
    return all(isinstance(dim, IntImm) for dim in buffer.shape)


def _most_surely_read(touches: Iterable[Touch]) -> int:
    """Return the largest number of elements that any one of these reads certainly reads.

    The reads with the largest upper bounds are tested first.
    """
    bounded = [(count if (count := touch.elements_at_most()) is not None else _ANY, touch) for touch in touches]
    best = 0
    for count, touch in sorted(bounded, key=lambda pair: -pair[0]):
        if count <= best:
            break
        if touch.least:
            best = max(best, _inside(touch.least, touch.buffer))
    return best


def _inside(box: Box, buffer: Buffer) -> int:
    """Return the number of elements of a box that are inside the buffer; 0 if the number is not constant."""
    count = 1
    for r, dim in zip(box, buffer.shape, strict=True):
        if not (isinstance(r.start, IntImm) and isinstance(r.extent, IntImm) and isinstance(dim, IntImm)):
            return 0
        count *= max(min(r.start.value + r.extent.value, dim.value) - max(r.start.value, 0), 0)
    return count
