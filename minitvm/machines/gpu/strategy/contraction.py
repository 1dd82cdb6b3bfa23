"""Schedule sums of products on GPUs: each thread keeps a tile of results in registers, rows by vectors of columns.

    for each tile, on the grid:
        acc[blocks, rows, vectors] = 0
        for k:                              # reads rows + blocks * vectors, and multiplies rows * blocks * vectors
            acc[b, r, v] += x[r, k] * y[k, b, v]
        out[blocks, rows, vectors] = epilogue(acc)

The roles of the axes follow from the accesses (`strategy.roles`), as on CPUs. `blocks` are points of a further axis on
which the rows' operand does not depend, such as the blocks of output channels of a convolution. A thread loads vectors
along the column. If an axis is constant, its rows divide it, so no condition is needed and no surplus is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product as product_of
from math import ceil, prod
from typing import Any

from ....expr import REDUCE
from ....strategy import roles as strategy_roles
from ....strategy.blocks import block_of, divisors, extents, only_reduction
from ....strategy.candidate import Candidate, Cost, Knob
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.tile_nest import TileNest
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written
from ....tir.nodes import Block, PrimFunc
from . import implicit_gemm
from .costs import BlockTile, ThreadTile, added_up_cost, contraction_cost, gap, grid_of
from .fallback import THREADS, others_on_the_grid, usual_threads
from .grid import over_blocks_and_threads
from .shared_tiles import schedule_shared, steps_of_piece
from .split_sums import added_up, numbers_of_parts, parted

_ACCUMULATORS = 16  # vectors of a thread's tile, where its registers have room
_ROWS = 16
_REGISTERS = 128  # of a thread, where a target does not say
_SHARED = 48 * 1024  # bytes that a kernel may declare


def has_contraction(func: PrimFunc) -> bool:
    """Return whether the only reduction of a function is a contraction, summed in float32 or int32."""
    block = _reduction(func)
    return block is not None and bool(strategy_roles.roles(block))


def _reduction(func: PrimFunc) -> Block | None:
    block = only_reduction(func)
    if block is None:
        return None
    dtype = buffers_written(block)[0].dtype
    return block if dtype in ("float32", "int32") else None


@rule("gpu", has_contraction)
def contraction(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a tile of results per thread; `TiledSum` describes the decisions. The epilogue is computed
    in the tile.

    With `splits` above 1, the sum is computed in this many parts, which a second kernel adds up.
    """
    block = _reduction(func)
    if block is None:
        return
    joined = list(implicit_gemm.candidates(func, target))
    yield from joined
    tiled = TiledSum(block, target)
    widest = max(1, int(target.vector_lanes("float32")))
    others = usual_threads(func, target)

    def price(**knobs: Any) -> Cost:
        cost, splits = tiled.cost(**knobs), int(knobs["splits"])
        return cost + added_up_cost(tiled.results, splits, target) if splits > 1 else cost

    def apply(sch: Schedule, **knobs: Any) -> None:
        used, copies = tiled.schedule(sch, epilogue, **knobs)
        if knobs["splits"] > 1:
            used |= added_up(sch, sch.get_block(block.name), widest)
        others_on_the_grid(sch, used, others, widest)
        for copy in copies:
            sch.annotate(copy, "double_buffer_scope", 0)

    for knobs in tiled.decisions(shared=not joined):
        yield Candidate(knobs=knobs, price=price, apply=apply)


class TiledSum:
    """The tiling of a sum of products: the possible decisions, their costs, and the schedule steps.

    A thread computes a tile of `blocks` by `rows` by `vectors` of `lanes`, along the axes `row` and `column`. With
    `shared`, a block of `row_threads` by `threads // row_threads` threads fetches its operands into shared storage,
    `depth` steps of the sum at a time. With `double`, it fetches the next steps while it computes. With `splits` above
    1, the sum is computed in this many parts, along a new first axis; the block that adds them up has no schedule yet.
    """

    def __init__(self, block: Block, target: Target) -> None:
        self.block, self.target = block, target
        self.ways = {strategy_roles.names_of(way): way for way in strategy_roles.roles(block)}
        self._sizes = {names: _sizes(way) for names, way in self.ways.items()}

    @property
    def results(self) -> int:
        """The number of results."""
        product, columns, outside = next(iter(self._sizes.values()))
        return outside * product.m * columns

    def decisions(self, shared: bool = True) -> Iterator[dict[str, Knob]]:
        """Yield all possible decisions. With `shared`, include tiles that the threads of a block fetch together."""
        for names, way in self.ways.items():
            product, columns, outside = self._sizes[names]
            tiles = [*_register_tiles(way, self.target), *(_shared_tiles(way, self.target) if shared else ())]
            for tile, over in tiles:
                knobs: dict[str, Knob] = {
                    "row": names[0], "column": names[1], "blocks": tile.blocks, "rows": tile.rows,
                    "vectors": tile.vectors, "lanes": tile.lanes, "threads": over.threads,
                    "row_threads": over.row_threads, "depth": over.depth, "shared": bool(over.copied),
                    "double": over.double,
                }  # fmt: skip
                grid = grid_of(product, tile, over, columns, outside)
                for splits in (1, *numbers_of_parts(self.block, product.depth, grid, self.target)):
                    yield {**knobs, "splits": splits}

    def cost(
        self, row: str, column: str, blocks: int, rows: int, vectors: int, lanes: int, threads: int, row_threads: int,
        depth: int, shared: bool, double: bool, splits: int,
    ) -> Cost:  # fmt: skip
        """Return the cost of decisions, without the cost of adding up parts."""
        way, (product, columns, outside) = self.ways[row, column], self._sizes[row, column]
        tile = ThreadTile(rows, vectors, lanes, blocks)
        over = BlockTile(row_threads, max(1, threads // row_threads), depth, 0, double)
        if shared:
            over = _with_copies(way, tile, over)
        vector = lanes if product.contiguous else 1
        product = replace(product, depth=ceil(product.depth / splits))
        return contraction_cost(product, tile, over, columns, outside * splits, self.target, vector)

    def schedule(
        self, sch: Schedule, written: Callable[[Schedule, Any], Any], row: str, column: str, blocks: int, rows: int,
        vectors: int, lanes: int, threads: int, row_threads: int, depth: int, shared: bool, double: bool, splits: int,
    ) -> tuple[set[str], list[Any]]:  # fmt: skip
        """Schedule the sum and the block that writes its result. Return the names of the scheduled blocks, and double
        buffers.

        `written(sch, sum)` keeps the sum in registers and returns the block that writes it. The second result lists the
        blocks that should become double buffers. Make them so in the last step, because every later step is checked
        against their order.
        """
        way, tile = self.ways[row, column], ThreadTile(rows, vectors, lanes, blocks)
        handle = sch.get_block(self.block.name)
        if splits > 1:
            handle = parted(sch, handle, splits)
            way = strategy_roles.way_of(block_of(sch, handle), row, column)
        main = strategy_roles.writer_of_sum(sch, way, handle, written)
        if not shared:
            return _schedule(sch, way, handle, main, threads, tile), []
        over = BlockTile(row_threads, max(1, threads // row_threads), depth, 1, double)
        used, copies = schedule_shared(sch, way, handle, main, _further(way), tile, over)
        return used, copies if double else []


def _sizes(way: strategy_roles.Roles) -> tuple[strategy_roles.Product, int, int]:
    """Return the product, its number of columns including those of the further axis, and the number of such
    products.
    """
    product, further = way.product, _further(way)
    columns = product.n * (1 if further is None else way.extent(further) or strategy_roles.LONG)
    return product, columns, ceil(product.outside * product.n / columns)


def _lanes(way: strategy_roles.Roles, target: Target) -> list[int]:
    """Return the possible widths of vectors."""
    widest = max(1, int(target.vector_lanes("float32")))
    return sorted({n for n in (widest, widest // 2, 1) if 0 < n <= max(1, way.product.n)})


def _fits(tile: ThreadTile, target: Target) -> bool:
    """Return whether a tile fits in the registers of a thread."""
    return tile.registers <= (target.max_registers_per_thread or _REGISTERS)


def _register_tiles(way: strategy_roles.Roles, target: Target) -> Iterator[tuple[ThreadTile, BlockTile]]:
    """Yield tiles of threads that share nothing; the tiles of one row belong to neighbouring threads."""
    further = _further(way)
    for lanes in _lanes(way, target):
        for rows in _row_tiles(way):
            for vectors in (1, 2, 3, 4):
                for blocks in divisors(None if further is None else way.extent(further), 4):
                    tile = ThreadTile(rows, vectors, lanes, blocks)
                    if blocks * rows * vectors <= _ACCUMULATORS * max(1, max(_lanes(way, target)) // lanes) and _fits(
                        tile, target
                    ):
                        yield tile, BlockTile(1, THREADS)


def _shared_tiles(way: strategy_roles.Roles, target: Target) -> Iterator[tuple[ThreadTile, BlockTile]]:
    """Yield tiles for blocks of threads that fetch operands together."""
    product, further = way.product, _further(way)
    if way.row is None or way.group is not None or product.packed:
        return
    lanes = max(_lanes(way, target))
    narrow = further is not None and product.n <= lanes
    for rows, vectors, row_threads, column_threads in product_of((2, 4, 8), (1, 2), (4, 8, 16), (4, 8, 16, 32)):
        tile = ThreadTile(rows, 1 if narrow else vectors, lanes, vectors if further is not None and narrow else 1)
        over = BlockTile(row_threads, column_threads)
        if further is not None and not narrow and product.n % (over.column_threads * tile.columns):
            continue  # blocks of channels have no neighbours along the columns
        if not 32 <= over.threads <= target.max_threads_per_block or not _fits(tile, target):
            continue
        for depth, double in product_of((8, 16), (False, True)):
            whole = _with_copies(way, tile, replace(over, depth=min(depth, product.depth), double=double))
            if double and (whole.depth == product.depth or not _even_fetches(way, whole, tile)):
                continue  # nothing is left to fetch meanwhile, or a thread fetches what others do not
            if whole.shared_bytes <= min(_SHARED, target.max_shared_memory_per_block):
                yield tile, whole


def _even_fetches(way: strategy_roles.Roles, over: BlockTile, tile: ThreadTile) -> bool:
    """Return whether all threads of a block fetch the same amount. Copies under a condition could not be proved to fill
    a tile.
    """
    sums = [axis.dom.extent for axis in way.block.iter_vars if axis.kind == REDUCE]
    steps = prod(steps_of_piece(extents(sums), over.depth))
    return all(
        line * steps % (over.threads * (1 if turned else tile.lanes)) == 0 for line, turned in _lines(way, tile, over)
    )


def _lines(way: strategy_roles.Roles, tile: ThreadTile, over: BlockTile) -> list[tuple[int, bool]]:
    """Return, for each operand, the elements of its tile for one step of the sum, and whether they are transposed in
    the copy.
    """
    loads = strategy_roles.operands(way.block)
    assert loads is not None and way.row is not None
    lengths = {way.row: over.row_threads * tile.rows, way.column: over.column_threads * tile.columns}
    axes = [way.column if load is way.vectors else way.row for load in loads]
    ends = [way.block.iter_vars[way.axes[axis][-1]].var for axis in axes]
    return [
        (lengths[axis], strategy_roles.step_along(load, end) != 1)
        for load, axis, end in zip(loads, axes, ends, strict=True)
    ]


def _with_copies(way: strategy_roles.Roles, tile: ThreadTile, over: BlockTile) -> BlockTile:
    """Return the tile of a block with its number of copied elements: a line of each operand per step of the sum."""
    lines = _lines(way, tile, over)
    gaps = sum(gap(line, tile.rows) for line, turned in lines if turned)
    return replace(over, copied=sum(line for line, _ in lines), gaps=gaps)


def _row_tiles(way: strategy_roles.Roles) -> list[int]:
    """Return the numbers of rows that divide their axis, or a group of it."""
    if way.row is None:
        return [1]
    if way.product.m_open:
        return [1, 2, 4]
    return divisors(way.product.m, _ROWS)


def _further(way: strategy_roles.Roles) -> int | None:
    """Return a further axis of the result on which only the vectors' operand depends, or None."""
    loads = strategy_roles.operands(way.block) or ()
    rows = next(load for load in loads if load is not way.vectors)
    for position, axis in enumerate(way.axes):
        used = any(strategy_roles.depends(rows, way.block.iter_vars[p].var) for p in axis)
        if position not in (way.row, way.column) and not used and way.needed(position):
            return position
    return None


def _schedule(
    sch: Schedule, way: strategy_roles.Roles, block: Any, main: Any, threads: int, tile: ThreadTile
) -> set[str]:
    """Schedule a thread for each tile. Return the names of the scheduled blocks."""
    nest = TileNest(sch, block, main)
    sizes = {_further(way): tile.blocks, way.row: tile.rows, way.column: tile.vectors * tile.lanes}
    inside = [axis for axis in sizes if axis is not None]
    for axis in inside:
        nest.cut(axis, registers=sizes[axis])
    nest.order(nest.outside_first(inside))
    nest.cut_lanes(way.column, tile.lanes)
    own, steps = nest.axes_and_steps(nest.sum_in_tile())
    vectors = sch.split(own[way.column], [None, tile.lanes])
    own = [*(own[axis] for axis in nest.axes[:-1]), *vectors]
    sch.reorder(*steps, *own)
    nest.start(steps[0])
    nest.in_registers(own, vectors=tile.lanes > 1)
    over_blocks_and_threads(sch, nest.tiles, threads)
    return nest.names()
