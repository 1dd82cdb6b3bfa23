"""Change how and where a buffer is stored: storage_align, set_scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....expr import replace
from ... import nodes as tir
from ...analysis.block_regions import buffers_touched, regions_written
from ...analysis.threads import each_axis_once, owns
from ...analysis.tree import Tree
from ...annotations import ALIGNMENTS
from .. import programs as on
from ..registry import Failure, primitive, requirement
from ..requirements import known_scope
from ..staging import free_name, listing, region_of, scoped_name
from ..state import ScheduleState
from ..thread_storage import passes_on
from ..views import views_on, with_buffers


@requirement
def written_buffer(
    state: ScheduleState, block: tir.BlockRealize, buffer_index: int | str | tir.Buffer
) -> Failure | None:
    """buffer_index is the position or the name of a buffer that the block writes"""
    if region_of(regions_written(block.block), buffer_index) is not None:
        return None
    expected = f"one of the buffers that {block.block.name} writes, which are {listing(regions_written(block.block))}"
    return Failure({block.block: "this block"}, expected, repr(buffer_index))


@requirement
def allocated(state: ScheduleState, block: tir.BlockRealize, buffer_index: int | str | tir.Buffer) -> Failure | None:
    """the buffer is allocated by a block of the function, because the caller decides how a parameter is stored"""
    buffer = buffer_written(block, buffer_index)
    if _owner(state.home(block), buffer) is not None:
        return None
    kind = "a parameter" if buffer in state.home(block).func.params else "a view"
    return Failure(
        {block.block: f"writes {buffer.name}"},
        "a buffer that the function allocates",
        f"{buffer.name} is {kind}",
        ("cache_write, and do this to the copy",),
    )


@requirement
def axis_of_buffer(
    state: ScheduleState, block: tir.BlockRealize, buffer_index: int | str | tir.Buffer, axis: int
) -> Failure | None:
    """-ndim <= axis < ndim"""
    buffer = buffer_written(block, buffer_index)
    if -buffer.ndim <= axis < buffer.ndim:
        return None
    return Failure(
        {block.block: f"writes {buffer.name}"}, f"an axis from {-buffer.ndim} to {buffer.ndim - 1}", str(axis)
    )


@requirement
def alignment(state: ScheduleState, block: tir.BlockRealize, factor: int, offset: int) -> Failure | None:
    """factor > 0 and 0 <= offset < factor; the stride becomes offset modulo factor"""
    if factor > 0 and 0 <= offset < factor:
        return None
    return Failure(
        {block.block: ""}, "a factor above zero and an offset from 0 to below it", f"factor={factor}, offset={offset}"
    )


def buffer_written(block: tir.BlockRealize, index: int | str | tir.Buffer) -> tir.Buffer:
    """Return the buffer that `index` selects, by position or by name, among those that a block writes (see
    `written_buffer`).
    """
    region = region_of(regions_written(block.block), index)
    assert region is not None  # written_buffer holds
    return region.buffer


def _owner(tree: Tree, buffer: tir.Buffer) -> tir.BlockRealize | None:
    """Return the block that allocates a buffer; None if no block does."""
    return next((b for b in tree.blocks.values() if buffer in b.block.alloc_buffers), None)


@primitive(requires=[written_buffer, allocated, axis_of_buffer, alignment])
def storage_align(
    state: ScheduleState, block: tir.BlockRealize, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Make the stride of a dimension equal `offset` modulo `factor`, so that rows use different cache sets.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.storage_align("B", 0, axis=-2, factor=32, offset=1)`
    after:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.block_attr({"buffer_dim_align": [[0, 0, 32, 1]]})
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0

    In the example, lowering gives B the strides (129, 1). Indices do not change, so the meaning of the program
    stays the same.
    """
    buffer = buffer_written(block, buffer_index)
    number = next(k for k, region in enumerate(regions_written(block.block)) if region.buffer is buffer)
    axis %= buffer.ndim
    earlier = [list(entry) for entry in block.block.annotations.get(ALIGNMENTS, ())]
    kept = [entry for entry in earlier if entry[:2] != [number, axis]]
    entries = sorted([*kept, [number, axis, factor, offset]])
    state.replace({block.block: replace(block.block, annotations={**block.block.annotations, ALIGNMENTS: entries})})


storage_align.refuses(written_buffer, "sch.storage_align('B', 1, 0, 8, 1)", on.TWO_ROWS)
storage_align.refuses(allocated, "sch.storage_align('C', 0, 0, 8, 1)", on.TWO_ROWS)
storage_align.refuses(axis_of_buffer, "sch.storage_align('B', 0, 2, 8, 1)", on.TWO_ROWS)
storage_align.refuses(alignment, "sch.storage_align('B', 0, 0, 8, 9)", on.TWO_ROWS)


@storage_align.space
def _storage_align_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block, number, buffer in each_written(state.tree()):
        for axis in range(buffer.ndim):
            yield block, number, axis, 8, 1
        if buffer.ndim > 1:
            yield block, number, -2, 5, 0


def each_written(tree: Tree) -> Iterator[tuple[tir.BlockRealize, int, tir.Buffer]]:
    """Yield (block, position, buffer) for each buffer that a block writes and that the function allocates."""
    for block in tree.blocks.values():
        for number, region in enumerate(regions_written(block.block)):
            if _owner(tree, region.buffer) is not None:
                yield block, number, region.buffer


@requirement
def one_owner(
    state: ScheduleState, block: tir.BlockRealize, buffer_index: int | str | tir.Buffer, storage_scope: str
) -> Failure | None:
    """each piece of the storage is touched only by its owner, and iterations without a defined order share no piece

    All accesses are inside the same loops that divide the storage: threads and parallel loops for "local" and for any
    scope that is neither global nor shared, and block indices (and parallel loops) for "shared". Iterations of such a
    loop pass no values to each other. A loop over threads inside a loop with the same axis counts as that axis.
    """
    buffer = buffer_written(block, buffer_index)
    if buffer.scope == storage_scope:
        return None
    tree = state.home(block)
    failure = _shared_with(state, tree, buffer, storage_scope)
    if failure is None:
        return None
    func = each_axis_once(tree.func, _loops_around(tree, buffer))
    other = ScheduleState(tir.IRModule({func.name: func}), func.name)
    return None if _shared_with(other, other.tree(), buffer, storage_scope) is None else failure


def _loops_around(tree: Tree, buffer: tir.Buffer) -> set[tir.For]:
    """Return all loops that are around at least one of the blocks that use a buffer."""
    users = [b for b in tree.blocks.values() if buffer in buffers_touched(b.block)]
    return {loop for user in users for loop in tree.all_loops_above(user)}


def _shared_with(state: ScheduleState, tree: Tree, buffer: tir.Buffer, storage_scope: str) -> Failure | None:
    """Return a `Failure` if a block would share the buffer with another thread once the buffer is in `storage_scope`;
    None otherwise.
    """
    places: list[tuple[tir.BlockRealize, frozenset[tir.For]]] = []
    concurrent: list[tir.For] = []
    for other in tree.blocks.values():
        if buffer in buffers_touched(other.block) and not tree.blocks_in(other):
            around = tree.all_loops_above(other)
            places.append(
                (other, frozenset(l for l in around if l.kind == tir.ForKind.PARALLEL or owns(l, storage_scope)))
            )
            concurrent += [l for l in around if l.kind in tir.CONCURRENT]
    for loop in dict.fromkeys(concurrent):
        if passes_on(state, tree, loop, buffer, storage_scope):
            return Failure(
                {loop: f"{loop.thread or loop.kind}: its iterations run in no order"},
                f"iterations of {loop.var.name} that meet in no element of {buffer.name} in {storage_scope} storage",
                f"one may read or overwrite there what another has written to {buffer.name}",
            )
    if storage_scope.startswith("global"):
        return None
    for other, loops in places[1:]:
        if loops != places[0][1]:
            loop = next(iter(loops ^ places[0][1]))
            kind = loop.thread or str(loop.kind)
            inside, outside = (other, places[0][0]) if loop in loops else (places[0][0], other)
            return Failure(
                {loop: f"{kind}: has its own {storage_scope} storage", outside.block: f"touches {buffer.name} outside"},
                f"{buffer.name} touched inside {loop.var.name} only: its iterations share no {storage_scope} storage",
                f"{inside.block.name} is inside, {outside.block.name} is not",
                ("compute_at, to bring both together",),
            )
    return None


@primitive(requires=[written_buffer, allocated, known_scope, one_owner])
def set_scope(
    state: ScheduleState, block: tir.BlockRealize, buffer_index: int | str | tir.Buffer, storage_scope: str
) -> None:
    """Move a buffer to another scope, such as "shared" or "local". All blocks that use it are changed accordingly.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.set_scope("B", 0, "shared")`
    after:
        B_shared = T.alloc_buffer((8, 8), scope="shared")
        for i, j in T.grid(8, 8):
            with T.block("B"): B_shared[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B_shared[vi, vj] + 1.0

    Moving a buffer to "local" can also remove loops. Suppose that the threads of a block fetch the buffer together: an
    inner loop is bound to the same thread axis as an outer loop, so each thread runs one of its iterations. In "local"
    scope each thread owns the elements that it fetches, so the inner loop is removed, and each thread runs only its own
    iteration.
    """
    tree = state.home(block)
    buffer = buffer_written(block, buffer_index)
    if buffer.scope == storage_scope:
        return
    if not storage_scope.startswith(("global", "shared")) and _shared_with(state, tree, buffer, storage_scope):
        tree = Tree(each_axis_once(tree.func, _loops_around(tree, buffer)))
    moved = {buffer: replace(buffer, name=free_name(tree, scoped_name(buffer, storage_scope)), scope=storage_scope)}
    for view in views_on(tree.func.body, buffer):
        moved[view] = replace(view, scope=storage_scope)
    state.set_func(state.home(block), tree.func.with_body(with_buffers(tree.func.body, moved)))


set_scope.refuses(written_buffer, "sch.set_scope('B', 1, 'shared')", on.TWO_ROWS)
set_scope.refuses(allocated, "sch.set_scope('C', 0, 'shared')", on.TWO_ROWS)
set_scope.refuses(known_scope, "sch.set_scope('B', 0, 'sharde')", on.TWO_ROWS)
set_scope.refuses(
    one_owner, "sch.bind(sch.get_loops('B')[0], 'threadIdx.x'); sch.set_scope('B', 0, 'local')", on.TWO_ROWS
)


@set_scope.space
def _set_scope_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block, number, buffer in each_written(state.tree()):
        for scope in ("local", "shared", "global"):
            if scope != buffer.scope:
                yield block, number, scope
