"""Schedule matrix products on multiply-add units. Blocks of threads fetch the operands into shared storage.

    for each tile of `rows` by `columns` of the result, on blockIdx:
        acc[thread_rows, thread_columns] = 0            # registers of a thread
        for ko:                                         # a piece of the steps
            A_shared[steps, rows], B_shared[steps, columns] = ...   # each thread fetches vectors of both
            wait
            for k: acc[r, c] += A_shared[k, r] * B_shared[k, c]
            wait
        out[rows, columns] = epilogue(acc)

The steps are the outer axis of both tiles. So the rows of a thread are neighbours, which need one load, and the vectors
of neighbouring threads are neighbours, which avoids bank conflicts. The vectors of one thread are a row of threads
apart, as virtual threads. An operand that is contiguous along the steps is transposed in the copy. Its lines are then
four elements longer, so that neighbouring threads do not store to the same bank. (The tiles of Volkov and Demmel,
SC'08, as in CUTLASS and TVM.)

If tiles do not divide the extents, the operands are padded with zeros when they are fetched, and the result is padded
in registers. `matrices` decides which axes of a sum are rows, columns and steps. Element-wise producers of an operand,
such as the padding of a convolution, are computed when it is fetched (`fetched_tiles`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product as product_of
from math import ceil
from typing import Any

from ....strategy.blocks import block_of, constant_extent, largest_divisor, only_reduction
from ....strategy.candidate import Candidate, Cost
from ....strategy.tile_nest import REGISTERS, VIRTUAL, TileNest
from ....target import Target
from ....tir import IndexMap, Schedule
from ....tir.nodes import PrimFunc
from .costs import APART, BANKS, processors_of
from .fallback import THREADS, others_on_the_grid, usual_threads
from .fetched_tiles import by_way_of_registers, fetched, kept_in_registers
from .grid import over_blocks_of_threads
from .matrices import MatrixProduct, as_matrices, product_of_matrices
from .split_sums import parts_in_registers

LANES = 4  # of a vector of results
_THREADS = 256  # of a block
_SCHEDULERS = 4  # of a multiprocessor, each of which starts an instruction of a warp a cycle
_SHARED = 48 << 10  # bytes that a kernel declares
_SPARE = 28  # registers for addresses and loops
_BLOCKS = 16  # that a multiprocessor keeps at most
# Cycles of a multiprocessor, fitted to 373 tiles of 16 products and convolutions on an H200.
_BROADCAST, _ROW = 1.6, 1.1  # a warp's load of 16 bytes a thread: most threads' the same, all different
_NOT_LOCAL = 4.0  # an access of shared storage where that is memory like any other
_ISSUED = 0.3  # a load, beside what it moves
# Instructions until a vector is in shared storage: of a product, of weights of a convolution, of its pixels.
_PLAIN, _ADDRESS, _PIXEL = 10.0, 52.0, 240.0
_L2_BYTES, _STORED = 64.0, 4.0  # a cycle and multiprocessor; of a warp's store to shared storage
_EXPOSED = 1.03  # times as long takes a piece that is not fetched while another one is used
_LOOP = 40.0  # of a piece: barriers and the first loads of a step
_LATENCY, _BARRIER = 160.0, 400.0  # until a piece is there, and until all threads know
_LAUNCH, _START, _KERNEL = 6000.0, 2000.0, 1500.0  # of a kernel, until a block has begun, of a second kernel

# How the next piece of the operands is fetched to shared storage while a piece is used. There are `stages` pieces.
IN_FRONT = "in front"  # fetched and stored in front of the products
BEHIND = "behind"  # fetched to registers in front of the products, stored behind them
ASYNC = "async"  # by asynchronous copies, of as many pieces ahead as there are stages
_STAGES = (2, 3, 4)  # of asynchronous copies
_LARGE = 32  # results of a thread, from which on the products of a piece last as long as fetching the next one


@dataclass(frozen=True, slots=True)
class _Hidden:
    """The cost of a piece besides its products, in cycles of a multiprocessor, if fetching overlaps with the products.

    `issued` is the cost of issuing a load in a step. `turned` is the cost per element that a warp stores separately, to
    transpose a tile. `piece` is the cost per warp of waiting and starting again. `moved` is the share of the time for
    moving a piece from the L2 cache that is not hidden. It is above 1, because that cache serves all multiprocessors
    together at about half the rate of a single one.
    """

    issued: float
    turned: float
    piece: float
    moved: float


# Costs of a way to fetch with two stages, or with three and more: fitted to 175 tiles of products of eight shapes on an
# H100, from 49 x 512 x 2048 to 4096 x 4096 x 4096, with a standard deviation of 12 %.
_HIDDEN = {
    (BEHIND, 2): _Hidden(0.0, 4.0, 25.0, 1.25), (ASYNC, 2): _Hidden(4.8, 2.0, 0.0, 0.0),
    (ASYNC, 3): _Hidden(1.0, 0.25, 15.0, 1.6),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile, `rows` by `columns` of the result and `depth` steps at a time, and the part of it that a thread
    computes.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    splits: int = 1
    stages: int = 1
    fetch: str = IN_FRONT

    @property
    def row_threads(self) -> int:
        return self.rows // self.thread_rows

    @property
    def column_threads(self) -> int:
        return self.columns // self.thread_columns

    @property
    def threads(self) -> int:
        return self.row_threads * self.column_threads

    @property
    def is_hidden(self) -> bool:
        """Return whether the next piece is fetched while the current one is used."""
        return self.stages > 1 and self.fetch != IN_FRONT

    @property
    def registers(self) -> int:
        """The registers of a thread: sums, the operands of a step, addresses, and elements that are being fetched."""
        waiting = (self.rows + self.columns) * self.depth // self.threads if self.fetch == BEHIND else 0
        return self.thread_rows * self.thread_columns + self.thread_rows + self.thread_columns + _SPARE + waiting

    @property
    def shared_bytes(self) -> int:
        """The bytes of a block's shared storage, for two operands of 32 bits that are transposed in the copy."""
        lines = sum(size + (APART - size) % BANKS for size in (self.rows, self.columns))
        return 4 * lines * self.depth * self.stages


_KNOBS = tuple(field.name for field in fields(Tile))


def candidates(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield the tiles that fit a target, if the only reduction of a function is a product of matrices."""
    reduction = only_reduction(func)
    product = None if reduction is None else product_of_matrices(reduction)
    if product is None or product.bytes > 4:
        return
    others = usual_threads(func, target)
    fetches = fetches_of(product)

    def price(**knobs: Any) -> Cost:
        return tile_cost(product, Tile(**knobs), fetches, target)

    def apply(sch: Schedule, **knobs: Any) -> None:
        used = schedule(sch, product, Tile(**knobs))
        others_on_the_grid(sch, used, others, LANES)

    for tile in tiles(product, fetches, target):
        yield Candidate(knobs={name: getattr(tile, name) for name in _KNOBS}, price=price, apply=apply)


def fetches_of(product: MatrixProduct) -> tuple[int, ...]:
    """Return how many elements of each operand a thread fetches at once.

    A thread stores the elements of a transposed operand one by one, and those of a vector go to the same bank. Fetching
    single elements is better if their addresses cost nothing, which is the case if the steps are a single axis.
    """
    loads = product.a, product.b
    found = []
    for load, axes in zip(loads, tiles_of(product), strict=True):
        axis, run = product.run(load, axes)
        found.append(run if axis == len(axes) - 1 or len(product.steps) > 1 else 1)
    return tuple(found)


def tiles(product: MatrixProduct, fetches: Sequence[int], target: Target) -> Iterator[Tile]:
    """Yield the tiles that fit a target with fast shared storage. One or two pieces of the steps are in storage at a
    time.
    """
    if not target.local_memory_helps:
        return
    limit = min(_SHARED, target.max_shared_memory_per_block)
    for rows, columns, thread_rows, thread_columns in product_of(
        _sizes(product.m, (16, 32, 64, 128)), _sizes(product.n, (16, 32, 64, 128, 256)), (2, 4, 8), (4, 8)
    ):
        for depth, stages in product_of((8, 16, 32), (1, 2)):
            tile = Tile(rows, columns, depth, thread_rows, thread_columns, 1, stages)
            if not 32 <= tile.threads <= min(_THREADS, target.max_threads_per_block) or depth >= 2 * product.k:
                continue
            even = all(
                size * depth % (tile.threads * run) == 0 for size, run in zip((rows, columns), fetches, strict=True)
            )
            if not even or tile.shared_bytes > limit or tile.registers > (target.max_registers_per_thread or 128):
                continue
            for splits in _splits(product, tile, target):
                if product.k > depth * splits * (stages - 1):
                    yield from _fetching(product, replace(tile, splits=splits), limit, target)


def _fetching(product: MatrixProduct, tile: Tile, limit: int, target: Target) -> Iterator[Tile]:
    """Yield a tile with each possible way to fetch its next piece. Large tiles of plain products have more ways."""
    yield tile
    if tile.stages == 1 or len(product.steps) > 1 or tile.thread_rows * tile.thread_columns < _LARGE:
        return
    if replace(tile, fetch=BEHIND).registers <= (target.max_registers_per_thread or 128):
        yield replace(tile, fetch=BEHIND)
    for stages in _STAGES if target.copies_asynchronously else ():
        ahead = replace(tile, fetch=ASYNC, stages=stages)
        if ahead.shared_bytes <= limit and product.k > tile.depth * tile.splits * (stages - 1):
            yield ahead


def _sizes(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """Return the sizes that do not extend far beyond an extent."""
    return [size for size in sizes if size < 2 * extent or size == sizes[0]]


def _splits(product: MatrixProduct, tile: Tile, target: Target) -> list[int]:
    """Return the numbers of parts into which the steps may be split if there are few blocks."""
    blocks = product.count * ceil(product.m / tile.rows) * ceil(product.n / tile.columns)
    most = min(32, product.k // (2 * tile.depth), 4 * processors_of(target) // blocks)
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n <= max(1, most)]


def tile_cost(product: MatrixProduct, tile: Tile, fetches: Sequence[int], target: Target) -> Cost:
    """Return the cycles of a multiprocessor if all of them compute the tiles of a product."""
    blocks = product.count * ceil(product.m / tile.rows) * ceil(product.n / tile.columns) * tile.splits
    processors, warps = processors_of(target), tile.threads / 32
    pieces = ceil(product.k / tile.splits / tile.depth)
    lanes = max(1, target.lanes)
    sums = tile.rows * tile.columns * tile.depth / lanes
    slower = 1.0 if target.local_memory_helps else _NOT_LOCAL
    reads = warps * tile.depth * (tile.thread_rows / 4 * _BROADCAST + tile.thread_columns / 4 * _ROW) * slower
    issued = warps * tile.depth * (tile.thread_rows / 4 + tile.thread_columns / 4 + 2) * 32 / lanes
    elements = [size * tile.depth for size in (tile.rows, tile.columns)]
    moved = 4 * sum(elements) / _L2_BYTES
    work = max(sums, reads)
    if tile.is_hidden:
        about = _HIDDEN[tile.fetch, min(tile.stages, 3)]
        turned = sum(n for n, run in zip(elements, fetches, strict=True) if run == 1)
        work += about.issued * issued + about.turned * turned / 32 + about.piece * warps + about.moved * moved
    else:
        rows, columns = (n / run for n, run in zip(elements, fetches, strict=True))
        addresses = _PIXEL * rows + _ADDRESS * columns if len(product.steps) > 1 else _PLAIN * (rows + columns)
        fetched = addresses / lanes + moved + sum(elements) / 32 * _STORED * slower
        work = (work + _ISSUED * issued + fetched + _LOOP) * (1.0 if tile.stages > 1 else _EXPOSED)
    limits = [_BLOCKS, target.threads_per_multiprocessor // tile.threads]
    if target.registers_per_block:
        limits.append(target.registers_per_block // (tile.registers * tile.threads))
    limits.append((target.shared_memory_per_multiprocessor or target.max_shared_memory_per_block) // tile.shared_bytes)
    resident = max(1, min(limits))
    each = ceil(blocks / processors)
    total = _LAUNCH
    for count, beside in ((each // resident, resident), (1 if each % resident else 0, each % resident)):
        itself = work * max(1.0, _SCHEDULERS / warps)  # fewer warps use a part of the multiprocessor
        alone = itself + _LATENCY if tile.stages == 1 else max(itself, _LATENCY)
        total += count * (pieces * max(beside * work, alone + _BARRIER) + _START)
    if tile.splits > 1:
        words = product.count * product.m * product.n * (2 * tile.splits + 1)
        total += _KERNEL + 4 * words / (_L2_BYTES * processors)
    return Cost(total)


def tiles_of(product: MatrixProduct) -> list[list[tuple[int, ...]]]:
    """Return the axes of the operands' tiles: steps first, then rows or columns."""
    operands = ((product.a, product.rows), (product.b, product.columns))
    return [product.tile_axes(load, product.steps, axis) for load, axis in operands]


def schedule(sch: Schedule, product: MatrixProduct, tile: Tile, alone: bool = False) -> set[str]:
    """Schedule a product and the element-wise blocks after it. Return the names of the scheduled blocks.

    With `alone`, the blocks after it are already scheduled.
    """
    block, shapes = sch.get_block(product.block.name), tiles_of(product)
    sizes = (tile.rows, tile.columns, tile.depth * tile.splits)
    main, copies = as_matrices(sch, product, block, sizes, shapes, ("shared", "local"), True, alone)
    used: set[str] = set()
    if tile.splits > 1:
        *_, steps = sch.get_loops(block)
        part, _ = sch.split(steps, [tile.splits, None])
        parts = sch.rfactor(part, 0)
        sch.set_scope(block, 0, "local")
        used |= _added_up(sch, block, main)
        main, block = sch.cache_write(parts, 0, "local"), parts
    vectors = tile.thread_columns // LANES
    virtual = tile.fetch == IN_FRONT or vectors == 1  # else each of them would fetch for itself
    if not virtual:
        _columns_apart(sch, block, (tile.columns, tile.column_threads * LANES, LANES))
    nest = TileNest(sch, block, main)
    *_, row, column = nest.axes
    nest.cut(column, **{VIRTUAL if virtual else REGISTERS: vectors}, threads=tile.column_threads, lanes=LANES)
    nest.cut(row, threads=tile.row_threads, registers=tile.thread_rows)
    nest.order()
    *own, steps = nest.sum_in_thread(over_blocks_of_threads(nest))
    piece, step = sch.split(steps, [None, tile.depth])
    sch.reorder(piece, step, *own)
    loads, fetches = (product.a, product.b), fetches_of(product)
    threads, stores = [("threadIdx.x", tile.threads)], []
    for copy, load, axes, lanes, size in zip(copies, loads, shapes, fetches, (tile.rows, tile.columns), strict=True):
        axis, _ = product.run(load, axes)
        if tile.fetch == BEHIND:
            extents = [*[1] * (len(axes) - 2), tile.depth, size]
            stores.append(by_way_of_registers(sch, copy, piece, extents, axis, lanes, threads))
        else:
            sch.compute_at(copy, piece, preserve_unit_loops=True)
            fetched(sch, copy, len(axes), axis, lanes, threads)
            stores.append(copy)
        if axis != len(axes) - 1 and tile.thread_rows % APART == 0:
            sch.storage_align(stores[-1], 0, len(axes) - 2, BANKS, APART)
    nest.start(piece)
    nest.in_registers(own)
    if tile.stages > 1 and tile.fetch != ASYNC:
        for store in stores:
            sch.annotate(store, "double_buffer_scope", 0)
    if tile.fetch == BEHIND:  # fetch, store, fetch, store, multiply
        sch.annotate(piece, "software_pipeline_stage", [0, 0, 0, 0, 1])
        sch.annotate(piece, "software_pipeline_order", [0, 3, 1, 4, 2])
        kept_in_registers(sch, copies)
    elif tile.fetch == ASYNC:  # fetch, fetch, multiply
        sch.annotate(piece, "software_pipeline_stage", [0, 0, tile.stages - 1])
        sch.annotate(piece, "software_pipeline_order", [0, 1, 2])
        sch.annotate(piece, "software_pipeline_async_stages", [0])
    return used | nest.names(*copies, *stores)


def _columns_apart(sch: Schedule, block: Any, sizes: tuple[int, int, int]) -> None:
    """Replace the columns of a sum and its result by four axes: tiles, vectors, threads and lanes.

    The part of one thread, vectors that are a row of threads apart, is then a box. `sizes` holds the number of columns
    of a tile, of one vector of all threads, and of a vector.
    """
    tile, row, lanes = sizes
    at = len(block_of(sch, block).iter_vars) - 2  # behind it is the sum

    def apart(*index: Any) -> list[Any]:
        column = index[at]
        new = [column // tile, column % tile // row, column % row // lanes, column % lanes]
        return [*index[:at], *new, *index[at + 1 :]]

    sch.transform_layout(block, ("write", 0), IndexMap.from_func(apart, ndim=at + 1))
    sch.transform_block_layout(block, IndexMap.from_func(apart, ndim=at + 2))


def _added_up(sch: Schedule, block: Any, main: Any) -> set[str]:
    """Schedule the block that adds up the parts of a sum, and `main`, which follows it."""
    nest = TileNest(sch, block, main)
    *_, row, column = nest.axes
    nest.cut(column, lanes=LANES)
    across = largest_divisor(constant_extent(sch, nest.grid[column]), THREADS)
    nest.cut(row, threads=THREADS // across)
    nest.cut(column, threads=across)
    nest.order()
    *own, part = nest.sum_in_thread(over_blocks_of_threads(nest))
    sch.reorder(part, *own)
    parts_in_registers(nest, part, own, vectors=True)
    return nest.names()
