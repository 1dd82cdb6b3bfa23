"""Staging: a second buffer for a part of another one, the loops that copy between the two, and the blocks that use it.

Each primitive that stages answers four questions: which box is copied, where, in which direction, and in which layout.

    primitive        box                             place                           direction   layout
    cache_read       all that is written or read     after the writer, or first      in          the buffer's, or a tile
    cache_write      all that the block writes       before the readers, or last     out         the buffer's, or a tile
    cache_inplace    one iteration of the block      before and after the block      both        the buffer's
    read_at          one iteration of a loop         first in the loop               in          the buffer's
    write_at         one iteration of a loop         last in the loop                out         the buffer's
    reindex          the block's elements            beside the block                either      by the iterators
    reindex_cache_*  the block's elements            after the writer or the block   either      by a map of iterators
    cache_index      an index, which is computed     first                           in          by the iterators
    pad_einsum       the whole buffer                around the block's loops        either      the buffer's, padded

`insertion` puts the copies into the program, and `point_stages` builds those whose layout depends on iterators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...arith import Analyzer, regions
from ...expr import Expr, IntImm, IterVar, Node, Range, Var, const, replace, structural_equal
from ...expr.printer import fresh
from .. import nodes as tir
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import changed_buffers, regions_read, regions_written
from ..analysis.boxes import Box, clip, hull, touched, with_buffer
from ..analysis.surely import all_read, fills
from ..analysis.tree import Tree
from ..conditions import all_of, is_const
from .insertion import Insertion, InsertionPoint
from .registry import Failure, holds_inside
from .state import ScheduleState, guard, nest_around
from .views import views_on, with_buffers

known_box = holds_inside("known_box", "the bounds of the copied box are known at the place of the copy")
initialised = holds_inside(
    "initialised",
    """every copied element has a value: the buffer is an input that is not written, or the block that writes the
    buffer writes all of the box, or the readers read all of the box anyway""",
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
    """A region that a primitive is to copy: a block reads this region or, if `write` is set, writes it."""

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


# ---- which box is copied ---------------------------------------------------------------------------------------------


def bounded(
    tree: Tree, box: Box, buffer: tir.Buffer, analyzer: Analyzer, block: tir.BlockRealize, within: tir.Stmt
) -> Box:
    """Return the part of a box that is inside the buffer.

    Raises `Refused` if an extent has no known bound, unless `within` is a block and the extent depends only on sizes.
    """
    box = clip(box, buffer, analyzer)
    for r in box:
        if not isinstance(within, tir.Block) or tree.moves(r.extent):
            refuse_unbounded(r, buffer, analyzer, block)
    return box


def refuse_unbounded(r: Range, buffer: tir.Buffer, analyzer: Analyzer, block: tir.BlockRealize) -> None:
    """Raise `Refused` if the extent of a range of a buffer, which `block` touches, has no known bound."""
    if analyzer.bounds(r.extent)[1] is None:
        raise known_box.refuse(
            Failure(
                {block.block: "this block"},
                f"a box of {buffer.name} of bounded extent",
                f"[{r.start}, {r.start} + {r.extent})",
            )
        )


def box_read(
    tree: Tree, buffer: tir.Buffer, readers: Sequence[tir.BlockRealize], within: tir.Stmt, analyzer: Analyzer
) -> Box:
    """Return the box of a buffer that the readers read in one run of `within`."""
    reads = [(b, r) for b in readers for r in regions_read(b.block) if r.buffer is buffer]
    return hull([touched(tree, b, r, within, analyzer) for b, r in reads], analyzer)


def box_to_read(
    state: ScheduleState, tree: Tree, buffer: tir.Buffer, consumers: Sequence[tir.BlockRealize], within: tir.Stmt
) -> Box:
    """Return the box of a buffer that is copied for its consumers at the start of `within`: all of an input in the root
    block, otherwise what they read. Raises `Refused` if part of it may be uninitialised.
    """
    if within is tree.root.block and is_input(tree, buffer):
        return buffer.full_region().region
    box = box_read(tree, buffer, consumers, within, state.analyzer(within))
    if not has_values(state, tree, buffer, box, consumers, within):
        readers = [c for c in consumers if any(r.buffer is buffer for r in regions_read(c.block))]
        raise initialised.refuse(
            Failure(
                {c.block: f"reads {buffer.name}" for c in readers},
                f"every element of the box of {buffer.name} that is copied has a value",
                f"it is not shown that {readers[0].block.name} reads all of the box, and {buffer.name} is no input",
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


def is_input(tree: Tree, buffer: tir.Buffer) -> bool:
    """Return whether a buffer is a parameter that the function does not write, so that all of it has values."""
    return buffer in tree.func.buffers and buffer not in changed_buffers(tree.func)


def has_values(
    state: ScheduleState,
    tree: Tree,
    buffer: tir.Buffer,
    box: Box,
    readers: Sequence[tir.BlockRealize],
    within: tir.Stmt,
) -> bool:
    """Return whether every element of a box certainly has a value when a run of `within` begins.

    Then all of the box may be copied. This holds if the buffer is an input, if `readers` read all of the box in this
    run anyway, or if a block before `within` fills a box that contains it.
    """
    if is_input(tree, buffer):
        return True
    analyzer = state.analyzer(within)
    if all_read(tree, readers, tir.BufferRegion(buffer, box), within, analyzer):
        return True
    if isinstance(within, tir.Block):
        return False  # no block of a scope runs before its start
    scope = Scope.around(tree, within)
    copied = regions.intersect(box, buffer.full_region().region, analyzer)  # the rest is not there
    for writer in scope.writers(buffer):
        region = region_of(regions_written(writer.block), buffer)
        shared = [l for l in tree.loops_above(writer) if tree.inside(within, l)]
        around: tir.Stmt = shared[-1] if shared else scope.realize.block
        if region is None or not scope.before(writer, within) or fills(tree, writer, region, around) is not None:
            continue
        if regions.covers(touched(tree, writer, region, around, state.analyzer(within)), copied, analyzer):
            return True
    return False


# ---- which layout the new buffer has, and how it is filled -----------------------------------------------------------


def is_tile(tree: Tree, buffer: tir.Buffer, box: Box, within: tir.Stmt) -> bool:
    """Return whether a copy at the start or end of a block has the shape of the box, instead of the buffer's shape.

    This holds if the block is not the root, the box has a constant size and is smaller than the buffer, and the buffer
    has no views.
    """
    if not isinstance(within, tir.Block) or within is tree.root.block or views_on(within, buffer):
        return False
    whole = all(isinstance(r.extent, IntImm) for r in box)
    return whole and any(not structural_equal(r.extent, dim) for r, dim in zip(box, buffer.shape, strict=True))


def stage(
    state: ScheduleState,
    part: BufferPart,
    storage_scope: str,
    box: Box,
    users: Sequence[tir.BlockRealize],
    place: InsertionPoint,
) -> tir.BlockRealize:
    """Copy a box of a buffer, at `place`, into a new buffer in the scope `storage_scope`, or back from it if the part
    is written; make `users` use the new buffer. Returns the block that copies.

    Raises `Refused` if the box has no known bounds or the copy would cause a race.
    """
    # Legal: the requirements of the primitive have shown that the box holds all that the users read of the buffer, or
    # that they write all of it. A copy at `place` runs after the last write of what they read, and before others read
    # what they write. So every load finds the same value, in the new buffer or in the old one.
    tree, buffer = part.tree, part.buffer
    analyzer = in_scope(state, tree, place.within)
    box = bounded(tree, box, buffer, analyzer, part.block, place.within)
    cached = copy_of(tree, buffer, storage_scope)
    tile = is_tile(tree, buffer, box, place.within)
    if tile:
        cached = replace(cached, shape=tuple(r.extent for r in box))
    step = staged(part, cached, users, box if tile else None)
    step.copies.append((place, copy_nest(tree, buffer, cached, box, analyzer, part.write, tile)))
    return step.apply_one(state)


def staged(
    part: BufferPart, cached: tir.Buffer, users: Sequence[tir.BlockRealize], tile: Box | None = None
) -> Insertion:
    """Return a step in which `users` use `cached` instead of the buffer; the copies are still missing.

    `cached` has the shape of the buffer, or that of the box `tile`. Views of the buffer become views of `cached`, in
    its scope.
    """
    rewritten: dict[tir.Stmt, tir.Stmt] = {}
    for user in users:
        if tile is None:
            views = {view: replace(view, scope=cached.scope) for view in views_on(user.block, part.buffer)}
            changed: Node = with_buffers(user.block, {**views, part.buffer: cached})
        else:  # then there are no views
            changed = with_buffer(user.block, part.buffer, cached, _into_tile(tile))
        assert isinstance(changed, tir.Block)
        rewritten[user.block] = changed
    return Insertion(part.tree, part.scope, rewritten, allocated=[cached])


def _into_tile(tile: Box) -> Callable[[Box], Box]:
    def inside(r: Range, whole: Range) -> Range:
        return r if is_const(whole.start, 0) else Range(Analyzer().simplify(r.start - whole.start), r.extent)

    return lambda box: tuple(map(inside, box, tile))


def copy_nest(
    tree: Tree, buffer: tir.Buffer, cached: tir.Buffer, box: Box, analyzer: Analyzer, back: bool, tile: bool = False
) -> tir.Stmt:
    """Return loops `ax0`, ... around a block that copies a box of `buffer` into `cached`, or back.

    Its iterators are the indices of `cached`. These count from the start of the box if `cached` is a tile; otherwise
    they are the indices of `buffer` too.
    """
    loops = [Var(f"ax{d}", dim.dtype) for d, dim in enumerate(buffer.shape)]
    extents = [loop_extent(tree, r, analyzer) for r in box]
    iters: list[IterVar] = []
    values: list[Expr] = []
    conditions: list[Expr] = []
    for d, (r, dim, loop, extent) in enumerate(zip(box, buffer.shape, loops, extents, strict=True)):
        index = r.start + loop
        if not tile:  # the index becomes a binding, in which a loop of one iteration stays: it is not bound yet
            index = analyzer.simplify(index)
        analyzer.bind(loop, Range(const(0, dim.dtype), extent))
        conditions += copied_where(index, loop, r, dim, analyzer)
        fixed = not tree.moves(r.start, r.extent)
        domain = Range(const(0, dim.dtype), extent if tile else dim)
        iters.append(IterVar(Var(f"v{d}", dim.dtype), Range(r.start, extent) if fixed and not tile else domain))
        values.append(loop if tile else index)
    here = tuple(it.var for it in iters)
    there = tuple(v if not tile or is_const(r.start, 0) else r.start + v for r, v in zip(box, here, strict=True))
    (target, at), (source, place) = (buffer, there), (cached, here)
    if not back:
        (target, at), (source, place) = (source, place), (target, at)
    body = tir.BufferStore(target, tir.BufferLoad(source, place), at)
    block = tir.Block(tuple(iters), (point_region(source, place),), (point_region(target, at),), cached.name, body)
    return nest_around(guard(tir.BlockRealize(tuple(values), const(True), block), all_of(conditions)), loops, extents)


def loop_extent(tree: Tree, r: Range, analyzer: Analyzer) -> Expr:
    """Return the extent of a loop over a range: a constant that is large enough if the range's extent may change."""
    if not tree.moves(r.extent):
        return r.extent
    return const(max(int(analyzer.bounds(r.extent)[1] or 1), 1), r.extent.dtype)


def copied_where(index: Expr, loop: Var, r: Range, dim: Expr, analyzer: Analyzer) -> list[Expr]:
    """Return the conditions under which `index`, at iteration `loop` of a loop over a range, is in the range and in a
    dimension of extent `dim`. Conditions that always hold are left out.
    """
    # After the end of the range there may be elements that other code owns; after the end of the buffer there is
    # nothing.
    return [c for c in (index >= 0, index < dim, loop < r.extent) if not analyzer.can_prove(c)]


def point_region(buffer: tir.Buffer, indices: Iterable[Expr]) -> tir.BufferRegion:
    """Return the region that consists of a single element."""
    return tir.BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))


def in_scope(state: ScheduleState, tree: Tree, within: tir.Stmt) -> Analyzer:
    """Return an analyzer that knows the loops around a place, and the iterator domains of the blocks around it."""
    analyzer = state.analyzer(within)
    for around in (within, *tree.above(within)):
        if isinstance(around, tir.Block):
            for it in around.iter_vars:
                if not is_const(it.dom.extent, 1):  # an iterator with one value stays in the indices
                    analyzer.bind(it)
    return analyzer
