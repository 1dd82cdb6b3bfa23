"""A reduction block read as the update of a reducer: what it accumulates, where, and from what."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import Expr, Var, structural_equal, substitute
from ..analysis.accesses import reads_buffer
from ..analysis.reducers import Match, recognise
from ..nodes import Block, Buffer, BufferLoad, BufferStore, LetStmt, Seq, Stmt


@dataclass(frozen=True, slots=True)
class Update:
    """What a reduction block accumulates: `values` (in terms of loads of `buffers` at `indices`) and their start."""

    buffers: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    init: tuple[Expr, ...]


def _read_update(block: Block) -> Update | str:
    """The update of a block, or why it has another form."""
    if block.match_buffers or block.alloc_buffers or block.init is None:
        return "it has buffers of its own" if block.init is not None else "it has no init"
    starts = _stores(block.init)
    body: Stmt = block.body
    values: dict[Var, Expr] = {}
    while isinstance(body, LetStmt):
        values[body.var] = substitute(body.value, values)
        body = body.body
    stores = _stores(body)
    if stores is None or starts is None:
        return "its init and its body are not stores alone"
    buffers = tuple(s.buffer for s in stores)
    begin = {s.buffer: s for s in starts}
    if len(begin) != len(starts) or begin.keys() != set(buffers) or len(buffers) != len(begin):
        return "its init and its body do not each store to every buffer once"
    indices = stores[0].indices
    for store in (*stores, *starts):
        same = len(store.indices) == len(indices) and all(
            _same(a, b) for a, b in zip(store.indices, indices, strict=True)
        )
        if not same or store.predicate is not None:
            return f"{store.buffer.name} is not stored at one point alone"
    for k, store in enumerate(stores):
        if any(reads_buffer(store.value, buffer) for buffer in buffers[:k]):
            return f"{store.buffer.name} is computed from what was just stored"
    results = tuple(substitute(s.value, values) for s in stores)
    return Update(buffers, indices, results, tuple(begin[b].value for b in buffers))


def _same(a: Expr, b: Expr) -> bool:
    return a is b or structural_equal(a, b)


def _stores(stmt: Stmt) -> list[BufferStore] | None:
    stores: list[BufferStore] = []
    for part in stmt.stmts if isinstance(stmt, Seq) else (stmt,):
        if not isinstance(part, BufferStore):
            return None
        stores.append(part)
    return stores


def recognised(block: Block) -> tuple[Update, Match] | str:
    """The update of a reduction block and the registered reducer that it is, or why there is no such reducer."""
    update = _read_update(block)
    if isinstance(update, str):
        return f"block {block.name} is no update of a reducer: {update}"
    own = tuple(BufferLoad(b, update.indices) for b in update.buffers)
    match = recognise(own, update.values)
    shown = ", ".join(f"{b.name} = {v}" for b, v in zip(update.buffers, update.values, strict=True))
    if match is None:
        return f"no registered reducer has the form {shown}"
    if any(reads_buffer(e, b) for e in (*match.operand, *update.init) for b in update.buffers):
        return f"what is combined reads the result: {shown}"
    return update, match
