"""A reduction that adds into one element of a buffer keeps it in a register while its loop runs."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from ...expr import (
    LT,
    Broadcast,
    Expr,
    IntImm,
    Node,
    Ramp,
    Var,
    children,
    const,
    contains,
    find,
    map_children,
    replace,
    rewrite,
)
from ..conditions import is_const, uses
from ..nodes import (
    Allocate,
    Async,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    If,
    Instruction,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    While,
)
from .affine import linear, structural_key


def promote_accumulators(func: PrimFunc) -> PrimFunc:
    """Distinct buffers do not overlap ("tir.noalias"), so only accesses by name count. Runs after `unroll`.

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
    # Legal: in the loop an element is touched by these accesses alone (buffers do not overlap), and is stored in every
    # iteration. So nobody sees that its value lies in a register meanwhile, and is stored once, behind the loop.
    if func.attrs.get("tir.noalias", True) is False:
        return func
    return func.with_body(rewrite(func.body, _promote, leave=(Expr, Instruction)))


def _promote(node: Node) -> Any:
    if isinstance(node, Seq):
        return _promote_in_sequence(node)
    # A loop in a sequence waits for the sequence, where the statements before it are seen.
    return None if not isinstance(node, For | LetStmt | Allocate | If) else _promote_bodies(node)


def _promote_bodies(node: Any) -> Any:
    changes = {}
    for field in node._children:
        body = getattr(node, field)
        if isinstance(body, For):
            changes[field] = _promoted(body, _accumulators(body), [])
    return replace(node, **changes) if changes else None


def _promote_in_sequence(node: Seq) -> Stmt:
    parts: list[Stmt] = []
    for stmt in node.stmts:
        parts.append(_promoted(stmt, _accumulators(stmt), parts) if isinstance(stmt, For) else stmt)
    return Seq.of(*parts)


MAX_PROMOTED = 64
Access = BufferLoad | BufferStore


def _accumulators(loop: For) -> list[BufferStore]:
    """Stores whose element is the same in all iterations; the loop touches its buffer only in such elements."""
    if loop.kind != ForKind.SERIAL or not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
        return []
    if contains(loop.body, While):
        return []
    inside = {loop.var, *(n.var for n in find(loop.body, For | LetStmt))}
    local = {n.buffer for n in find(loop.body, Allocate)}
    fixed = (part for n in find(loop.body, Instruction | Async) for part in find(n, Access))
    local |= {n.buffer for n in fixed}  # such storage is not ours to move
    accesses: dict[Buffer, list[Access]] = {}
    for n in find(loop.body, Access):
        accesses.setdefault(n.buffer, []).append(n)
    accumulators: list[BufferStore] = []
    for buffer, all_uses in accesses.items():
        if buffer in local or buffer.scope == "local" or not any(isinstance(a, BufferStore) for a in all_uses):
            continue
        if not all(_register_index(a.indices[0]) and _fixed(a, inside) for a in all_uses):
            continue
        slots = {structural_key(a.indices[0]): a for a in all_uses}
        stores = {structural_key(a.indices[0]): a for a in all_uses if isinstance(a, BufferStore)}
        reduces = _read_first(loop.body, buffer) == set(slots) and set(slots) <= _always_stored(loop.body, buffer)
        if len(slots) == len(stores) and reduces and _same_masks(all_uses) and _disjoint(list(slots.values())):
            accumulators += stores.values()
    return accumulators if len(accumulators) <= MAX_PROMOTED else []


def _disjoint(accesses: list[Access]) -> bool:
    """Whether accesses of one buffer certainly touch different elements."""
    first = linear(_base(accesses[0].indices[0]))
    offsets = [linear(_base(a.indices[0])) - first for a in accesses]
    if any(form.terms for form in offsets):
        return False
    places = sorted((form.const, active_lanes(a)) for form, a in zip(offsets, accesses, strict=True))
    return all(a + width <= b for (a, width), (b, _) in pairwise(places))


def _base(index: Any) -> Expr:
    return index.base if isinstance(index, Ramp) else index


def _fixed(access: Access, inside: set[Var]) -> bool:
    """Whether the element and the mask are the same in all iterations."""
    parts = [e for e in (access.indices[0], access.predicate) if e is not None]
    return not any(uses(e, inside) or contains(e, BufferLoad) for e in parts)


def _same_masks(accesses: list[Access]) -> bool:
    masks: dict[Any, Any] = {}
    return all(
        masks.setdefault(structural_key(a.indices[0]), mask) == mask
        for a, mask in ((a, structural_key(a.predicate)) for a in accesses)
    )


def _register_index(index: Any) -> bool:
    return index.dtype.lanes == 1 or (isinstance(index, Ramp) and is_const(index.stride, 1))


def _always_stored(stmt: Stmt, buffer: Buffer) -> set[Any]:
    """The elements that every iteration stores to: loading them before and storing them after adds no access."""
    if isinstance(stmt, Seq):
        return set().union(*(_always_stored(s, buffer) for s in stmt.stmts))
    if isinstance(stmt, LetStmt | Allocate):
        return _always_stored(stmt.body, buffer)
    if isinstance(stmt, For):
        certain = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
        return _always_stored(stmt.body, buffer) if certain else set()
    stores = isinstance(stmt, BufferStore) and stmt.buffer is buffer
    return {structural_key(stmt.indices[0])} if stores else set()  # type: ignore[attr-defined]


def _read_first(stmt: Stmt, buffer: Buffer) -> set[Any]:
    """The elements whose first access is a read: they hold a value when the loop starts."""
    seen: set[Any] = set()
    read: set[Any] = set()

    def visit(node: Node) -> None:
        for child in children(node):  # a store's value before the store itself
            visit(child)
        if isinstance(node, Access) and node.buffer is buffer:
            key = structural_key(node.indices[0])
            if isinstance(node, BufferLoad) and key not in seen:
                read.add(key)
            seen.add(key)

    visit(stmt)
    return read


def _registers(stores: list[BufferStore]) -> dict[Any, tuple[Buffer, Any]]:
    """For each element a place in a local buffer: one such buffer for each that is reduced into."""
    groups: dict[Buffer, list[BufferStore]] = {}
    for store in stores:
        groups.setdefault(store.buffer, []).append(store)
    places: dict[Any, tuple[Buffer, Any]] = {}
    for buffer, group in groups.items():
        widths = [store.indices[0].dtype.lanes for store in group]  # a row's last element may stand alone
        tile = Buffer(f"{buffer.name}_sum", (const(sum(widths)),), buffer.dtype, "local")
        for place, lanes, store in zip(accumulate(widths, initial=0), widths, group, strict=False):
            start = const(place)
            places[_slot_key(store)] = (tile, start if lanes == 1 else Ramp(start, const(1), lanes))
    return places


def _promoted(loop: For, stores: list[BufferStore], earlier: list[Stmt]) -> Stmt:
    """The loop on registers. What `earlier` statements stored to the elements moves into registers directly."""
    if not stores:
        return loop
    registers = _registers(stores)

    def go(node: Any) -> Any:
        new = map_children(node, go)
        if isinstance(new, Access) and _slot_key(new) in registers:
            buffer, index = registers[_slot_key(new)]
            return replace(new, buffer=buffer, indices=(index,), predicate=None)
        return new

    taken = _taken_stores(earlier, {_slot_key(store): structural_key(store.predicate) for store in stores})
    before: list[Stmt] = []
    after: list[Stmt] = []
    for store in stores:
        register, index = registers[_slot_key(store)]
        value = taken.get(_slot_key(store), BufferLoad(store.buffer, store.indices, store.predicate))
        before.append(BufferStore(register, value, (index,)))
        after.append(BufferStore(store.buffer, BufferLoad(register, (index,)), store.indices, store.predicate))
    total: Stmt = Seq.of(*before, go(loop), *after)
    for tile in {register: None for register, _ in registers.values()}:
        total = Allocate(tile, total)
    return total


def _taken_stores(earlier: list[Stmt], predicates: dict[Any, Any]) -> dict[Any, Expr]:
    """Values of stores right before the loop to elements that it will store again; they are taken out of `earlier`."""
    taken: dict[Any, Expr] = {}
    while earlier:
        last = earlier[-1]
        if not isinstance(last, BufferStore) or _slot_key(last) not in predicates or _slot_key(last) in taken:
            break
        # A value that reads memory would see other stores that are taken out; constants do not.
        if contains(last.value, BufferLoad):
            break
        if predicates[_slot_key(last)] != structural_key(last.predicate):
            break
        taken[_slot_key(last)] = last.value
        earlier.pop()
    return taken


def _slot_key(access: Access) -> Any:
    return access.buffer, structural_key(access.indices[0])


def active_lanes(access: Access) -> int:
    """The lanes that a mask of the form "the first n" leaves; all lanes for any other mask."""
    lanes = access.indices[0].dtype.lanes
    mask = access.predicate
    if not isinstance(mask, LT) or not isinstance(mask.a, Ramp) or not isinstance(mask.b, Broadcast):
        return lanes
    unit = is_const(mask.a.stride, 1)
    rest = linear(mask.b.value) - linear(mask.a.base)
    return min(lanes, max(0, rest.const)) if unit and not rest.terms else lanes
