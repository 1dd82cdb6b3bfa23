"""Staging buffers in a faster memory: cache_read, cache_write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....expr import IterVar, Range, Var, const, replace
from ...conditions import all_of
from ...nodes import Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, For, ForKind, Seq, Stmt
from ..analysis import Scope, why_neither
from ..boxes import Box, clip, fills, hull, touched, with_buffer
from ..registry import Failure, holds_inside, primitive, requirement
from ..state import ScheduleState, guard
from ..tree import Tree


def _region(regions: Sequence[BufferRegion], index: int | str | Buffer) -> BufferRegion | None:
    for k, region in enumerate(regions):
        if index is region.buffer or index == k or index == region.buffer.name:
            return region
    return None


def _listing(regions: Sequence[BufferRegion]) -> str:
    return ", ".join(f"{k}: {region.buffer.name}" for k, region in enumerate(regions)) or "none"


@requirement
def reads_it(state: ScheduleState, block: BlockRealize, read_buffer_index: int | str | Buffer) -> Failure | None:
    """the index (or name) is that of a buffer which the block reads"""
    if _region(block.block.reads, read_buffer_index) is not None:
        return None
    return Failure(
        {block.block: "this block"},
        f"one of the buffers that {block.block.name} reads",
        f"{read_buffer_index!r}; it reads {_listing(block.block.reads)}",
    )


@requirement
def writes_it(state: ScheduleState, block: BlockRealize, write_buffer_index: int | str | Buffer) -> Failure | None:
    """the index (or name) is that of a buffer which the block writes"""
    if _region(block.block.writes, write_buffer_index) is not None:
        return None
    return Failure(
        {block.block: "this block"},
        f"one of the buffers that {block.block.name} writes",
        f"{write_buffer_index!r}; it writes {_listing(block.block.writes)}",
    )


@requirement
def at_most_one_writer(
    state: ScheduleState, block: BlockRealize, read_buffer_index: int | str | Buffer
) -> Failure | None:
    """the scope has at most one block that writes the buffer, another one, and that comes before all who read it

    Then a copy made right after the writer, or at the start, holds what every reader would have read.
    """
    region = _region(block.block.reads, read_buffer_index)
    assert region is not None  # reads_it
    scope = Scope.around(state.home(block), block)
    writers = scope.writers(region.buffer)
    name = region.buffer.name
    if len(writers) > 1:
        return Failure(
            {w.block: f"writes {name}" for w in writers},
            f"at most one block that writes {name}",
            ", ".join(w.block.name for w in writers),
            ("cache_read before decompose_reduction",),
        )
    for writer in writers:
        for reader in scope.readers(region.buffer):
            if reader is writer or not scope.before(writer, reader):
                return Failure(
                    {writer.block: f"writes {name}", reader.block: f"reads {name}"},
                    f"{name} written before it is read, by another block",
                    f"block {reader.block.name} reads it before or while {writer.block.name} writes it",
                )
    return None


@requirement
def only_writer(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is complete or a reduction: in particular the only writer of its buffers, and before their readers"""
    reason = why_neither(Scope.around(state.home(block), block), block)
    return None if reason is None else Failure({block.block: "this block"}, "a complete or a reduction block", reason)


@requirement
def fills_its_box(state: ScheduleState, block: BlockRealize, write_buffer_index: int | str | Buffer) -> Failure | None:
    """the block writes every element of the box that is copied back: else the copy would overwrite with garbage"""
    region = _region(block.block.writes, write_buffer_index)
    assert region is not None  # writes_it
    tree = state.home(block)
    _, within = _place_after(tree, block, Scope.around(tree, block).readers(region.buffer))
    reason = fills(tree, block, region, within)
    if reason is None:
        return None
    return Failure({block.block: "this block"}, f"every element of its box of {region.buffer.name} written", reason)


@requirement
def readers_are_consumers(
    state: ScheduleState,
    consumer_blocks: Sequence[BlockRealize] | None,
    block: BlockRealize,
) -> Failure | None:
    """the consumer blocks named stand in the block's scope"""
    tree = state.home(block)
    for consumer in consumer_blocks or ():
        if tree.scope(consumer) is not tree.scope(block):
            return Failure(
                {consumer.block: "stands in another scope"},
                f"consumers in the scope of {block.block.name}",
                consumer.block.name,
            )
    return None


known_box = holds_inside(
    "known_box", "the box of the buffer that is touched has bounds that the place of the copy knows"
)


@primitive(
    aka={"Halide": "in"}, past="was cached in", requires=[reads_it, readers_are_consumers, at_most_one_writer],
)  # fmt: skip
def cache_read(
    state: ScheduleState,
    block: BlockRealize,
    read_buffer_index: int,
    storage_scope: str,
    consumer_blocks: list[BlockRealize] | None = None,
) -> BlockRealize:
    """Copy what a block reads of a buffer into a buffer of another scope, and let the block read the copy.

    before:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    call: `A_local = sch.cache_read("C", 0, "local")`
    after:
        for ax0, ax1 in T.grid(8, 8):
            with T.block("A_local"): A_local[v0, v1] = A[v0, v1]
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"): C[vi, vj] = C[vi, vj] + A_local[vi, vk] * B[vk, vj]

    The new buffer has the shape of the old one; only the part that is read is copied. `consumer_blocks` are the readers
    that change, by default the block alone. The copy stands after the block that writes the buffer, or at the start
    of the scope; move it with compute_at.
    """
    region = _region(block.block.reads, read_buffer_index)
    assert region is not None  # reads_it
    buffer = region.buffer
    tree = state.home(block)
    scope = Scope.around(tree, block)
    consumers = list({id(b): b for b in (block, *(consumer_blocks or ()))}.values())
    consumers = [c for c in consumers if any(r.buffer is buffer for r in c.block.reads)]
    cached = _cache_buffer(tree, buffer, storage_scope)
    writers = scope.writers(buffer)
    if writers:
        after, within = _place_after(tree, writers[0], consumers)
    else:
        after, within = None, scope.realize.block
    analyzer = state.analyzer(within)
    boxes = [touched(tree, c, r, within, analyzer) for c in consumers for r in c.block.reads if r.buffer is buffer]
    copy = _copy_nest(
        buffer, cached, _bounded(hull(boxes, analyzer), buffer, analyzer, block, within), analyzer, cached.name
    )
    rewritten: dict[Stmt, Stmt | None] = {c.block: with_buffer(c.block, buffer, cached) for c in consumers}  # type: ignore[misc]
    _insert(state, tree, scope, rewritten, copy, after, cached)
    return _block_named_by(state, copy)


@primitive(
    past="was cached in", requires=[writes_it, readers_are_consumers, only_writer, fills_its_box],
)  # fmt: skip
def cache_write(
    state: ScheduleState,
    block: BlockRealize,
    write_buffer_index: int,
    storage_scope: str,
    consumer_blocks: list[BlockRealize] | None = None,
) -> BlockRealize:
    """Let a block write into a buffer of another scope, and copy from there to where it wrote before.

    before:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    call: `C_local = sch.cache_write("C", 0, "local")`
    after:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"): C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
        for ax0, ax1 in T.grid(8, 8):
            with T.block("C_local"): C[v0, v1] = C_local[v0, v1]

    `consumer_blocks` are readers that shall read the new buffer too; by default none. Move the copy with
    reverse_compute_at.
    """
    region = _region(block.block.writes, write_buffer_index)
    assert region is not None  # writes_it
    buffer = region.buffer
    tree = state.home(block)
    scope = Scope.around(tree, block)
    cached = _cache_buffer(tree, buffer, storage_scope)
    after, within = _place_after(tree, block, [b for b in scope.readers(buffer) if b is not block])
    analyzer = state.analyzer(within)
    box = touched(tree, block, region, within, analyzer)
    copy = _copy_nest(cached, buffer, _bounded(box, buffer, analyzer, block, within), analyzer, cached.name)
    changed = [block, *(c for c in consumer_blocks or () if c is not block)]
    rewritten: dict[Stmt, Stmt | None] = {b.block: with_buffer(b.block, buffer, cached) for b in changed}  # type: ignore[misc]
    _insert(state, tree, scope, rewritten, copy, after, cached)
    return _block_named_by(state, copy)


def _bounded(box: Box, buffer: Buffer, analyzer: Any, block: BlockRealize, within: Stmt) -> Box:
    box = clip(box, buffer, analyzer)
    for r in box:
        if analyzer.bounds(r.extent)[1] is None and not isinstance(within, Block):
            raise known_box.refuse(
                Failure(
                    {block.block: "this block"},
                    f"a box of {buffer.name} of bounded extent",
                    f"[{r.start}, {r.start} + {r.extent})",
                )
            )
    return box


def _cache_buffer(tree: Tree, buffer: Buffer, storage_scope: str) -> Buffer:
    name = f"{buffer.name}_{storage_scope.replace('.', '_')}"
    taken = {b.block.name for b in tree.blocks.values()} | {
        x.name for b in tree.blocks.values() for x in b.block.alloc_buffers
    }
    number, unique = 0, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return Buffer(unique, buffer.shape, buffer.dtype, storage_scope)


def _place_after(tree: Tree, block: BlockRealize, others: Sequence[BlockRealize]) -> tuple[Stmt, Stmt]:
    """(statement, place): where code after `block` and before `others` stands: right after the statement, in the place.

    The place is the innermost loop that `block` shares with any of them, or the block of their scope.
    """
    loops = tree.loops_above(block)
    shared = [l for l in loops if any(tree.inside(o, l) for o in others)]
    within: Stmt = shared[-1] if shared else tree.scope(block).block
    at: Stmt = block
    # Climb until the statement is a direct child of the place, or of the sequence that is its body.
    while tree.parent[at] is not within and not (
        isinstance(tree.parent[at], Seq) and tree.parent[tree.parent[at]] is within
    ):
        at = tree.parent[at]
    return at, within


def _copy_nest(source: Buffer, target: Buffer, box: Box, analyzer: Any, name: str) -> Stmt:
    loops: list[For] = []
    iters: list[IterVar] = []
    values = []
    conditions = []
    for d, (r, dim) in enumerate(zip(box, target.shape, strict=True)):
        fixed = not _has_variables(analyzer, r)
        extent = r.extent if fixed else const(int(analyzer.bounds(r.extent)[1] or 1), dim.dtype)
        loop = Var(f"ax{d}", dim.dtype)
        value = analyzer.simplify(r.start + loop)
        v = Var(f"v{d}", dim.dtype)
        iters.append(IterVar(v, Range(r.start, extent) if fixed else Range(const(0, dim.dtype), dim)))
        analyzer.bind(loop, Range(const(0, dim.dtype), extent))
        # Past the end of the box may lie what somebody else owns; past the end of the buffer lies nothing.
        for condition in (value >= 0, value < dim, loop < r.extent):
            if not analyzer.can_prove(condition):
                conditions.append(condition)
        values.append(value)
        loops.append(For(loop, const(0, dim.dtype), extent, ForKind.SERIAL, Seq(())))
    point = tuple(it.var for it in iters)
    region = tuple(Range(v, const(1, v.dtype)) for v in point)
    body = BufferStore(target, BufferLoad(source, point), point)
    block = Block(tuple(iters), (BufferRegion(source, region),), (BufferRegion(target, region),), name, body)
    nest: Stmt = guard(BlockRealize(tuple(values), const(True), block), all_of(conditions))
    for empty in reversed(loops):
        nest = replace(empty, body=nest)
    return nest


def _has_variables(analyzer: Any, r: Range) -> bool:
    from ....expr import SizeVar, free_vars

    return any(not isinstance(v, SizeVar) for part in (r.start, r.extent) for v in free_vars(part))


def _insert(
    state: ScheduleState,
    tree: Tree,
    scope: Scope,
    rewritten: dict[Stmt, Stmt | None],
    copy: Stmt,
    after: Stmt | None,
    allocated: Buffer,
) -> None:
    func = tree.rebuild(rewritten)
    old_scope = scope.realize
    state.set_func(tree, func)
    fresh = state.tree(next(name for name, f in state.mod.items() if f is func))
    realize = fresh.blocks[old_scope.block.id]
    if after is None:
        body = Seq.of(copy, realize.block.body)
        block = replace(realize.block, body=body, alloc_buffers=(*realize.block.alloc_buffers, allocated))
        state.replace({realize.block: block})
        return
    # The statement that the copy follows may itself have been rebuilt: find it by a key inside it.
    anchor = _same_place(tree, fresh, after)
    func = fresh.rebuild({anchor: Seq.of(anchor, copy)})
    state.set_func(fresh, func)
    last = state.tree(next(name for name, f in state.mod.items() if f is func)).blocks[old_scope.block.id]
    state.replace({last.block: replace(last.block, alloc_buffers=(*last.block.alloc_buffers, allocated))})


def _same_place(old: Tree, new: Tree, stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        return new.loops[stmt.var]
    if isinstance(stmt, BlockRealize):
        return new.blocks[stmt.block.id]
    return stmt


def _block_named_by(state: ScheduleState, nest: Stmt) -> BlockRealize:
    at = nest
    while not isinstance(at, BlockRealize):
        at = at.body  # type: ignore[attr-defined]
    found = state.block(at.block.id)
    assert found is not None  # it was just put there
    return found


@cache_read.space
def _cache_read_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        if block is not state.tree().root:
            for k in range(len(block.block.reads)):
                yield block, k, "local"


@cache_write.space
def _cache_write_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        if block is not state.tree().root:
            for k in range(len(block.block.writes)):
                yield block, k, "local"
