"""Interpret a reduction block as the update of a reducer: what it accumulates into, and which values it combines."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import Expr, IntImm, Node, Var, const, replace, structural_equal, substitute
from ..nodes import Block, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, Seq, Stmt
from .accesses import reads_buffer
from .reducers import ReducerMatch, recognise


@dataclass(frozen=True, slots=True)
class AccumulatedElement:
    """The element of a buffer that a block accumulates into, or a row of elements if it has `loops` of its own.

    The variable of each of these loops is itself an entry of `indices`. `value` is the stored value, and `init` the
    initial value.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[For, ...]
    value: Expr
    init: Expr

    @property
    def old(self) -> BufferLoad:
        """The element before the update."""
        return BufferLoad(self.buffer, self.indices)

    @property
    def places(self) -> list[int]:
        """The positions in `indices` that do not belong to the element's own loops."""
        own = {l.var for l in self.loops}
        return [k for k, index in enumerate(self.indices) if index not in own]

    def place(self, axis: int) -> int:
        """Return the position at which to insert a new index into `indices`, so that it becomes number `axis` among the
        indices that are not variables of `loops`.
        """
        places = self.places
        return places[axis] if axis < len(places) else places[-1] + 1 if places else 0

    def around(self, stmt: Stmt) -> Stmt:
        """Wrap a statement in the loops of this element."""
        for l in reversed(self.loops):
            stmt = replace(l, body=stmt)
        return stmt


@dataclass(frozen=True, slots=True)
class Update:
    """The elements that a reduction block accumulates into.

    All of them share `indices`, which are expressions over the block's iterators.
    """

    elements: tuple[AccumulatedElement, ...]
    indices: tuple[Expr, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The accumulated buffers, in the order of the stores."""
        return tuple(e.buffer for e in self.elements)

    @property
    def init(self) -> tuple[Expr, ...]:
        """The initial value of each element."""
        return tuple(e.init for e in self.elements)


def _read_update(block: Block, without_init: bool) -> Update | str:
    """Return the update of a block, or a message that says why the block is not an update."""
    if block.match_buffers or block.alloc_buffers:
        return "it has buffers of its own"
    if block.init is None and not without_init:
        return "it has no init"
    body: Stmt = block.body
    values: dict[Var, Expr] = {}
    while isinstance(body, LetStmt):
        values[body.var] = substitute(body.value, values)
        body = body.body
    stores = _stores(body)
    starts = stores if block.init is None else _stores(block.init)
    if stores is None or starts is None:
        return "its init and its body are not stores alone"
    begin = {store.buffer: (loops, store) for loops, store in starts}
    if len(begin) != len(starts) or begin.keys() != {s.buffer for _, s in stores} or len(stores) != len(begin):
        return "its init and its body do not each store to every buffer once"
    elements: list[AccumulatedElement] = []
    for loops, store in stores:
        init = _started(store, loops, *begin[store.buffer])
        if init is not None and block.init is None:
            init = BufferLoad(store.buffer, store.indices)
        if init is None:
            return f"{store.buffer.name} is not stored at one point alone"
        if any(reads_buffer(store.value, e.buffer) for e in elements):
            return f"{store.buffer.name} is computed from what was just stored"
        elements.append(AccumulatedElement(store.buffer, store.indices, loops, substitute(store.value, values), init))
    first = _decided(elements[0])
    for e in elements:
        own = {l.var for l in e.loops}
        if len(e.places) + len(own) != len(e.indices):
            return f"{e.buffer.name} is not stored once for each iteration of the loops around it"
        if len(first) != len(_decided(e)) or not all(map(_same, first, _decided(e))):
            return f"{e.buffer.name} is not stored at one point alone"
    return Update(tuple(elements), first)


def _decided(element: AccumulatedElement) -> tuple[Expr, ...]:
    return tuple(element.indices[k] for k in element.places)


def _started(store: BufferStore, loops: tuple[For, ...], begin: tuple[For, ...], start: BufferStore) -> Expr | None:
    """Return the value that the init stores to the same elements, in terms of the loops of the body; None if the init
    does not match.
    """
    if len(loops) != len(begin) or store.predicate is not None or start.predicate is not None:
        return None
    if not all(_same(a.extent, b.extent) for a, b in zip(loops, begin, strict=True)):
        return None
    renamed: dict[Var, Expr] = {b.var: a.var for a, b in zip(loops, begin, strict=True)}
    indices = [substitute(i, renamed) for i in start.indices]
    same = len(indices) == len(store.indices) and all(map(_same, indices, store.indices))
    return substitute(start.value, renamed) if same else None


def _same(a: Node, b: Node) -> bool:
    return a is b or structural_equal(a, b)


def _stores(stmt: Stmt) -> list[tuple[tuple[For, ...], BufferStore]] | None:
    """Return the stores of a statement, each with the serial loops that surround only this store; None if there is any
    other statement.
    """
    stores: list[tuple[tuple[For, ...], BufferStore]] = []
    for part in stmt.stmts if isinstance(stmt, Seq) else (stmt,):
        loops: list[For] = []
        while isinstance(part, For) and part.kind is ForKind.SERIAL and _counts_from_zero(part):
            loops.append(part)
            part = part.body
        if not isinstance(part, BufferStore):
            return None
        stores.append((tuple(loops), part))
    return stores


def _counts_from_zero(loop: For) -> bool:
    return _same(loop.start, const(0, loop.var.dtype)) and isinstance(loop.extent, IntImm)


def recognised(block: Block, without_init: bool = False) -> tuple[Update, ReducerMatch] | str:
    """Return the update of a reduction block and the registered reducer that matches it, or a message that says why
    none does.

    By default, a block without an init does not match. With `without_init` it may match: the update then starts from
    the old value, which `init` loads.
    """
    update = _read_update(block, without_init)
    if isinstance(update, str):
        return f"block {block.name} is no update of a reducer: {update}"
    match = recognise(tuple(e.old for e in update.elements), tuple(e.value for e in update.elements))
    shown = ", ".join(f"{e.buffer.name} = {e.value}" for e in update.elements)
    if match is None:
        return f"no registered reducer has the form {shown}"
    starts = () if block.init is None else update.init
    if any(reads_buffer(e, b) for e in (*match.operand, *starts) for b in update.buffers):
        return f"what is combined reads the result: {shown}"
    return update, match
