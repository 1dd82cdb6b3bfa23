"""Staging: a second buffer for a part of another buffer, the loops that copy between the two, and where these loops go.

This code is shared by cache_read, cache_write and related primitives. A *stage* is a nest of loops around a single
block that copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...arith import Analyzer
from ...expr import Expr, IntImm, IterVar, Node, Range, Var, const, replace, rewrite, structural_equal
from ...expr.printer import fresh
from .. import nodes as tir
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import buffers_touched, changed_buffers, regions_read, regions_written
from ..analysis.boxes import Box, clip, hull, touched, with_buffer
from ..analysis.surely import all_read, fills
from ..analysis.threads import owns
from ..analysis.tree import Tree
from ..conditions import all_of, is_const
from . import requirements as req
from .registry import Failure, holds_inside
from .state import ScheduleState, guard, nest_around
from .thread_storage import passes_on
from .views import views_on, with_buffers

known_box = holds_inside("known_box", "the bounds of the copied box are known at the place of the copy")
initialised = holds_inside(
    "initialised",
    """every copied element has a value: the buffer is an input that is not written, or the block that writes the
    buffer writes all of the box, or the readers read all of the box anyway""",
)


own_values = holds_inside(
    "own_values", "if each thread has its own copy of a buffer, it reads only values that it has written itself"
)


def region_of(regions: Sequence[tir.BufferRegion], index: int | str | tir.Buffer) -> tir.BufferRegion | None:
    """Return the region that `index` selects: a position, the name of a buffer, or the buffer itself. Return None if
    there is none.
    """
    for k, region in enumerate(regions):
        if index is region.buffer or (not isinstance(index, bool) and index == k) or index == region.buffer.name:
            return region
    return None


@dataclass(frozen=True)
class BufferPart:
    """An access of a block to a buffer: the region that the block reads, or writes (`write`), and that a primitive is
    to copy.
    """

    tree: Tree
    scope: Scope
    block: tir.BlockRealize
    region: tir.BufferRegion
    write: bool

    @property
    def buffer(self) -> tir.Buffer:
        """The original buffer."""
        return self.region.buffer


def part_read(state: ScheduleState, block: tir.BlockRealize, read_buffer_index: int | str | tir.Buffer) -> BufferPart:
    """Return the region that a block reads in the buffer that `read_buffer_index` selects, as a `BufferPart`. The block
    must read this buffer.
    """
    return _part(state, block, regions_read(block.block), read_buffer_index, False)


def part_written(
    state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int | str | tir.Buffer
) -> BufferPart:
    """Return the region that a block writes in the buffer that `write_buffer_index` selects, as a `BufferPart`. The
    block must write this buffer.
    """
    return _part(state, block, regions_written(block.block), write_buffer_index, True)


def _part(
    state: ScheduleState,
    block: tir.BlockRealize,
    regions: Sequence[tir.BufferRegion],
    index: int | str | tir.Buffer,
    write: bool,
) -> BufferPart:
    region = region_of(regions, index)
    assert region is not None  # reads_it, writes_it
    tree = state.home(block)
    return BufferPart(tree, Scope.around(tree, block), block, region, write)


def listing(regions: Sequence[tir.BufferRegion]) -> str:
    """List regions as text by position and buffer: `0: A, 1: B`."""
    return ", ".join(f"{k}: {region.buffer.name}" for k, region in enumerate(regions)) or "none"


def free_name(tree: Tree, name: str) -> str:
    """Return `name`, with a number appended if a block or buffer of the function already uses it."""
    taken = {b.block.name for b in tree.blocks.values()}
    taken |= {buffer.name for b in tree.blocks.values() for buffer in b.block.alloc_buffers}
    taken |= {buffer.name for buffer in tree.func.buffers}
    return fresh(name, taken)


def scoped_name(buffer: tir.Buffer, storage_scope: str) -> str:
    """Return the name for a copy in another scope, for example `A_shared` for A in "shared"."""
    return f"{buffer.name}_{storage_scope.replace('.', '_')}"


def copy_of(tree: Tree, buffer: tir.Buffer, storage_scope: str) -> tir.Buffer:
    """Return a new buffer with the same shape and dtype in another scope."""
    return tir.Buffer(free_name(tree, scoped_name(buffer, storage_scope)), buffer.shape, buffer.dtype, storage_scope)


# ---- the place of a stage ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Insertion:
    """The changes of one step: blocks to rewrite, statements to insert before or after anchors, and buffers to allocate
    in the scope.
    """

    tree: Tree
    scope: Scope
    rewritten: dict[tir.Stmt, tir.Stmt] = field(default_factory=dict)
    before: list[tuple[tir.Stmt, tir.Stmt]] = field(default_factory=list)  # (anchor, what comes right before it)
    after: list[tuple[tir.Stmt, tir.Stmt]] = field(default_factory=list)
    first: list[tir.Stmt] = field(default_factory=list)  # at the start of the scope
    last: list[tir.Stmt] = field(default_factory=list)  # at its end
    allocated: list[tir.Buffer] = field(default_factory=list)

    def apply(self, state: ScheduleState) -> None:
        """Apply the changes to the program. Anchors are loops and block realizations, which are found again by their
        keys.
        """
        tree = self._set(state, self.tree, dict(self.rewritten))
        around: dict[tir.Stmt, tuple[list[tir.Stmt], list[tir.Stmt]]] = {}
        for pairs, side in ((self.before, 0), (self.after, 1)):
            for anchor, stmt in pairs:
                around.setdefault(_same_place(self.tree, tree, anchor), ([], []))[side].append(stmt)
        tree = self._set(state, tree, {a: tir.Seq.of(*lead, a, *tail) for a, (lead, tail) in around.items()})
        block = tree.blocks[self.scope.realize.block.id].block
        body = tir.Seq.of(*self.first, block.body, *self.last) if self.first or self.last else block.body
        buffers = (*block.alloc_buffers, *self.allocated)
        self._set(state, tree, {block: replace(block, body=body, alloc_buffers=buffers)})

    def put(self, state: ScheduleState, stage: tir.Stmt) -> tir.BlockRealize:
        """Apply the changes and return the block of the inserted stage; raise `Refused` if this block would cause a
        race.
        """
        self.apply(state)
        block = block_in(state, stage)
        refuse_races(state, block)
        return block

    def _set(self, state: ScheduleState, tree: Tree, changes: Mapping[tir.Stmt, tir.Stmt]) -> Tree:
        if not changes:
            return tree
        func = tree.rebuild(changes)
        state.set_func(tree, func)
        return state.tree(next(name for name, f in state.mod.items() if f is func))


def _same_place(before: Tree, now: Tree, stmt: tir.Stmt) -> tir.Stmt:
    """Find a statement again in another tree in which blocks were rewritten but all statements kept their positions."""
    if stmt in now.order:
        return stmt
    inner = before.blocks_in(stmt)[0] if not isinstance(stmt, tir.BlockRealize) else stmt
    at: tir.Stmt = now.blocks[inner.block.id]
    outer: tir.Stmt = inner
    while outer is not stmt:
        outer, at = before.parent[outer], now.parent[at]
    return at


def place_after(tree: Tree, block: tir.BlockRealize, others: Sequence[tir.BlockRealize]) -> tuple[tir.Stmt, tir.Stmt]:
    """Return (statement, place): code that must run after `block` and before `others` goes into `place`, directly after
    `statement`.

    `place` is the innermost loop that `block` shares with any of the others, or the block of their scope.
    """
    loops = tree.loops_above(block)
    shared = [l for l in loops if any(tree.inside(o, l) for o in others)]
    within: tir.Stmt = shared[-1] if shared else tree.scope(block).block
    at: tir.Stmt = block
    # Go outward until the node around the statement also contains another one: a loop, a branch, the body of a let.
    while True:
        outer = tree.parent[at]
        ends = outer is within or (isinstance(outer, tir.Seq) and tree.parent[outer] is within)
        if ends or any(tree.inside(o, outer) for o in others):
            return at, within
        at = outer


def place_before_readers(
    tree: Tree, block: tir.BlockRealize, others: Sequence[tir.BlockRealize]
) -> tuple[tir.Stmt | None, tir.Stmt]:
    """Return (statement, place) for the latest point after `block` and before `others` at which code can be inserted.

    The code goes into `place`, directly before `statement`, or at the end of `place` if the statement is None. `place`
    is the same as for `place_after`; if there are no others, it is the block of the scope.
    """
    if not others:
        return None, tree.scope(block).block
    at, within = place_after(tree, block, others)
    around = tree.parent[at]
    if not isinstance(around, tir.Seq):
        return None, within
    later = around.stmts[around.stmts.index(at) + 1 :]
    return next((stmt for stmt in later if any(tree.inside(other, stmt) for other in others)), None), within


def block_in(state: ScheduleState, nest: tir.Stmt) -> tir.BlockRealize:
    """Return the block of a stage as it currently is in the program."""
    at = nest
    while not isinstance(at, tir.BlockRealize):
        at = at.body  # type: ignore[attr-defined]
    placed = state.block(at.block.id)
    assert placed is not None  # it was just put there
    return placed


def refuse_races(state: ScheduleState, realize: tir.BlockRealize) -> None:
    """Raise `Refused` if a new block causes a race between iterations of a concurrent loop.

    The loop may be around the new block, or around a block that shares a buffer with it. Threads that each owned a
    buffer, or filled it in lockstep, race if the buffer is now also used outside of these threads.
    """
    tree = state.home(realize)
    touched = buffers_touched(realize.block)
    for outer in _loops_around(tree, realize, touched):
        if outer.kind in tir.CONCURRENT:
            race = req.no_races.check(state=state, loop=outer)
            if race is not None:
                raise req.no_races.refuse(race)
        for buffer in {b for b in touched if owns(outer, b.scope)}:
            if passes_on(state, tree, outer, buffer, buffer.scope):
                raise own_values.refuse(
                    Failure(
                        {outer: f"each has its own {buffer.name}", realize.block: f"uses {buffer.name}"},
                        f"iterations of {outer.var.name} that find in {buffer.name} what they have written themselves",
                        f"one may read what another has written to {buffer.name}, in {buffer.scope} storage",
                        ("a scope that they share",),
                    )
                )


def _loops_around(tree: Tree, realize: tir.BlockRealize, buffers: set[tir.Buffer]) -> list[tir.For]:
    """Return the loops around a block and around the other blocks of its scope that touch any of `buffers`."""
    users = [b for b in Scope.around(tree, realize).blocks if b is realize or buffers & buffers_touched(b.block)]
    return list(dict.fromkeys(l for user in users for l in tree.all_loops_above(user)))


# ---- what is copied ------------------------------------------------------------------------------------------------


def bounded(
    tree: Tree, box: Box, buffer: tir.Buffer, analyzer: Analyzer, block: tir.BlockRealize, within: tir.Stmt
) -> Box:
    """Return the part of a box that is inside the buffer.

    Raises `Refused` if an extent has no known bound, unless `within` is a block and the extent depends only on sizes.
    """
    box = clip(box, buffer, analyzer)
    for r in box:
        if analyzer.bounds(r.extent)[1] is None and (not isinstance(within, tir.Block) or tree.moves(r.extent)):
            raise known_box.refuse(
                Failure(
                    {block.block: "this block"},
                    f"a box of {buffer.name} of bounded extent",
                    f"[{r.start}, {r.start} + {r.extent})",
                )
            )
    return box


def box_to_read(
    state: ScheduleState, tree: Tree, buffer: tir.Buffer, consumers: Sequence[tir.BlockRealize], within: tir.Stmt
) -> Box:
    """Return the box of a buffer that the consumers read in one run of `within`; raise `Refused` if part of it may be
    uninitialised.
    """
    analyzer = state.analyzer(within)
    reads = [(c, r) for c in consumers for r in regions_read(c.block) if r.buffer is buffer]
    box = hull([touched(tree, c, r, within, analyzer) for c, r in reads], analyzer)
    is_input = buffer in tree.func.buffers and buffer not in changed_buffers(tree.func)
    if is_input and within is tree.root.block:
        return buffer.full_region().region
    if not is_input and not all_read(tree, consumers, tir.BufferRegion(buffer, box), within, analyzer):
        raise initialised.refuse(
            Failure(
                {c.block: f"reads {buffer.name}" for c, _ in reads},
                f"every element of the box of {buffer.name} that is copied has a value",
                f"it is not shown that {reads[0][0].block.name} reads all of the box, and {buffer.name} is no input",
            )
        )
    return box


def box_written(
    state: ScheduleState, tree: Tree, writer: tir.BlockRealize, buffer: tir.Buffer, within: tir.Stmt
) -> Box:
    """Return the box of a buffer that its writer fills in one run of `within`; raise `Refused` if the writer may leave
    part of it unwritten.
    """
    region = region_of(regions_written(writer.block), buffer)
    assert region is not None  # it writes the buffer
    reason = fills(tree, writer, region, within)
    if reason is not None:
        raise initialised.refuse(
            Failure(
                {writer.block: f"writes {buffer.name}"},
                f"every element of its box of {buffer.name} written, as all of it is copied",
                reason,
            )
        )
    return touched(tree, writer, region, within, state.analyzer(within))


def copy_nest(tree: Tree, source: tir.Buffer, target: tir.Buffer, box: Box, analyzer: Analyzer, name: str) -> tir.Stmt:
    """Return loops `ax0`, ... around a block that copies the part of a box that is inside the buffers."""
    loops: list[Var] = []
    extents: list[Expr] = []
    iters: list[IterVar] = []
    values = []
    conditions = []
    for d, (r, dim) in enumerate(zip(box, target.shape, strict=True)):
        fixed = not tree.moves(r.start, r.extent)
        extent = const(int(analyzer.bounds(r.extent)[1] or 1), dim.dtype) if tree.moves(r.extent) else r.extent
        loop = Var(f"ax{d}", dim.dtype)
        value = analyzer.simplify(r.start + loop)
        v = Var(f"v{d}", dim.dtype)
        iters.append(IterVar(v, Range(r.start, extent) if fixed else Range(const(0, dim.dtype), dim)))
        analyzer.bind(loop, Range(const(0, dim.dtype), extent))
        # After the end of the box there may be elements that other code owns; after the end of the buffer there is
        # nothing.
        for condition in (value >= 0, value < dim, loop < r.extent):
            if not analyzer.can_prove(condition):
                conditions.append(condition)
        values.append(value)
        loops.append(loop)
        extents.append(extent)
    point = tuple(it.var for it in iters)
    body = tir.BufferStore(target, tir.BufferLoad(source, point), point)
    block = tir.Block(tuple(iters), (point_region(source, point),), (point_region(target, point),), name, body)
    return nest_around(guard(tir.BlockRealize(tuple(values), const(True), block), all_of(conditions)), loops, extents)


def point_region(buffer: tir.Buffer, indices: Iterable[Expr]) -> tir.BufferRegion:
    """Return the region that consists of a single element."""
    return tir.BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))


def retargeted(
    realize: tir.BlockRealize, old: tir.Buffer, new: tir.Buffer, starts: Sequence[Expr] | None = None
) -> tuple[tir.Block, tir.Block]:
    """Return (block, the same block using a new buffer). The new buffer has the shape of the old one, or contains the
    box that begins at `starts`.

    Views of the old buffer become views of the new one, in its scope.
    """
    block: tir.Stmt = realize.block
    views = {view: replace(view, scope=new.scope) for view in views_on(block, old)}
    if views:
        block = with_buffers(block, views)
    changed = with_buffer(block, old, new) if starts is None else _moved_to_tile(block, old, new, starts)
    assert isinstance(changed, tir.Block)
    return realize.block, changed


def _moved_to_tile(block: tir.Stmt, old: tir.Buffer, new: tir.Buffer, starts: Sequence[Expr]) -> Node:
    def inside(index: Expr, start: Expr) -> Expr:
        simplified: Expr = index if is_const(start, 0) else Analyzer().simplify(index - start)
        return simplified

    def change(at: Node) -> Node | None:
        if isinstance(at, tir.BufferLoad | tir.BufferStore) and at.buffer is old:
            indices = tuple(map(inside, at.indices, starts))
            return replace(at, buffer=new, indices=indices)
        if isinstance(at, tir.BufferRegion) and at.buffer is old:
            box = tuple(Range(inside(r.start, start), r.extent) for r, start in zip(at.region, starts, strict=True))
            return replace(at, buffer=new, region=box)
        return None

    changed: Node = rewrite(block, change)
    return changed


def tile_in_scope(tree: Tree, buffer: tir.Buffer, box: Box, within: tir.Stmt) -> bool:
    """Return whether a copy at the start or end of a block needs only a box of constant size.

    This holds if the block is not the root, the box is smaller than the buffer, and the buffer has no views.
    """
    if not isinstance(within, tir.Block) or within is tree.root.block or views_on(within, buffer):
        return False
    whole = all(isinstance(r.extent, IntImm) for r in box)
    return whole and any(not structural_equal(r.extent, dim) for r, dim in zip(box, buffer.shape, strict=True))


def tile_nest(
    tile: tir.Buffer, buffer: tir.Buffer, box: Box, analyzer: Analyzer, into_tile: bool, name: str
) -> tir.Stmt:
    """Return loops `ax0`, ... around a block that copies a box of a buffer into a buffer of the box's
    shape, or back.
    """
    loops = [Var(f"ax{d}", r.start.dtype) for d, r in enumerate(box)]
    domains = [Range(const(0, r.start.dtype), r.extent) for r in box]
    iters = tuple(IterVar(Var(f"v{d}", r.start.dtype), r) for d, r in enumerate(domains))
    here = tuple(it.var for it in iters)
    there = tuple(v if is_const(r.start, 0) else r.start + v for r, v in zip(box, here, strict=True))
    conditions = []
    for loop, r, dim in zip(loops, box, buffer.shape, strict=True):
        analyzer.bind(loop, Range(const(0, loop.dtype), r.extent))
        conditions += [c for c in (r.start + loop >= 0, r.start + loop < dim) if not analyzer.can_prove(c)]
    (target, at), (source, place) = ((tile, here), (buffer, there)) if into_tile else ((buffer, there), (tile, here))
    body = tir.BufferStore(target, tir.BufferLoad(source, place), at)
    block = tir.Block(iters, (point_region(source, place),), (point_region(target, at),), name, body)
    return nest_around(tir.BlockRealize(tuple(loops), all_of(conditions), block), loops, [r.extent for r in box])


def staged_box(
    part: BufferPart, storage_scope: str, box: Box, analyzer: Analyzer, within: tir.Stmt
) -> tuple[tir.Buffer, tir.Stmt, list[Expr] | None]:
    """Return (a buffer for a box, the nest that copies into it or back, the start of the box); the start is None if the
    buffer has the full shape.
    """
    tree, buffer = part.tree, part.buffer
    cached = copy_of(tree, buffer, storage_scope)
    if tile_in_scope(tree, buffer, box, within):
        tile = replace(cached, shape=tuple(r.extent for r in box))
        return tile, tile_nest(tile, buffer, box, analyzer, not part.write, tile.name), [r.start for r in box]
    source, target = (cached, buffer) if part.write else (buffer, cached)
    return cached, copy_nest(tree, source, target, box, analyzer, cached.name), None


def in_scope(state: ScheduleState, tree: Tree, within: tir.Stmt) -> Analyzer:
    """Return an analyzer that knows the loops around a place, and the iterator domains of the blocks around it."""
    analyzer = state.analyzer(within)
    for around in (within, *tree.above(within)):
        if isinstance(around, tir.Block):
            for it in around.iter_vars:
                if not is_const(it.dom.extent, 1):  # an iterator with one value stays in the indices
                    analyzer.bind(it)
    return analyzer
