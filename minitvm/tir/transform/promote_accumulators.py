"""A reduction that adds into one element of a buffer keeps it in a register while its loop runs.

    for k: C[i] = C[i] + f(k)        ->        c = C[i]; for k: c = c + f(k); C[i] = c
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...expr import Expr, IntImm, Node, Ramp, Var, const, map_children, replace, rewrite, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, PrimFunc, Seq, Stmt, While
from .affine import linear, structural_key, uses


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
    stores = _accumulators(node)
    return _promoted(node, stores) if stores else None


MAX_PROMOTED = 64
Access = BufferLoad | BufferStore


def _accumulators(loop: For) -> list[BufferStore]:
    """Stores whose element is the same in all iterations; the loop touches its buffer only in such elements."""
    inside = {loop.var, *(v for n in walk(loop.body) for v in _defined(n))}
    local = {n.buffer for n in walk(loop.body) if isinstance(n, Allocate)}
    accesses: dict[Buffer, list[Access]] = {}
    for n in walk(loop.body):
        if isinstance(n, Access):
            accesses.setdefault(n.buffer, []).append(n)
    found: list[BufferStore] = []
    for buffer, all_uses in accesses.items():
        if buffer in local or buffer.scope == "local" or not any(isinstance(a, BufferStore) for a in all_uses):
            continue
        if not all(_register_index(a.indices[0]) and _fixed(a, inside) for a in all_uses):
            continue
        slots = {structural_key(a.indices[0]): a for a in all_uses}
        stores = {structural_key(a.indices[0]): a for a in all_uses if isinstance(a, BufferStore)}
        reduces = all(_reads_first(loop.body, a) and _always_stored(loop.body, a) for a in slots.values())
        if len(slots) == len(stores) and reduces and _same_masks(all_uses) and _disjoint([a.indices[0] for a in slots.values()]):
            found += stores.values()
    return found if len(found) <= MAX_PROMOTED else []


def _disjoint(indices: list[Expr]) -> bool:
    """Whether accesses of one buffer certainly touch different elements."""
    lanes = indices[0].dtype.lanes
    if any(i.dtype.lanes != lanes for i in indices):
        return False
    first = linear(_base(indices[0]))
    offsets = [linear(_base(i)).minus(first) for i in indices]
    if any(form.terms for form in offsets):
        return False
    places = sorted(form.constant for form in offsets)
    return all(a + lanes <= b for a, b in pairwise(places))


def _base(index: Any) -> Expr:
    return index.base if isinstance(index, Ramp) else index


def _same_slot(a: Access, b: Access) -> bool:
    return a.buffer is b.buffer and structural_key(a.indices[0]) == structural_key(b.indices[0])


def _fixed(access: Access, inside: set[Var]) -> bool:
    """Whether the element and the mask are the same in all iterations."""
    if access.predicate is None:
        return not uses(access.indices[0], inside)
    reads = any(isinstance(n, BufferLoad) for n in walk(access.predicate))
    return not reads and not uses(access.predicate, inside) and not uses(access.indices[0], inside)


def _same_masks(accesses: list[Access]) -> bool:
    masks: dict[Any, Any] = {}
    return all(
        masks.setdefault(structural_key(a.indices[0]), mask) == mask
        for a, mask in ((a, structural_key(a.predicate)) for a in accesses)
    )


def _defined(node: Node) -> tuple[Var, ...]:
    return (node.var,) if isinstance(node, For | LetStmt) else ()


def _register_index(index: Any) -> bool:
    return index.dtype.lanes == 1 or (isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1)


def _always_stored(stmt: Stmt, access: Access) -> bool:
    """Whether every iteration stores to the element (then loading it before and storing it after adds no access)."""
    if isinstance(stmt, Seq):
        return any(_always_stored(s, access) for s in stmt.stmts)
    if isinstance(stmt, LetStmt | Allocate):
        return _always_stored(stmt.body, access)
    if isinstance(stmt, For):
        return isinstance(stmt.extent, IntImm) and stmt.extent.value > 0 and _always_stored(stmt.body, access)
    return isinstance(stmt, BufferStore) and _same_slot(stmt, access)


def _reads_first(stmt: Stmt, access: Access) -> bool:
    """Whether the first statement that touches the element reads it: then it holds a value when the loop starts."""
    for node in walk(stmt):
        if isinstance(node, BufferStore):
            touching = [n for n in walk(node) if isinstance(n, Access) and _same_slot(n, access)]
            if touching:
                return any(isinstance(n, BufferLoad) for n in touching)
        elif isinstance(node, BufferLoad) and _same_slot(node, access):
            return True
    return False


def _register(store: BufferStore) -> tuple[Buffer, Any]:
    lanes = store.indices[0].dtype.lanes
    dtype = store.buffer.dtype
    buffer = Buffer(f"{store.buffer.name}_sum", (const(lanes),), dtype, "local")
    return buffer, const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)


def _promoted(loop: For, stores: list[BufferStore]) -> Stmt:
    registers = {_slot_key(store): _register(store) for store in stores}

    def go(node: Any) -> Any:
        new = map_children(node, go)
        if isinstance(new, Access) and _slot_key(new) in registers:
            buffer, index = registers[_slot_key(new)]
            return replace(new, buffer=buffer, indices=(index,), predicate=None)
        return new

    before: list[Stmt] = []
    after: list[Stmt] = []
    for store in stores:
        register, index = registers[_slot_key(store)]
        before.append(BufferStore(register, BufferLoad(store.buffer, store.indices, store.predicate), (index,)))
        after.append(BufferStore(store.buffer, BufferLoad(register, (index,)), store.indices, store.predicate))
    total: Stmt = Seq.of(*before, go(loop), *after)
    for register, _ in registers.values():
        total = Allocate(register, total)
    return total


def _slot_key(access: Access) -> Any:
    return access.buffer, structural_key(access.indices[0])
