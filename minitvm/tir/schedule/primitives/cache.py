"""Create staging buffers in a faster memory: cache_read, cache_write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....arith import regions
from ...analysis.bindings import why_not_initialised
from ...analysis.block_kinds import Scope, why_neither
from ...analysis.block_regions import buffers_read, regions_read, regions_written
from ...analysis.boxes import touched
from ...analysis.dependences import accesses
from ...analysis.surely import fills
from ...analysis.tree import Tree
from ...nodes import BlockRealize, Buffer, BufferRegion, BufferStore
from .. import programs as on
from .. import staging
from ..insertion import InsertionPoint, end_of, place_between, start_of
from ..moving import box_text, uncovered
from ..registry import Failure, holds_inside, primitive, requirement
from ..requirements import known_scope
from ..state import ScheduleState


@requirement
def reads_it(state: ScheduleState, block: BlockRealize, read_buffer_index: int | str | Buffer) -> Failure | None:
    """the index or name refers to a buffer that the block reads"""
    return _why_no_region(block, "reads", regions_read(block.block), read_buffer_index)


@requirement
def writes_it(state: ScheduleState, block: BlockRealize, write_buffer_index: int | str | Buffer) -> Failure | None:
    """the index or name refers to a buffer that the block writes"""
    return _why_no_region(block, "writes", regions_written(block.block), write_buffer_index)


def _why_no_region(
    block: BlockRealize, does: str, regions: Sequence[BufferRegion], index: int | str | Buffer
) -> Failure | None:
    if staging.region_of(regions, index) is not None:
        return None
    expected = f"one of the buffers that {block.block.name} {does}"
    return Failure({block.block: "this block"}, expected, f"{index!r}; it {does} {staging.listing(regions)}")


@requirement
def at_most_one_writer(match: staging.BufferPart) -> Failure | None:
    """at most one block in the scope writes the buffer, and it comes before all other blocks that read the buffer

    This writer is not the block itself. A copy made directly after the writer, or at the start, therefore contains the
    values that every other reader would have read. A block that updates the buffer continues to read the buffer itself.
    """
    scope, buffer = match.scope, match.buffer
    writers = scope.writers(buffer)
    name = buffer.name
    if len(writers) > 1:
        return Failure(
            {w.block: f"writes {name}" for w in writers},
            f"at most one block that writes {name}",
            ", ".join(w.block.name for w in writers),
            ("cache_read before decompose_reduction",),
        )
    for writer in writers:
        for reader in scope.readers(buffer):
            if reader is match.block if reader is writer else not scope.before(writer, reader):
                return Failure(
                    {writer.block: f"writes {name}", reader.block: f"reads {name}"},
                    f"{name} written before it is read, by another block",
                    f"block {reader.block.name} reads it before or while {writer.block.name} writes it",
                    (f"cache_inplace({reader.block.name}, {name!r}, ...)",) if reader is writer else (),
                )
    return None


@requirement
def only_writer(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is complete or a reduction, so it is the only writer of its buffers and comes before their readers"""
    reason = why_neither(Scope.around(state.home(block), block), block)
    return None if reason is None else Failure({block.block: "this block"}, "a complete or a reduction block", reason)


@requirement
def fills_its_box(
    state: ScheduleState, block: BlockRealize, match: staging.BufferPart, consumer_blocks: Sequence[BlockRealize] | None
) -> Failure | None:
    """the block writes every element of the box that is copied back; otherwise garbage would be copied

    An element whose sum has no terms is undefined after the block, whether it is copied or not.
    """
    tree = match.tree
    within = _place_to_copy_back(match, consumer_blocks).within
    reason = why_not_initialised(block, tree.loops_above(block), state.analyzer(block)) or fills(
        tree, block, match.region, within, empty_sums=False
    )
    if reason is None:
        return None
    return Failure({block.block: "this block"}, f"every element of its box of {match.buffer.name} written", reason)


def _place_to_copy_back(part: staging.BufferPart, consumers: Sequence[BlockRealize] | None) -> InsertionPoint:
    """Return the place of cache_write's copy: before the first block that still reads the old buffer, not counting the
    block that writes it, or at the end of the scope.
    """
    left = [b for b in part.scope.readers(part.buffer) if b is not part.block and b not in (consumers or ())]
    return place_between(part.tree, part.block, left) if left else end_of(part.scope)


@requirement
def readers_are_consumers(
    state: ScheduleState,
    consumer_blocks: Sequence[BlockRealize] | None,
    block: BlockRealize,
) -> Failure | None:
    """the blocks in consumer_blocks are in the block's scope"""
    tree = state.home(block)
    for consumer in consumer_blocks or ():
        if consumer not in tree.order or tree.scope(consumer) is not tree.scope(block):
            return Failure(
                {consumer.block: "is in another scope"},
                f"consumers in the scope of {block.block.name}",
                consumer.block.name,
            )
    return None


def _only_blocks_touch(part: staging.BufferPart) -> Failure | None:
    buffer = part.buffer
    for access in accesses(part.tree, part.scope.realize.block.body):
        if access.buffer is buffer and not isinstance(access.spot, BufferRegion):
            return Failure(
                {access.spot: "outside of a block"},
                f"{buffer.name} read and written inside blocks only",
                f"{'a store' if isinstance(access.spot, BufferStore) else 'a load'} between blocks",
            )
    return None


@requirement
def read_in_blocks(match: staging.BufferPart) -> Failure | None:
    """in the scope, only blocks touch the buffer"""
    return _only_blocks_touch(match)


@requirement
def written_in_blocks(match: staging.BufferPart) -> Failure | None:
    """in the scope, only blocks touch the buffer"""
    return _only_blocks_touch(match)


values_of_writer = holds_inside(
    "values_of_writer",
    """every reader of the new buffer reads only elements that were copied or written there: in each iteration of the
    loops that they share, the box that the writer fills contains the box that is read""",
)


def refuse_other_values(
    state: ScheduleState, tree: Tree, writer: BlockRealize, readers: Sequence[BlockRealize], buffer: Buffer
) -> None:
    """Raise `Refused` if a reader may find a value in the buffer that did not come from its only writer, `writer`."""
    if buffer in Scope.around(tree, writer).allocated:
        return  # any other value in it would be undefined
    for reader in readers:
        failure = uncovered(state, tree, writer, reader)
        if failure is None:
            failure = _more_than_written(state, tree, writer, reader, buffer)
        if failure is not None:
            raise values_of_writer.refuse(failure)


def _more_than_written(
    state: ScheduleState, tree: Tree, writer: BlockRealize, reader: BlockRealize, buffer: Buffer
) -> Failure | None:
    shared = [l for l in tree.loops_above(writer) if tree.inside(reader, l)]
    within = shared[-1] if shared else tree.scope(writer).block
    analyzer = state.analyzer(within)
    written = staging.region_of(regions_written(writer.block), buffer)
    read = staging.region_of(regions_read(reader.block), buffer)
    if written is None or read is None:
        return None
    box_written, box_read = (touched(tree, b, r, within, analyzer) for b, r in ((writer, written), (reader, read)))
    if regions.covers(box_written, box_read, analyzer):
        return None
    return Failure(
        {writer.block: f"writes {box_text(buffer, box_written)}", reader.block: f"reads {box_text(buffer, box_read)}"},
        f"all that {reader.block.name} reads of {buffer.name} written by {writer.block.name}",
        f"{box_text(buffer, box_read)} is read, {box_text(buffer, box_written)} is written",
    )


@primitive(
    aka={"Halide": "in"},
    past="was cached in",
    requires=[reads_it, known_scope, readers_are_consumers, at_most_one_writer, read_in_blocks],
    match=staging.part_read,
)
def cache_read(
    state: ScheduleState,
    match: staging.BufferPart,
    block: BlockRealize,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRealize] | None = None,
) -> BlockRealize:
    """Copy a buffer that a block reads into a buffer of another scope, and make the readers use the copy.

    before:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                with T.init(): C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    call: `A_local = sch.cache_read("C", 0, "local")`
    after:
        A_local = T.alloc_buffer((8, 8), scope="local")
        for ax0, ax1 in T.grid(8, 8):
            with T.block("A_local"): A_local[v0, v1] = A[v0, v1]
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                with T.init(): C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A_local[vi, vk] * B[vk, vj]

    The new buffer has the shape of the old one. If a block writes the buffer, everything that it writes is copied
    before the first reader. An input is copied in full at the start of the scope. You can move the copy with
    compute_at. `consumer_blocks` are the readers that use the copy, by default all readers in the scope.
    """
    tree, scope, buffer = match.tree, match.scope, match.buffer
    writers = scope.writers(buffer)
    readers = [r for r in scope.readers(buffer) if r not in writers]
    consumers = [r for r in readers if r in (consumer_blocks or readers)]
    if writers:
        place = place_between(tree, writers[0], consumers)
        box = staging.box_written(state, tree, writers[0], buffer, place.within)
        refuse_other_values(state, tree, writers[0], consumers, buffer)
    else:
        place = start_of(scope)
        box = staging.box_to_read(state, tree, buffer, consumers, place.within)
    return staging.stage(state, match, storage_scope, box, consumers, place)


_HALF_OVERWRITTEN = """
def half_overwritten(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(4):
        with T.block("A"): A[vi] = 0.0
    for i in range(8):
        with T.block("B"): B[vi] = A[vi]
"""
cache_read.refuses(reads_it, "sch.cache_read('C', 2, 'local')", on.MATMUL)
cache_read.refuses(known_scope, "sch.cache_read('C', 0, 'shard')", on.MATMUL)
cache_read.refuses(readers_are_consumers, "sch.cache_read('outer', 0, 'local', consumer_blocks=['inner'])", on.NESTED)
cache_read.refuses(at_most_one_writer, "sch.cache_read('C', 0, 'local')", on.WRITTEN_TWICE)
cache_read.refuses(read_in_blocks, "sch.cache_read('B', 0, 'local')", on.CONDITION_ON_INPUT)
cache_read.refuses(staging.initialised, "sch.cache_read('C', 0, 'local')", on.SPARSE)
cache_read.refuses(values_of_writer, "sch.cache_read('B', 0, 'local')", _HALF_OVERWRITTEN)


@primitive(
    past="was cached in",
    requires=[writes_it, known_scope, readers_are_consumers, only_writer, fills_its_box, written_in_blocks],
    match=staging.part_written,
)
def cache_write(
    state: ScheduleState,
    match: staging.BufferPart,
    block: BlockRealize,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRealize] | None = None,
) -> BlockRealize:
    """Make a block write into a buffer of another scope, and copy the result to the original buffer.

    before:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                with T.init(): C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    call: `C_local = sch.cache_write("C", 0, "local")`
    after:
        C_local = T.alloc_buffer((8, 8), scope="local")
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                with T.init(): C_local[vi, vj] = 0.0
                C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
        for ax0, ax1 in T.grid(8, 8):
            with T.block("C_local"): C[v0, v1] = C_local[v0, v1]

    `consumer_blocks` are readers that use the new buffer too; by default there are none. The copy is inserted
    before the first other reader, or at the end of the scope. You can move it with reverse_compute_at.
    """
    scope, buffer = match.scope, match.buffer
    consumers = [r for r in scope.readers(buffer) if r is not block and r in (consumer_blocks or ())]
    refuse_other_values(state, match.tree, block, consumers, buffer)
    place = _place_to_copy_back(match, consumer_blocks)
    box = touched(match.tree, block, match.region, place.within, staging.in_scope(state, match.tree, place.within))
    return staging.stage(state, match, storage_scope, box, [block, *consumers], place)


_CONDITION_ON_TEMPORARY = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"): B[vi] = A[vi]
for i in range(8):
    if B[i] > 0.0:
        with T.block("C"): C[vi] = B[vi]
"""
cache_write.refuses(writes_it, "sch.cache_write('C', 1, 'local')", on.MATMUL)
cache_write.refuses(known_scope, "sch.cache_write('C', 0, 'locl')", on.MATMUL)
cache_write.refuses(readers_are_consumers, "sch.cache_write('outer', 0, 'local', consumer_blocks=['inner'])", on.NESTED)
cache_write.refuses(only_writer, "sch.cache_write('B', 0, 'local')", on.WRITTEN_TWICE)
cache_write.refuses(fills_its_box, "sch.cache_write('B', 0, 'local')", on.SPARSE)
cache_write.refuses(written_in_blocks, "sch.cache_write('B', 0, 'local')", _CONDITION_ON_TEMPORARY)
cache_write.refuses(values_of_writer, "sch.cache_write('A', 0, 'local', consumer_blocks=['B'])", _HALF_OVERWRITTEN)


def each_read(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    """Yield arguments that are worth trying: each block with the position of each region that it reads, and a scope."""
    for block in state.tree().blocks.values():
        if block is not state.tree().root:
            for k in range(len(buffers_read(block.block))):
                yield block, k, "local"


@cache_read.space
def _cache_read_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block, k, storage_scope in each_read(state):
        yield block, k, storage_scope
        readers = Scope.around(tree, block).readers(buffers_read(block.block)[k])
        if len(readers) > 1:
            yield block, k, storage_scope, [block]


@cache_write.space
def _cache_write_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block is tree.root:
            continue
        for k, region in enumerate(regions_written(block.block)):
            yield block, k, "local"
            readers = [r for r in Scope.around(tree, block).readers(region.buffer) if r is not block]
            if readers:
                yield block, k, "local", readers[:1]
