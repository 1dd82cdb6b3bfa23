"""Hold the elements into which a reduction accumulates in registers while the loop of the reduction runs."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from ... import expr as ex
from .. import nodes as tir
from ..conditions import is_const, uses
from .affine import linear, structural_key


def promote_accumulators(func: tir.PrimFunc) -> tir.PrimFunc:
    """Hold the elements into which a reduction accumulates in registers, and store each of them once, after the loop.
    Runs after `unroll`.

    This is legal because distinct buffers do not overlap ("tir.noalias"), so only accesses through the same buffer
    matter.

    before:
        for i in range(4):
            C[i] = 0.0
            for k in range(8):
                C[i] = C[i] + A[i * 8 + k]
    after:
        for i in range(4):
            C_sum = T.decl_buffer((1,), scope="local")
            C_sum[0] = 0.0
            for k in range(8):
                C_sum[0] = C_sum[0] + A[i * 8 + k]
            C[i] = C_sum[0]
    """
    # Legal: in the loop only these accesses touch an element (buffers do not overlap), and every iteration stores it.
    # So no other code can tell that its value is in a register meanwhile, and is stored once, after the loop.
    if func.attrs.get("tir.noalias", True) is False:
        return func
    return func.with_body(ex.rewrite(func.body, _promote, leave=(ex.Expr, tir.Instruction)))


def _promote(node: ex.Node) -> Any:
    if isinstance(node, tir.Seq):
        return _promote_in_sequence(node)
    # A loop in a sequence is handled with the sequence, where the statements before it are known.
    return None if not isinstance(node, tir.For | tir.LetStmt | tir.Allocate | tir.If) else _promote_bodies(node)


def _promote_bodies(node: Any) -> Any:
    changes = {}
    for field in node._children:
        body = getattr(node, field)
        if isinstance(body, tir.For):
            changes[field] = _promoted(body, _accumulators(body), [])
    return ex.replace(node, **changes) if changes else None


def _promote_in_sequence(node: tir.Seq) -> tir.Stmt:
    parts: list[tir.Stmt] = []
    for stmt in node.stmts:
        parts.append(_promoted(stmt, _accumulators(stmt), parts) if isinstance(stmt, tir.For) else stmt)
    return tir.Seq.of(*parts)


MAX_PROMOTED = 64
Access = tir.BufferLoad | tir.BufferStore


def _accumulators(loop: tir.For) -> list[tir.BufferStore]:
    """Return the stores to elements that are the same in all iterations, if the loop accesses no other elements of the
    buffers.
    """
    if loop.kind != tir.ForKind.SERIAL or not isinstance(loop.extent, ex.IntImm) or loop.extent.value < 1:
        return []
    if ex.contains(loop.body, tir.While):
        return []
    inside = {loop.var, *(n.var for n in ex.find(loop.body, tir.For | tir.LetStmt))}
    local = {n.buffer for n in ex.find(loop.body, tir.Allocate)}
    fixed = (part for n in ex.find(loop.body, tir.Instruction | tir.Async) for part in ex.find(n, Access))
    local |= {n.buffer for n in fixed}  # this pass must not move such storage
    accesses: dict[tir.Buffer, list[Access]] = {}
    for n in ex.find(loop.body, Access):
        accesses.setdefault(n.buffer, []).append(n)
    accumulators: list[tir.BufferStore] = []
    for buffer, all_uses in accesses.items():
        if buffer in local or buffer.scope == "local" or not any(isinstance(a, tir.BufferStore) for a in all_uses):
            continue
        if not all(_register_index(a.indices[0]) and _fixed(a, inside) for a in all_uses):
            continue
        slots = {structural_key(a.indices[0]): a for a in all_uses}
        stores = {structural_key(a.indices[0]): a for a in all_uses if isinstance(a, tir.BufferStore)}
        reduces = _read_first(loop.body, buffer) == set(slots) and set(slots) <= _always_stored(loop.body, buffer)
        if len(slots) == len(stores) and reduces and _same_masks(all_uses) and _disjoint(list(slots.values())):
            accumulators += stores.values()
    return accumulators if len(accumulators) <= MAX_PROMOTED else []


def _disjoint(accesses: list[Access]) -> bool:
    """Return whether accesses to one buffer certainly touch different elements."""
    first = linear(_base(accesses[0].indices[0]))
    offsets = [linear(_base(a.indices[0])) - first for a in accesses]
    if any(form.terms for form in offsets):
        return False
    places = sorted((form.const, active_lanes(a)) for form, a in zip(offsets, accesses, strict=True))
    return all(a + width <= b for (a, width), (b, _) in pairwise(places))


def _base(index: Any) -> ex.Expr:
    return index.base if isinstance(index, ex.Ramp) else index


def _fixed(access: Access, inside: set[ex.Var]) -> bool:
    """Return whether an access has the same element and mask in all iterations."""
    parts = [e for e in (access.indices[0], access.predicate) if e is not None]
    return not any(uses(e, inside) or ex.contains(e, tir.BufferLoad) for e in parts)


def _same_masks(accesses: list[Access]) -> bool:
    masks: dict[Any, Any] = {}
    return all(
        masks.setdefault(structural_key(a.indices[0]), mask) == mask
        for a, mask in ((a, structural_key(a.predicate)) for a in accesses)
    )


def _register_index(index: Any) -> bool:
    return index.dtype.lanes == 1 or (isinstance(index, ex.Ramp) and is_const(index.stride, 1))


def _always_stored(stmt: tir.Stmt, buffer: tir.Buffer) -> set[Any]:
    """Return the elements that every iteration stores.

    Loading these elements before the loop and storing them after it touches no memory that the loop would not touch.
    """
    if isinstance(stmt, tir.Seq):
        return set().union(*(_always_stored(s, buffer) for s in stmt.stmts))
    if isinstance(stmt, tir.LetStmt | tir.Allocate):
        return _always_stored(stmt.body, buffer)
    if isinstance(stmt, tir.For):
        certain = isinstance(stmt.extent, ex.IntImm) and stmt.extent.value > 0
        return _always_stored(stmt.body, buffer) if certain else set()
    stores = isinstance(stmt, tir.BufferStore) and stmt.buffer is buffer
    return {structural_key(stmt.indices[0])} if stores else set()  # type: ignore[attr-defined]


def _read_first(stmt: tir.Stmt, buffer: tir.Buffer) -> set[Any]:
    """Return the elements whose first access is a read. They must be loaded before the loop starts."""
    seen: set[Any] = set()
    read: set[Any] = set()

    def visit(node: ex.Node) -> None:
        for child in ex.children(node):  # a store's value before the store itself
            visit(child)
        if isinstance(node, Access) and node.buffer is buffer:
            key = structural_key(node.indices[0])
            if isinstance(node, tir.BufferLoad) and key not in seen:
                read.add(key)
            seen.add(key)

    visit(stmt)
    return read


def _registers(stores: list[tir.BufferStore]) -> dict[Any, tuple[tir.Buffer, Any]]:
    """Map each element that is stored to its place, (local buffer, index). There is one local buffer for each buffer
    into which the loop accumulates.
    """
    groups: dict[tir.Buffer, list[tir.BufferStore]] = {}
    for store in stores:
        groups.setdefault(store.buffer, []).append(store)
    places: dict[Any, tuple[tir.Buffer, Any]] = {}
    for buffer, group in groups.items():
        widths = [store.indices[0].dtype.lanes for store in group]  # a row's last element may be a single one
        tile = tir.Buffer(f"{buffer.name}_sum", (ex.const(sum(widths)),), buffer.dtype, "local")
        for place, lanes, store in zip(accumulate(widths, initial=0), widths, group, strict=False):
            start = ex.const(place)
            places[_slot_key(store)] = (tile, start if lanes == 1 else ex.Ramp(start, ex.const(1), lanes))
    return places


def _promoted(loop: tir.For, stores: list[tir.BufferStore], earlier: list[tir.Stmt]) -> tir.Stmt:
    """Return the loop with its accumulators in registers. Where a statement in `earlier` initialises an accumulator,
    the register gets that value directly, and the statement is removed.
    """
    if not stores:
        return loop
    registers = _registers(stores)

    def go(node: Any) -> Any:
        new = ex.map_children(node, go)
        if isinstance(new, Access) and _slot_key(new) in registers:
            buffer, index = registers[_slot_key(new)]
            return ex.replace(new, buffer=buffer, indices=(index,), predicate=None)
        return new

    taken = _taken_stores(earlier, {_slot_key(store): structural_key(store.predicate) for store in stores})
    before: list[tir.Stmt] = []
    after: list[tir.Stmt] = []
    for store in stores:
        register, index = registers[_slot_key(store)]
        value = taken.get(_slot_key(store), tir.BufferLoad(store.buffer, store.indices, store.predicate))
        before.append(tir.BufferStore(register, value, (index,)))
        after.append(tir.BufferStore(store.buffer, tir.BufferLoad(register, (index,)), store.indices, store.predicate))
    total: tir.Stmt = tir.Seq.of(*before, go(loop), *after)
    for tile in {register: None for register, _ in registers.values()}:
        total = tir.Allocate(tile, total)
    return total


def _taken_stores(earlier: list[tir.Stmt], predicates: dict[Any, Any]) -> dict[Any, ex.Expr]:
    """Return, for each element that the loop stores, the value that a statement directly before the loop stores to it.
    These statements are removed from `earlier`.
    """
    taken: dict[Any, ex.Expr] = {}
    while earlier:
        last = earlier[-1]
        if not isinstance(last, tir.BufferStore) or _slot_key(last) not in predicates or _slot_key(last) in taken:
            break
        # A value that reads memory could depend on other stores that are removed; a constant does not.
        if ex.contains(last.value, tir.BufferLoad):
            break
        if predicates[_slot_key(last)] != structural_key(last.predicate):
            break
        taken[_slot_key(last)] = last.value
        earlier.pop()
    return taken


def _slot_key(access: Access) -> Any:
    return access.buffer, structural_key(access.indices[0])


def active_lanes(access: Access) -> int:
    """Return the number of lanes that a mask of the form "the first n" enables; all lanes for any other mask."""
    lanes = access.indices[0].dtype.lanes
    mask = access.predicate
    if not isinstance(mask, ex.LT) or not isinstance(mask.a, ex.Ramp) or not isinstance(mask.b, ex.Broadcast):
        return lanes
    unit = is_const(mask.a.stride, 1)
    rest = linear(mask.b.value) - linear(mask.a.base)
    return min(lanes, max(0, rest.const)) if unit and not rest.terms else lanes
