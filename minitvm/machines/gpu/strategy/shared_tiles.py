"""Schedule contractions whose operands a block of threads fetches together into shared storage.

    for each tile of the result, on blockIdx:
        acc[rows, vectors] = 0                          # registers
        for ko:                                         # a piece of the sum
            A_shared[k, m], B_shared[k, n] = ...        # each thread fetches a part of both, in vectors if possible
            wait
            for k: acc[r, v] += A_shared[k, r] * B_shared[k, v]
            wait
        out[rows, vectors] = epilogue(acc)

The sum is the outer axis of both tiles. So the rows of a thread are neighbours, which need one load, and the vectors of
neighbouring threads are neighbours, which avoids bank conflicts. The vectors of one thread are a row of threads apart,
as virtual threads. An operand that is contiguous along the sum is transposed in the copy. Its lines are then four
elements longer, so that neighbouring threads do not store to the same bank. (The tiles of Volkov and Demmel, SC'08, as
in CUTLASS and TVM.)

If tiles do not divide the extents, the operands are padded with zeros when they are fetched, and the result is padded
in registers.

The indices of an operand determine which elements a block needs. For a convolution, the tile of its input is the matrix
of implicit GEMM, and padding is computed when the tile is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ....expr import REDUCE
from ....strategy.blocks import block_of, constant_extent, extents, largest_divisor
from ....strategy.roles import Roles, depends, operands
from ....strategy.tile_nest import LANES, REGISTERS, THREADS, VIRTUAL, TileNest
from ....tir import Schedule
from ....tir.nodes import Block, BufferLoad
from .costs import APART, BANKS, BlockTile, ThreadTile
from .fetched_tiles import Axes, along, fetched, padded, run_of, staged
from .grid import fused, over_blocks_of_threads


def schedule_shared(
    sch: Schedule, way: Roles, block: Any, main: Any, further: int | None, tile: ThreadTile, threads: BlockTile
) -> tuple[set[str], list[Any]]:  # fmt: skip
    """Schedule the sum `block` and `main`, which follows it. Return the names of the scheduled blocks, and the fetching
    blocks.

    The fetching blocks may become double buffers. Do that last, because every step after it is checked against the
    order that a double buffer requires.
    """
    sizes = _sizes(way, further, tile, threads)
    now = block_of(sch, block)
    loads = _loads(now, way.vectors.buffer.name)
    axes_of = [_axes(way, now, load, load is loads[1], further) for load in loads]
    copies = [staged(sch, block, load.buffer.name, axes) for load, axes in zip(loads, axes_of, strict=True)]
    padded(sch, block, main, copies, _multiples(now, sizes, threads.depth), "local")
    nest = TileNest(sch, block, main)
    for axis, levels in sizes.items():
        nest.cut(axis, **levels)
    nest.order(nest.outside_first(list(sizes)))
    own, reduction = nest.axes_and_steps(nest.sum_in_thread(over_blocks_of_threads(nest)))
    pieces, inner = _pieces(sch, reduction, threads.depth)
    own = [own[axis] for axis in nest.axes]
    sch.reorder(*pieces, *inner, *own)
    piece = fused(sch, pieces)
    for copy in copies:
        sch.compute_at(copy, piece, preserve_unit_loops=True)
    for copy, load, tile_axes in zip(copies, loads, axes_of, strict=True):
        _fetch(sch, copy, now, load, tile_axes, tile, threads.threads)
    nest.start(piece)
    nest.in_registers(own, vectors=tile.lanes > 1)
    return nest.names(*copies), copies


def _sizes(way: Roles, further: int | None, tile: ThreadTile, threads: BlockTile) -> dict[int, dict[str, int]]:
    """Return how each tiled axis is split over virtual threads, over threads, and over the results of a thread.

    If the columns are a single vector, the threads of a row are along the further axis.
    """
    columns = {THREADS: threads.column_threads}
    is_narrow = further is not None and way.product.n <= tile.lanes
    sizes: dict[int, dict[str, int]] = {}
    if way.row is not None:
        sizes[way.row] = {THREADS: threads.row_threads, REGISTERS: tile.rows}
    if further is not None:
        sizes[further] = {**_virtual(tile.blocks), **(columns if is_narrow else {})}
    sizes[way.column] = {**_virtual(tile.vectors), **({} if is_narrow else columns), LANES: tile.lanes}
    return sizes


def _virtual(size: int) -> dict[str, int]:
    return {VIRTUAL: size} if size > 1 else {}


def _loads(block: Block, vectors: str) -> tuple[BufferLoad, BufferLoad]:
    """Return the operand of the rows, and the operand of the vectors, which has the name `vectors`."""
    loads = operands(block)
    assert loads is not None
    one, other = loads
    return (one, other) if other.buffer.name == vectors else (other, one)


# -- the tiles


def _axes(way: Roles, block: Block, load: BufferLoad, is_of_vectors: bool, further: int | None) -> list[list[int]]:
    """Return the axes of an operand's tile: outside axes, the axes of the sum, and the axes of the result.

    `block` is the sum after its axes were joined; the positions in `way` refer to it.
    """
    used = [p for p, axis in enumerate(block.iter_vars) if depends(load, axis.var)]
    last = way.column if is_of_vectors else way.row
    summed = [p for p in used if block.iter_vars[p].kind == REDUCE]
    tiled = [p for p in (further, last) if p in used]
    return [[p] for p in (*(p for p in used if p not in summed and p not in tiled), *summed, *tiled)]


def _multiples(block: Block, sizes: Mapping[int, Mapping[str, int]], depth: int) -> list[int]:
    """Return the number that the extent of each iterator must be a multiple of."""
    spatial = [p for p, axis in enumerate(block.iter_vars) if axis.kind != REDUCE]
    steps = extents(axis.dom.extent for axis in block.iter_vars)[len(spatial) :]
    return [*(prod(sizes.get(p, {}).values()) for p in spatial), *steps_of_piece(steps, depth)]


def steps_of_piece(sizes: Sequence[int | None], depth: int) -> list[int]:
    """Return how many steps of each loop of the sum, outermost first, are in a piece of `depth` steps.

    The number divides the loop's extent, unless all divisors are much smaller.
    """
    steps: list[int] = []
    is_open = False
    for size in reversed(sizes):
        even = largest_divisor(size, depth)
        some = 1 if is_open else depth if size is None or 2 * even < depth < size else even
        is_open = is_open or size != some
        steps.insert(0, some)
        depth //= some
    return steps


def _pieces(sch: Schedule, reduction: Sequence[Any], depth: int) -> tuple[list[Any], list[Any]]:
    """Return the reduction loops over pieces, and the reduction loops inside a piece, each outermost first."""
    steps = steps_of_piece([constant_extent(sch, loop) for loop in reduction], depth)
    halves = [sch.split(loop, [None, some]) for loop, some in zip(reduction, steps, strict=True)]
    return [over for over, _ in halves], [part for _, part in halves]


def _fetch(
    sch: Schedule, copy: Any, block: Block, load: BufferLoad, axes: Axes, tile: ThreadTile, threads: int
) -> None:  # fmt: skip
    """Share out the elements of an operand that a piece needs among all threads of the block.

    `block` and `load` are the sum and its load of the operand.
    """
    inner, last = along(block, load, axes), len(axes) - 1
    turned = inner != last
    if turned and tile.rows % APART == 0:
        sch.storage_align(copy, 0, last - 1, BANKS, APART)
    lanes = 1 if turned else run_of(block, load, axes[inner], tile.lanes)
    fetched(sch, copy, len(axes), inner, lanes, [("threadIdx.x", threads)])
