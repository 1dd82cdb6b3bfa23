"""A copy for a block that updates a buffer in place: cache_inplace."""

from __future__ import annotations

from .....arith import Analyzer, regions
from .....expr import Node, walk
from .....tir.analysis.block_regions import regions_read, regions_written
from .....tir.analysis.boxes import bound_box, hull
from .....tir.analysis.surely import first_reads, reads_before_writing
from .....tir.analysis.tree import Tree
from .....tir.nodes import BlockRealize, Buffer, BufferStore
from .....tir.schedule import programs as on
from .....tir.schedule import staging
from .....tir.schedule.insertion import InsertionPoint, refuse_races
from .....tir.schedule.moving import box_text
from .....tir.schedule.primitives.cache import each_read, read_in_blocks, reads_it
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.requirements import known_scope
from .....tir.schedule.state import ScheduleState, guard


@requirement
def updates_it(block: BlockRealize, match: staging.BufferPart) -> Failure | None:
    """the block also writes the buffer that it reads"""
    if staging.region_of(regions_written(block.block), match.buffer) is not None:
        return None
    name = match.buffer.name
    return Failure(
        {block.block: "this block"},
        f"a block that reads and writes {name}",
        f"{block.block.name} only reads it",
        (f"cache_read({block.block.name}, {name!r}, ...)",),
    )


@requirement
def writes_what_it_reads(block: BlockRealize, match: staging.BufferPart) -> Failure | None:
    """the write region is inside the read region, so the block has copied in or written every element that is copied
    back"""
    read, buffer = match.region, match.buffer
    write = staging.region_of(regions_written(block.block), buffer)
    assert write is not None  # updates_it
    analyzer = Analyzer.inside(*block.block.iter_vars)
    if regions.covers(read.region, write.region, analyzer):
        return None
    return Failure(
        {read: "is read", write: "is written"},
        f"what {block.block.name} writes of {buffer.name} inside what it reads of it",
        f"{box_text(buffer, write.region)} is not shown to lie inside {box_text(buffer, read.region)}",
    )


@requirement
def finds_values(block: BlockRealize, match: staging.BufferPart) -> Failure | None:
    """every element that is copied in has a value, because the block reads it before writing it or the caller set it"""
    buffer = match.buffer
    copied = [r for r in regions_read(block.block) if r.buffer is buffer]
    if all(reads_before_writing(block.block, r) for r in copied) or _is_given(match.tree, block, buffer):
        return None
    inner = [b.block.name for b in match.tree.blocks_in(block)]
    return Failure(
        dict.fromkeys(copied, "is copied in"),
        f"every element of it read by {block.block.name} before it is written, so that there is something to copy",
        f"{block.block.name} holds blocks that may write first: {', '.join(inner)}"
        if inner
        else f"{block.block.name} may leave out elements of {buffer.name}, or write them first",
    )


def _is_given(tree: Tree, block: BlockRealize, buffer: Buffer) -> bool:
    """Whether a parameter's values come from the caller: only the block writes it, and reads before it writes."""

    def stores(node: Node) -> int:
        return sum(isinstance(part, BufferStore) and part.buffer is buffer for part in walk(node))

    if buffer not in tree.func.buffers or stores(tree.func.body) != stores(block.block):
        return False
    return any(t.sure and not t.conditions and not t.loops for t in first_reads(block.block, buffer))


@primitive(
    past="was cached in",
    requires=[reads_it, known_scope, updates_it, writes_what_it_reads, read_in_blocks, finds_values],
    match=staging.part_read,
)
def cache_inplace(
    state: ScheduleState,
    match: staging.BufferPart,
    block: BlockRealize,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
) -> list[BlockRealize]:
    """Make a block update a copy of a buffer, which is filled right before the block and copied back right after it.

    before:
        for i in range(8):
            with T.block("A"): A[vi] = A[vi] + 1.0
    call: `copy_in, copy_out = sch.cache_inplace("A", 0, "local")`
    after:
        A_local = T.alloc_buffer((8,), scope="local")
        for i in range(8):
            for ax0 in range(1):
                with T.block("A_local"):
                    v0 = T.axis.spatial(8, i + ax0)
                    A_local[v0] = A[v0]
            with T.block("A"): A_local[vi] = A_local[vi] + 1.0
            for ax0 in range(1):
                with T.block("A_local"):
                    v0 = T.axis.spatial(8, i + ax0)
                    A[v0] = A_local[v0]
    """
    tree, buffer = match.tree, match.buffer
    cached = staging.copy_of(tree, buffer, storage_scope)
    step = staging.staged(match, cached, [block])
    for back, touched in ((False, regions_read(block.block)), (True, regions_written(block.block))):
        analyzer = state.analyzer(block)
        box = hull([bound_box(block, r) for r in touched if r.buffer is buffer], analyzer)
        box = staging.bounded(tree, box, buffer, analyzer, block, tree.parent[block])
        nest = guard(staging.copy_nest(tree, buffer, cached, box, analyzer, back), block.predicate)
        step.copies.append((InsertionPoint(tree.parent[block], block, after=back), nest))
    copies = step.apply(state)
    refuse_races(state, copies[0])
    return copies


_SHIFTED = """
for i in range(8):
    with T.block("A"): A[vi] = A[vi + 1]
"""
_INCREMENTED = """
for i in range(8):
    with T.block("A"): A[vi] = A[vi] + 1.0
"""
_STARTED_IN_PLACE = """
for i in range(8):
    with T.block("B"):
        B[vi] = A[vi]
        B[vi] = B[vi] + 1.0
"""
_CONDITION_ON_ITSELF = """
for i in range(8):
    if A[i] > 0.0:
        with T.block("A"): A[vi] = A[vi] + 1.0
"""
cache_inplace.refuses(reads_it, "sch.cache_inplace('A', 'B', 'local')", _INCREMENTED)
cache_inplace.refuses(known_scope, "sch.cache_inplace('A', 0, 'registers')", _INCREMENTED)
cache_inplace.refuses(updates_it, "sch.cache_inplace('C', 0, 'local')", on.MATMUL)
cache_inplace.refuses(writes_what_it_reads, "sch.cache_inplace('A', 0, 'local')", _SHIFTED)
cache_inplace.refuses(read_in_blocks, "sch.cache_inplace('A', 0, 'local')", _CONDITION_ON_ITSELF)
cache_inplace.refuses(finds_values, "sch.cache_inplace('B', 'B', 'local')", _STARTED_IN_PLACE)


cache_inplace.space(each_read)
