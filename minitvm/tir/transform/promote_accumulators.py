"""A reduction that adds into one element of a buffer keeps it in a register while its loop runs.

    for k: C[i] = C[i] + f(k)        ->        c = C[i]; for k: c = c + f(k); C[i] = c
"""

from __future__ import annotations

from typing import Any

from ...expr import IntImm, Node, Ramp, Var, const, map_children, replace, rewrite, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, PrimFunc, Seq, Stmt, While
from .affine import structural_key, uses


def promote_accumulators(func: PrimFunc) -> PrimFunc:
    """Distinct buffers do not overlap ("tir.noalias"), so only accesses by name count. Runs after `unroll`."""
    if func.attrs.get("tir.noalias", True) is False:
        return func
    return func.with_body(rewrite(func.body, _promote))


def _promote(node: Node) -> Any:
    if not isinstance(node, For) or node.kind != ForKind.SERIAL or not isinstance(node.extent, IntImm):
        return None
    if node.extent.value < 1 or any(isinstance(n, While) for n in walk(node.body)):
        return None
    stores = _accumulators(node)[:MAX_PROMOTED]
    return _promoted(node, stores) if stores else None


MAX_PROMOTED = 32
Access = BufferLoad | BufferStore


def _accumulators(loop: For) -> list[BufferStore]:
    """Stores whose element is the same in all iterations and the only one of its buffer that the loop touches."""
    inside = {loop.var, *(v for n in walk(loop.body) for v in _defined(n))}
    local = {n.buffer for n in walk(loop.body) if isinstance(n, Allocate)}
    accesses: dict[Buffer, list[Access]] = {}
    for n in walk(loop.body):
        if isinstance(n, BufferLoad | BufferStore):
            accesses.setdefault(n.buffer, []).append(n)
    found: list[BufferStore] = []
    for buffer, uses_of in accesses.items():
        if buffer in local or buffer.scope == "local" or any(a.predicate is not None for a in uses_of):
            continue
        if not all(isinstance(a, BufferLoad | BufferStore) and _register_index(a.indices[0]) for a in uses_of):
            continue
        slots = {structural_key(a.indices[0]): a for a in uses_of}
        stores = {structural_key(a.indices[0]): a for a in uses_of if isinstance(a, BufferStore)}
        fixed = all(not uses(a.indices[0], inside) for a in uses_of)
        if fixed and stores and len(slots) == 1 and _reads_first(loop.body, buffer) and _always_stored(loop.body, buffer):
            found.append(next(iter(stores.values())))
    return found


def _defined(node: Node) -> tuple[Var, ...]:
    return (node.var,) if isinstance(node, For | LetStmt) else ()


def _register_index(index: Any) -> bool:
    return index.dtype.lanes == 1 or (isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1)


def _always_stored(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether every iteration stores to the buffer (then loading it before and storing it after adds no access)."""
    if isinstance(stmt, Seq):
        return any(_always_stored(s, buffer) for s in stmt.stmts)
    if isinstance(stmt, LetStmt | Allocate):
        return _always_stored(stmt.body, buffer)
    if isinstance(stmt, For):
        return isinstance(stmt.extent, IntImm) and stmt.extent.value > 0 and _always_stored(stmt.body, buffer)
    return isinstance(stmt, BufferStore) and stmt.buffer is buffer


def _reads_first(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether the first statement that touches the buffer reads it: then it holds a value when the loop starts."""
    for node in walk(stmt):
        if isinstance(node, BufferStore):
            touching = [n for n in walk(node) if isinstance(n, Access) and n.buffer is buffer]
            if touching:
                return any(isinstance(n, BufferLoad) for n in touching)
        elif isinstance(node, BufferLoad) and node.buffer is buffer:
            return True
    return False


def _register(store: BufferStore) -> tuple[Buffer, Any]:
    lanes = store.indices[0].dtype.lanes
    dtype = store.buffer.dtype
    buffer = Buffer(f"{store.buffer.name}_sum", (const(lanes),), dtype, "local")
    return buffer, const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)


def _promoted(loop: For, stores: list[BufferStore]) -> Stmt:
    registers = {store.buffer: _register(store) for store in stores}

    def go(node: Any) -> Any:
        new = map_children(node, go)
        if isinstance(new, BufferLoad | BufferStore) and new.buffer in registers:
            buffer, index = registers[new.buffer]
            return replace(new, buffer=buffer, indices=(index,))
        return new

    before: list[Stmt] = []
    after: list[Stmt] = []
    for store in stores:
        register, index = registers[store.buffer]
        before.append(BufferStore(register, BufferLoad(store.buffer, store.indices), (index,)))
        after.append(BufferStore(store.buffer, BufferLoad(register, (index,)), store.indices))
    total: Stmt = Seq.of(*before, go(loop), *after)
    for register, _ in registers.values():
        total = Allocate(register, total)
    return total
