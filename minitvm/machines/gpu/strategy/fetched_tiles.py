"""Tiles of operands that the threads of a block fetch together into shared storage.

    for each piece of the sum:
        A_shared[m, k] = x[.. of m and k ..]            # `staged`, `padded` and `fetched`
        wait
        ... the block uses the tile ...

An axis of a tile is a group of the block's iterators, joined into one. In a matrix product, each group is a single
iterator. In a convolution, the steps of the sum are the input channels and the places of the kernel, and the tile is
the matrix of implicit GEMM. The indices of the operand determine which elements a piece needs. Element-wise producers
of the operand, such as padding, are computed while the tile is fetched. If tiles do not divide the extents of a sum,
the tile is padded with zeros.

`shared_tiles` (a tile of results in the registers of each thread) and `tensor_cores` (of each warp) fetch this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ....errors import ScheduleError
from ....expr import Call, Expr, Node, Select, children, walk
from ....strategy.blocks import block_of, constant_extent, extents, inlinable
from ....strategy.roles import joined, quotients, step_along
from ....tir import IndexMap, Schedule
from ....tir.analysis.block_regions import buffers_written, regions_read
from ....tir.nodes import Block, BufferLoad, BufferStore, For, ForKind
from ....tir.transform.affine import coefficient, linear
from .grid import fused

Axes = Sequence[Sequence[int]]  # of a tile: each axis the positions of the iterators that it joins, outer ones first


def staged(sch: Schedule, block: Any, buffer: str, axes: Axes, scope: str = "shared") -> Any:
    """Copy the elements of a buffer that a block reads into a tile. The loops of the copy are the axes of the tile."""
    now = block_of(sch, block)
    read = next(p for p, region in enumerate(regions_read(now)) if region.buffer.name == buffer)
    iterators = now.iter_vars
    tile = IndexMap.from_func(lambda *i: joined(i, iterators, axes), ndim=len(iterators))
    copy = sch.reindex_cache_read(block, read, scope, tile)
    relooped(sch, copy, iterators, axes)
    return copy


def relooped(sch: Schedule, block: Any, iterators: Sequence[Any], axes: Axes) -> None:
    """Change the loops of a block from iterators to the axes that they are joined to."""
    used = sorted(position for axis in axes for position in axis)
    if list(axes) == [[position] for position in used]:
        return
    own = [iterators[position] for position in used]
    places = [[used.index(position) for position in axis] for axis in axes]
    sch.transform_block_layout(block, IndexMap.from_func(lambda *i: joined(i, own, places), ndim=len(own)))


def padded(sch: Schedule, block: Any, main: Any, copies: list[Any], multiples: Sequence[int], scope: str) -> bool:
    """Pad a sum to multiples of its tile's extents, and return whether padding was necessary.

    `copies` is updated to the padded copies. `main` reads the sum, which is then in storage of this scope.
    """
    now = block_of(sch, block)
    sizes = extents(axis.dom.extent for axis in now.iter_vars)
    if all(size is not None and size % some == 0 for size, some in zip(sizes, multiples, strict=True)):
        return False
    sch.pad_einsum(block, multiples)
    for number, copy in enumerate(copies):
        (reader,) = sch.get_consumers(copy)
        if block_of(sch, reader).name != now.name:
            tile = buffers_written(block_of(sch, copy))[0].scope
            sch.compute_inline(copy)
            sch.set_scope(reader, 0, tile)
            copies[number] = reader
    (reader,) = sch.get_consumers(block)
    if block_of(sch, reader).name != block_of(sch, main).name:
        sch.compute_inline(reader)
        sch.set_scope(block, 0, scope)
    return True


def along(block: Block, load: BufferLoad, axes: Axes) -> int:
    """Return the axis of a tile along which the operand is contiguous, or the last axis if there is none."""
    ends = [end_of(block, axis) for axis in axes]
    return next((p for p in reversed(range(len(axes))) if step_along(load, ends[p].var) == 1), len(axes) - 1)


def end_of(block: Block, axis: Sequence[int]) -> Any:
    """Return the innermost iterator of an axis that has more than one value."""
    sizes = extents(block.iter_vars[position].dom.extent for position in axis)
    moving = [position for position, extent in zip(axis, sizes, strict=True) if extent != 1]
    return block.iter_vars[(moving or axis)[-1]]


def run_of(block: Block, load: BufferLoad, axis: Sequence[int], lanes: int) -> int:
    """Return how many neighbours along an axis, at most `lanes`, can be loaded in one aligned access."""
    end = end_of(block, axis)
    if step_along(load, end.var) != 1:
        return 1
    index = next(i for i in reversed(load.indices) if any(node is end.var for node in walk(i)))
    form, (row,) = linear(index), extents([end.dom.extent])
    others = [axis.var for axis in block.iter_vars if axis.var is not end.var]
    steps = [coefficient(form, var) if any(node is var for node in walk(index)) else 0 for var in others]
    sizes = [row, extents(load.buffer.shape)[-1], *steps]
    while lanes > 1 and any(size is None or size % lanes for size in sizes):
        lanes //= 2
    return lanes


Threads = Sequence[tuple[str, int]]  # axes of threads, each with how many there are


def fetched(sch: Schedule, copy: Any, count: int, axis: int, lanes: int, threads: Threads) -> int:
    """Share out the last `count` loops of a copy among threads, with `axis` innermost. Return the elements per access.

    Element-wise producers of the operand are computed here. A thread fetches `lanes` elements at once, or fewer if
    padding could begin inside of such a group.
    """
    inlined(sch, copy)
    lanes = _lanes_of(sch, copy, count, axis, lanes)
    _shared_out(sch, copy, count, axis, lanes, threads)
    return lanes


def by_way_of_registers(
    sch: Schedule, copy: Any, piece: Any, tile: Sequence[int], axis: int, lanes: int, threads: Threads
) -> Any:
    """Copy a tile for each `piece` of the sum as `fetched` does, but in two blocks. Return the second one.

    `copy` fetches to storage in which each thread has a place for every element that it fetches, and the second block
    stores from there. `tile` holds the extents of the copy's axes. `kept_in_registers` later changes the scope of this
    storage to "local", so that the places become registers. That must be the last step, because loops cannot be shared
    between threads that own storage.
    """
    inlined(sch, copy)
    store = sch.cache_write(copy, 0, "shared")
    for block in (store, copy):
        sch.compute_at(block, piece, preserve_unit_loops=True)
    lanes = _lanes_of(sch, copy, len(tile), axis, lanes)
    for block in (copy, store):
        for loop in _shared_out(sch, block, len(tile), axis, lanes, threads):
            sch.unroll(loop)
    sizes = [size for _, size in threads]

    def places(*index: Any) -> list[Any]:
        number = index[0] * 0
        for p, size in enumerate(tile):
            if p != axis:
                number = number * size + index[p] % size
        number = number * (tile[axis] // lanes) + index[axis] % tile[axis] // lanes
        each = []
        for size in reversed(sizes):
            each.append(number % size)
            number = number // size
        tiles = [at // size for at, size in zip(index, tile, strict=True)]
        return [*tiles, number, *reversed(each), index[axis] % lanes]

    sch.transform_layout(copy, ("write", 0), IndexMap.from_func(places, ndim=len(tile)))
    return store


def kept_in_registers(sch: Schedule, copies: Sequence[Any]) -> None:
    """Move the storage that these blocks write into the registers of each thread."""
    for copy in copies:
        sch.set_scope(copy, 0, "local")


def _lanes_of(sch: Schedule, copy: Any, count: int, axis: int, lanes: int) -> int:
    """Return how many neighbours along an axis a copy can fetch at once, so that either all of them are padding or none
    is.
    """
    extent, block = constant_extent(sch, list(sch.get_loops(copy))[-count:][axis]), block_of(sch, copy)
    while lanes > 1 and (extent is None or extent % lanes or not _all_or_none(block, axis - count, lanes)):
        lanes //= 2
    return lanes


def _shared_out(sch: Schedule, block: Any, count: int, axis: int, lanes: int, threads: Threads) -> list[Any]:
    """Share out the last `count` loops of a block among threads. Return the loops over the work of one thread."""
    own = list(sch.get_loops(block))[-count:]
    if axis != count - 1:
        sch.reorder(*(loop for p, loop in enumerate(own) if p != axis), own[axis])
    outer = [loop for p, loop in enumerate(own) if p != axis]
    inner, lane = sch.split(own[axis], [None, lanes]) if lanes > 1 else (own[axis], None)
    mine, *parts = sch.split(fused(sch, [*outer, inner]), [None, *(size for _, size in threads)])
    for loop, (name, _) in zip(parts, threads, strict=True):
        sch.bind(loop, name)
    if lane is not None:
        sch.vectorize(lane)
    return [mine]


def inlined(sch: Schedule, copy: Any) -> None:
    """Inline the element-wise producers of an operand into its copy, except those that are already bound to a grid."""
    for producer in sch.get_producers(copy):
        kinds = [node.kind for node in map(sch.get, sch.get_loops(producer)) if isinstance(node, For)]
        if inlinable(sch.func, block_of(sch, producer)) and ForKind.THREAD not in kinds:
            with suppress(ScheduleError):
                sch.compute_inline(producer)


def _all_or_none(block: Block, axis: int, lanes: int) -> bool:
    """Return whether each condition of a copy holds for all of `lanes` neighbours along an iterator, or for none of
    them.
    """
    var = block.iter_vars[axis].var
    assert isinstance(block.body, BufferStore)
    conditions = list(_conditions(block.body.value))
    constants = quotients(conditions, var)
    return constants is not None and all(constant % lanes == 0 for constant in constants)


def _conditions(e: Node) -> list[Expr]:
    """Return the conditions under which an expression reads, and the function calls in it that are not copies."""
    conditions: list[Expr] = []
    if isinstance(e, Select):
        conditions.append(e.condition)
    elif isinstance(e, Call):
        conditions += [e.args[0]] if e.op == "if_then_else" else [e]
    for child in children(e):
        conditions += _conditions(child)
    return conditions


def in_stages(sch: Schedule, piece: Any, stages: int) -> None:
    """Run a loop of two copies and a product as a pipeline, with `stages` pieces in shared storage at a time.

    With two stages, a step begins the next copies and then multiplies while they run. With more stages, it multiplies
    first, and then begins copies into the storage that the previous step has finished with, so that asynchronous
    products and copies overlap.
    """
    sch.annotate(piece, "software_pipeline_stage", [0, 0, stages - 1])
    sch.annotate(piece, "software_pipeline_order", [0, 1, 2] if stages == 2 else [1, 2, 0])
    sch.annotate(piece, "software_pipeline_async_stages", [0])
    if stages > 2:  # else what is multiplied is what is overwritten, and threads would wait in between
        sch.annotate(piece, "software_pipeline_spare_versions", 1)
