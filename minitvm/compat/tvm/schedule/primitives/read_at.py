"""Staged copies at a loop, as one block each: read_at, write_at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .....arith import Analyzer, regions
from .....expr import SPATIAL, Expr, IntImm, IterVar, Range, Var, const, replace, substitute
from .....tir.analysis import block_regions
from .....tir.analysis.bindings import why_not_initialised
from .....tir.analysis.block_kinds import Scope, why_goes_on
from .....tir.analysis.boxes import Box, clip, touched
from .....tir.analysis.surely import fills
from .....tir.analysis.tree import Tree
from .....tir.conditions import all_of, is_const, uses
from .....tir.nodes import Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, For, If, Seq, Stmt
from .....tir.schedule import programs as on
from .....tir.schedule import staging
from .....tir.schedule.insertion import InsertionPoint
from .....tir.schedule.moving import box_text
from .....tir.schedule.primitives.cache import read_in_blocks, reads_it, writes_it, written_in_blocks
from .....tir.schedule.registry import Failure, holds_inside, primitive, requirement
from .....tir.schedule.requirements import known_scope
from .....tir.schedule.state import ScheduleState, nest_around


@requirement
def below_loop(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """the block is below the loop, in the same scope"""
    tree = state.home(block)
    if loop in tree.loops_above(block):
        return None
    return Failure(
        {block.block: "this block"},
        f"a block below {loop.var.name}",
        f"{block.block.name} is not inside {loop.var.name}",
        tuple(f"{l.var.name}, which is a loop around it" for l in tree.loops_above(block)[:1]),
    )


@requirement
def not_written_below(loop: For, block: BlockRealize, match: staging.BufferPart) -> Failure | None:
    """no block below the loop writes the buffer, so that the copy remains valid during the iteration"""
    name = match.buffer.name
    for other in match.tree.blocks_in(loop):
        if staging.region_of(block_regions.regions_written(other.block), match.buffer) is not None:
            return Failure(
                {other.block: f"writes {name}"},
                f"no block below {loop.var.name} that writes {name}",
                f"block {other.block.name} writes it",
                (f"cache_read({block.block.name}, {name!r}, ...)",),
            )
    return None


@requirement
def written_below_only(loop: For, match: staging.BufferPart) -> Failure | None:
    """all blocks of the scope that write the buffer are below the loop

    So at the start of an iteration, the new buffer contains only values that earlier iterations wrote there.
    """
    name = match.buffer.name
    for writer in match.scope.writers(match.buffer):
        if not match.tree.inside(writer, loop):
            return Failure(
                {loop: "this loop", writer.block: f"writes {name}"},
                f"{name} written below {loop.var.name} only",
                f"block {writer.block.name} writes it elsewhere",
            )
    return None


@requirement
def filled_below(state: ScheduleState, loop: For, match: staging.BufferPart) -> Failure | None:
    """below the loop, the first block that touches the buffer writes every element of the box that is copied back

    This block does not read the buffer, unless it has an init and reduces over loops of its scope. The other blocks
    touch only that box.
    """
    buffer, tree = match.buffer, match.tree
    users = _users(tree, loop, buffer)
    first = users[0]
    write = staging.region_of(block_regions.regions_written(first.block), buffer)
    if write is None or staging.region_of(block_regions.regions_read(first.block), buffer) is not None:
        return Failure(
            {first.block: f"reads {buffer.name}"},
            f"{buffer.name} written before it is read, in each iteration of {loop.var.name}",
            f"block {first.block.name} reads elements that were not written below the loop",
            ("cache_inplace", "cache_read and cache_write"),
        )
    reason = why_goes_on(Scope.around(tree, first), first)
    if reason is not None:
        return Failure({first.block: "this block"}, "a reduction that starts and ends in its scope", reason)
    reason = why_not_initialised(first, tree.loops_above(first), state.analyzer(first)) or fills(
        tree, first, write, loop
    )
    if reason is not None:
        return Failure({first.block: "this block"}, f"every element of its box of {buffer.name} written", reason)
    analyzer = state.analyzer(loop)
    filled = touched(tree, first, write, loop, analyzer)
    for other in users[1:]:
        for r in (*block_regions.regions_read(other.block), *block_regions.regions_written(other.block)):
            if r.buffer is not buffer:
                continue
            used = touched(tree, other, r, loop, analyzer)
            if not regions.covers(filled, used, analyzer):
                return Failure(
                    {first.block: f"writes {box_text(buffer, filled)}", other.block: f"uses {box_text(buffer, used)}"},
                    f"all that {other.block.name} uses of {buffer.name} written by {first.block.name}",
                    f"{box_text(buffer, used)} is used",
                )
    return None


place_at_loop = holds_inside("place_at_loop", "the body of the loop is a sequence of loops and blocks")


def _users(tree: Tree, loop: For, buffer: Buffer) -> list[BlockRealize]:
    """The blocks directly below a loop that touch a buffer, in program order."""
    return [b for b in tree.blocks_in(loop) if buffer in block_regions.buffers_touched(b.block)]


@primitive(
    past="was staged in",
    requires=[below_loop, reads_it, known_scope, not_written_below, read_in_blocks],
    match=staging.part_read,
)
def read_at(
    state: ScheduleState,
    match: staging.BufferPart,
    loop: For,
    block: BlockRealize,
    read_buffer_index: int,
    storage_scope: str,
) -> BlockRealize:
    """At the start of each iteration of a loop, copy the part of a buffer that the blocks below the loop read.

    before:
        for i, j in T.grid(4, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.read_at(i, "B", 0, "local")`
    after:
        A_local = T.alloc_buffer((4, 8), scope="local")
        for i in range(4):
            with T.block("A_local"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(1, 8): A_local[v0, ax1] = A[v0, ax1]
            for j in range(8):
                with T.block("B"): B[vi, vj] = A_local[vi, vj] * 2.0

    From then on, every block below the loop that read the buffer reads the copy instead. The new block gets the
    annotation "auto_copy", as in TVM.
    """
    buffer, tree = match.buffer, match.tree
    users = _users(tree, loop, buffer)
    analyzer = state.analyzer(loop)
    box = clip(staging.box_read(tree, buffer, users, loop, analyzer), buffer, analyzer)
    if not staging.has_values(state, tree, buffer, box, users, loop):
        raise staging.initialised.refuse(
            Failure(
                {b.block: f"reads {buffer.name}" for b in users},
                f"every element of {box_text(buffer, box)}, which is copied, has a value",
                f"nothing is known to write all of it before, and {buffer.name} is no input",
            )
        )
    return _staged(state, match, loop, users, box, storage_scope)


read_at.refuses(below_loop, "sch.read_at(sch.get_loops('B')[0], 'C', 0, 'local')", on.CHAIN)
read_at.refuses(reads_it, "sch.read_at(i, 'C', 2, 'local')", on.MATMUL)
read_at.refuses(known_scope, "sch.read_at(i, 'C', 0, 'wmmma.matrix_a')", on.MATMUL)
read_at.refuses(not_written_below, "sch.read_at(sch.get_loops('C')[0], 'C', 0, 'local')", on.ROWS_IN_TURN)
read_at.refuses(read_in_blocks, "sch.read_at(i, 'B', 0, 'local')", on.CONDITION_ON_INPUT)
read_at.refuses(
    staging.initialised,
    "sch.split(sch.get_loops('C')[0], [None, 2]); sch.read_at(sch.get_loops('C')[0], 'C', 0, 'local')",
    on.SPARSE,
)


@primitive(
    past="was staged in",
    requires=[below_loop, writes_it, known_scope, written_below_only, filled_below, written_in_blocks],
    match=staging.part_written,
)
def write_at(
    state: ScheduleState,
    match: staging.BufferPart,
    loop: For,
    block: BlockRealize,
    write_buffer_index: int,
    storage_scope: str,
) -> BlockRealize:
    """Make the blocks below a loop write to a copy of a buffer, which is copied back at the end of each iteration.

    before:
        for i, j in T.grid(4, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.write_at(i, "B", 0, "local")`
    after:
        B_local = T.alloc_buffer((4, 8), scope="local")
        for i in range(4):
            for j in range(8):
                with T.block("B"): B_local[vi, vj] = A[vi, vj] * 2.0
            with T.block("B_local"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(1, 8): B[v0, ax1] = B_local[v0, ax1]

    A reduction over the loop continues in the copy, which keeps its values from iteration to iteration.
    """
    buffer, tree = match.buffer, match.tree
    users = _users(tree, loop, buffer)
    analyzer = state.analyzer(loop)
    write = staging.region_of(block_regions.regions_written(users[0].block), buffer)
    assert write is not None  # filled_below
    box = clip(touched(tree, users[0], write, loop, analyzer), buffer, analyzer)
    return _staged(state, match, loop, users, box, storage_scope)


_CONDITION_ON_OUTPUT = """
for i in range(8):
    with T.block("B"): B[vi] = A[vi] * 2.0
    if B[i] > 0.0:
        with T.block("C"): C[vi] = 1.0
"""
_ADDED_OUTSIDE = """
def added_outside(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
    for i in range(4):
        with T.block("zero"): B[vi] = 0.0
    for i, j in T.grid(4, 8):
        with T.block("B"): B[vi] = B[vi] + A[vi, vj]
"""
write_at.refuses(below_loop, "sch.write_at(sch.get_loops('B')[0], 'C', 0, 'local')", on.CHAIN)
write_at.refuses(writes_it, "sch.write_at(i, 'C', 1, 'local')", on.MATMUL)
write_at.refuses(known_scope, "sch.write_at(i, 'C', 0, 'shard')", on.MATMUL)
write_at.refuses(written_below_only, "sch.write_at(sch.get_loops('B')[0], 'B', 0, 'local')", _ADDED_OUTSIDE)
write_at.refuses(filled_below, "sch.write_at(i, 'B', 0, 'local')", on.ADDED_TO)
write_at.refuses(written_in_blocks, "sch.write_at(i, 'B', 0, 'local')", _CONDITION_ON_OUTPUT)


def _staged(
    state: ScheduleState,
    part: staging.BufferPart,
    loop: For,
    users: Sequence[BlockRealize],
    box: Box,
    storage_scope: str,
) -> BlockRealize:
    tree = part.tree
    cached = staging.copy_of(tree, part.buffer, storage_scope)
    nest = _copy_block(part, cached, box, [*tree.loops_above(loop), loop], state.analyzer(loop), users[0])
    parts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    using = [stmt for stmt in parts if any(tree.inside(user, stmt) for user in users)]
    anchor = using[-1 if part.write else 0]
    if not isinstance(anchor, For | BlockRealize):
        raise place_at_loop.refuse(
            Failure({anchor: "this statement"}, "a loop or a block to put the copy next to", type(anchor).__name__)
        )
    step = staging.staged(part, cached, users)
    step.copies.append((InsertionPoint(loop, anchor, after=part.write), nest))
    return step.apply_one(state)


def _copy_block(
    part: staging.BufferPart,
    cached: Buffer,
    box: Box,
    around: Sequence[For],
    analyzer: Analyzer,
    user: BlockRealize,
) -> BlockRealize:
    """One block that copies a box: an iterator for each loop that the box depends on, loops `ax0`, ... inside it."""
    source, target = (cached, part.buffer) if part.write else (part.buffer, cached)
    used = [l for l in around if any(uses(e, [l.var]) for r in box for e in (r.start, r.extent))]
    iters = [IterVar(Var(f"v{k}", l.var.dtype), _domain(l, analyzer, user), SPATIAL) for k, l in enumerate(used)]
    values = {l.var: it.var for l, it in zip(used, iters, strict=True)}
    inside = Analyzer.inside(*iters)
    loops = [Var(f"ax{k}", dim.dtype) for k, dim in enumerate(target.shape)]
    extents: list[Expr] = []
    indices: list[Expr] = []
    conditions: list[Expr] = []
    ranges: list[Range] = [substitute(r, values) for r in box]
    for k, (r, axis, dim) in enumerate(zip(box, loops, target.shape, strict=True)):
        if part.tree.moves(r.extent):
            staging.refuse_unbounded(r, source, analyzer, user)
        extents.append(staging.loop_extent(part.tree, r, analyzer))
        inside.bind(axis, Range(const(0, dim.dtype), extents[k]))
        indices.append(inside.simplify(ranges[k].start + axis))
        conditions += staging.copied_where(indices[k], axis, ranges[k], dim, inside)
    shown = tuple(ranges) if not conditions else regions.intersect(tuple(ranges), target.full_region().region, inside)
    body: Stmt = BufferStore(target, BufferLoad(source, tuple(indices)), tuple(indices))
    if conditions:
        body = If(all_of(conditions), body)
    body = nest_around(body, loops, extents)
    reads, writes = (BufferRegion(source, shown),), (BufferRegion(target, shown),)
    block = Block(tuple(iters), reads, writes, cached.name, body, annotations={"auto_copy": 1})
    # Where the box is may be read from memory, as in a gather.
    places = tuple(r for r in block_regions.regions_touched(block)[0] if r.buffer is not source)
    block = replace(block, reads=(*reads, *places))
    return BlockRealize(tuple(l.var for l in used), const(True), block)


def _domain(loop: For, analyzer: Analyzer, user: BlockRealize) -> Range:
    low, high = analyzer.bounds(loop.var)
    if isinstance(loop.extent, IntImm) and isinstance(loop.start, IntImm):
        return Range(loop.start, loop.extent)
    if low is not None and high is not None and int(low) >= 0:
        return Range(const(0, loop.var.dtype), const(int(high) + 1, loop.var.dtype))
    if is_const(loop.start, 0):
        return Range(loop.start, loop.extent)
    raise staging.known_box.refuse(
        Failure({user.block: "this block"}, f"a known range of {loop.var.name}", f"[{loop.start}, {loop.extent})")
    )


@read_at.space
def _read_at_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        for loop in tree.loops_above(block):
            for k in range(len(block_regions.buffers_read(block.block))):
                yield loop, block, k, "local"


@write_at.space
def _write_at_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        for loop in tree.loops_above(block):
            for k in range(len(block_regions.buffers_written(block.block))):
                yield loop, block, k, "local"
