"""Schedule sums of products in tile registers (AMX), each of which holds 16 x 16 sums.

One instruction adds to each of them 64 products of bytes, or 32 products of bfloat16. A tile holds rows of sixteen
words: for the first factor these are neighbours along the sum, for the second factor and the result along the column
(`roles`).

    for <blocks that share the weights>, <blocks of columns>:          # parallel
        for <lines>, <tiles of rows>:
            acc[rt, ct] = 0                             # rt x ct tiles
            for <sum>:
                a[rt], b[ct] = tiles of the factors
                acc[rt, ct] += a[rt] * b[ct]            # unrolled
            out = epilogue(acc)                         # through the stack, from which vectors read

A product of m rows takes m cycles, and loading a row takes half a cycle. So rt x ct x m cycles of products compare with
(rt m + 16 ct) / 2 cycles of loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from ....expr import REDUCE, Call, IntImm, find, walk
from ....strategy.blocks import block_of, divisors, only_reduction, volume
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.epilogues import epilogue, epilogue_of_part
from ....strategy.registry import rule
from ....strategy.roles import Roles, contiguous_along, depends, operands, panel_along, roles
from ....target import CPU, Target
from ....tir import IndexMap, Schedule
from ....tir.analysis.block_regions import regions_read
from ....tir.nodes import Block, Buffer, BufferStore, PrimFunc
from ....tir.transform.affine import coefficient, linear
from .. import tile_intrinsics as tiles
from .conv2d import schedule_other_blocks, unblocking
from .model import KERNEL_EFFICIENCY, shared
from .tasks import in_parallel
from .tiling import cpu_of

FEATURES = {"u8i8": "amx_int8", "bf16": "amx_bf16"}  # of CPUs that multiply such words in tiles
PER_WORD = {"u8i8": 4, "bf16": 2}
_PRODUCTS = {"dot4_u8i8": "u8i8", "dot2_bf16": "bf16"}
_TILES = ((2, 2), (1, 4), (3, 1), (1, 3), (1, 2), (2, 1), (1, 1))  # rows and columns of tiles that registers hold
_STEP = 4.0  # cycles of a step's addresses and of the loop around it
_BEHIND = 4.0  # cycles of a row of sixteen results on its way through the stack
_BESIDE = 0.25  # of the time of loads that products do not hide
_FEW_ROWS = 8  # of a tile: fewer are padded
_MOST_STEP = 4  # how far apart rows may lie


def has_tiles(target: Target, words: str) -> bool:
    """Return whether a target multiplies words ("u8i8" or "bf16") in tile registers."""
    return FEATURES[words] in getattr(cpu_of(target), "features", ())


@dataclass(frozen=True, slots=True)
class TilePlan:
    """`row_tiles` x `column_tiles` tiles of `rows` rows at a time. `lines` lines that read the same columns are one
    task.
    """

    rows: int
    row_tiles: int
    column_tiles: int
    lines: int

    @property
    def columns(self) -> int:
        """The number of columns of all its tiles together."""
        return self.column_tiles * tiles.WORDS


@dataclass(frozen=True, slots=True)
class WordProduct:
    """A sum of `depth` products of words ("u8i8" or "bf16"), with the facts that tiles need.

    `way` gives the roles of its axes, and `row` is the axis of the rows. Rows of the first factor are `step` apart.
    `lines` is the extent of the last outside axis on which the second factor does not depend. If `padded` is set, the
    rows are padded to a number that tiles divide.
    """

    words: str
    way: Roles
    row: int
    rows: int
    columns: int
    depth: int
    step: int
    lines: int
    padded: bool = False

    @property
    def outside(self) -> int:
        """The number of matrix products."""
        return self.way.product.outside

    def plans(self, cores: int, room: int) -> Iterator[TilePlan]:
        """Yield the plans whose tiles divide the result. A task's part of the first factor fits in `room` bytes if
        possible.
        """
        for rows in divisors(self.rows, tiles.ROWS):
            for row_tiles, column_tiles in _TILES:
                width = column_tiles * tiles.WORDS
                if self.rows % (rows * row_tiles) or self.columns % width:
                    continue
                some = self.columns // width * self.outside // self.lines
                line = self.rows * self.depth * 4
                fitting = [n for n in divisors(self.lines, self.lines) if n * line <= room or n == 1]
                enough = [n for n in fitting if some * (self.lines // n) >= 4 * cores]
                yield TilePlan(rows, row_tiles, column_tiles, max(enough, default=1))

    def cost(self, plan: TilePlan, cpu: CPU) -> Cost:
        """Return the cycles of the products or of their loads, whichever take longer, plus those of writing the
        result.
        """
        places = self.rows // (plan.rows * plan.row_tiles) * (self.columns // plan.columns) * self.outside
        products = plan.row_tiles * plan.column_tiles * plan.rows
        loads = (plan.row_tiles * plan.rows + plan.column_tiles * tiles.ROWS) / 2
        step = max(products, loads) + loads * _BESIDE + _STEP
        behind = _BEHIND * plan.row_tiles * plan.column_tiles * plan.rows
        tasks = self.lines // plan.lines * (self.columns // plan.columns) * self.outside // self.lines
        weights = 4 * self.depth * self.columns
        return Cost((places * (step * self.depth / tiles.WORDS + behind)) * shared(tasks, cpu), weights / cpu.l3_rate)

    def in_vectors(self, cpu: CPU) -> float:
        """Return the cycles of the same product in vectors: each step multiplies as many words as a vector has
        lanes.
        """
        lanes = max(1, cpu.vector_bytes // 4)
        vectors = ceil(self.columns / lanes) * self.rows * self.outside
        return vectors * self.depth / cpu.fma_ports / KERNEL_EFFICIENCY


def word_products(block: Block) -> Iterator[WordProduct]:
    """Yield the ways to view a block as a sum of products of words whose extents tiles divide."""
    loads, body = operands(block), block.body
    if loads is None or not isinstance(body, BufferStore):
        return
    words = next((_PRODUCTS[n.op] for n in find(body.value, Call) if n.op in _PRODUCTS), None)
    if words is None or body.buffer.dtype != tiles.SUMS[words]:
        return
    data, weight = loads
    summed = [axis for axis in block.iter_vars if axis.kind == REDUCE]
    word = summed[-1]
    if not isinstance(word.dom.extent, IntImm) or word.dom.extent.value % tiles.WORDS:
        return
    for way in roles(block, kept=()):
        sizes = [way.extent(p) for p in range(len(way.axes))]
        if way.row is None or way.group is not None or way.vectors.buffer is not weight.buffer or None in sizes:
            continue
        row, column = (block.iter_vars[p].var for p in (way.row, way.column))
        step, panel = _step_of_rows(data, row), panel_along(weight, column)
        in_order = contiguous_along(data, word.var) and (panel or contiguous_along(weight, column))
        if step is None or not in_order or weight.indices[-2] is not word.var or panel % tiles.WORDS:
            continue
        depth = volume(axis.dom.extent for axis in summed)
        lines, rows = sizes[way.shared[-1]] if way.shared else 1, sizes[way.row] or 1
        padded = data.indices[-2] is row and divisors(rows, tiles.ROWS)[0] < _FEW_ROWS < rows
        rows += -rows % tiles.ROWS if padded else 0
        yield WordProduct(words, way, way.row, rows, sizes[way.column] or 1, depth, step, lines or 1, padded)


def _step_of_rows(data: Any, row: Any) -> int | None:
    """Return the distance between neighbouring rows along the second-to-last axis, or None if rows are along another
    axis.
    """
    *others, near, _ = data.indices
    if any(item is row for index in others for item in walk(index)):
        return None
    found = coefficient(linear(near), row)
    return found if found is not None and 0 < found <= _MOST_STEP else None


def has_word_products(func: PrimFunc) -> bool:
    """Return whether the only reduction of a function is a sum of products of words that fits in tiles."""
    block = only_reduction(func)
    return block is not None and next(word_products(block), None) is not None


@rule("cpu", has_word_products, first=True)
def tile_registers(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield plans with `row_tiles` x `column_tiles` tiles of `rows` rows. `lines` lines that read the same columns are
    one task.
    """
    block, cpu = only_reduction(func), cpu_of(target)
    if block is None:
        return
    for product in word_products(block):
        if not has_tiles(target, product.words):
            return

        def price(product: WordProduct = product, **knobs: int) -> Cost:
            return product.cost(TilePlan(**knobs), cpu)

        def apply(sch: Schedule, product: WordProduct = product, **knobs: int) -> None:
            used = _schedule(sch, product, TilePlan(**knobs))
            schedule_other_blocks(sch, target, used)

        for plan in product.plans(cpu.cores, cpu.l2.size // 4):
            if product.cost(plan, cpu).compute < product.in_vectors(cpu):
                yield Candidate(knobs=asdict(plan), price=price, apply=apply)


def _schedule(sch: Schedule, product: WordProduct, plan: TilePlan) -> set[str]:
    """Schedule the sum and the element-wise blocks after it. Return the names of the scheduled blocks."""
    way = product.way
    block = sch.get_block(way.block.name)
    spatial, row, column, dtype = len(way.axes), product.row, way.column, tiles.SUMS[product.words]
    last = unblocking(sch.func, way.block)
    if product.padded:
        sch.pad_einsum(block, [tiles.ROWS if p == row else 1 for p in range(len(way.block.iter_vars))])
        main = epilogue_of_part(sch, block)
    else:
        main = epilogue(sch, block, "" if last is None else last.name)
    if len(sch.get_loops(main)) != spatial:
        raise Unfit("tile_registers: wanted as many axes behind the sum as the sum has")
    store = sch.cache_write(block, 0, tiles.SCOPE)
    sch.transform_layout(block, ("write", 0), _in_columns(spatial, row, column))
    tasks, at = _places(sch, main, product, plan)
    for part in (store, block):
        sch.compute_at(part, at, preserve_unit_loops=True)
    own = list(sch.get_loops(block))[-len(way.block.iter_vars) :]
    row_tile, row_in = sch.split(own[row], [None, plan.rows])
    column_tile, column_in = sch.split(own[column], [None, tiles.WORDS])
    word, word_in = sch.split(own[-1], [None, tiles.WORDS])
    rest = [loop for p, loop in enumerate(own[:spatial]) if p not in (row, column)]
    sums = [*own[spatial:-1], word]
    sch.reorder(*rest, *sums, row_tile, column_tile, row_in, column_in, word_in)
    data, position = _tiles_of_data(sch, block, product)
    weights = sch.cache_read(block, _read(block_of(sch, block), way.vectors.buffer), tiles.SCOPE)
    dims = len(block_of(sch, weights).iter_vars)
    sch.transform_layout(weights, ("write", 0), _in_columns(dims, dims - 2, dims - 1))
    for operand in (data, weights):
        sch.compute_at(operand, word, preserve_unit_loops=True)
    init = sch.decompose_reduction(block, sums[0])
    names = {block_of(sch, part).name for part in (init, block, main, store, data, weights)}
    *_, init_row, init_column, init_in, _ = sch.get_loops(init)
    for loop in (init_row, init_column, row_tile, column_tile):
        sch.unroll(loop)
    sch.tensorize(init_in, tiles.zero(plan.rows, dtype))
    sch.tensorize(row_in, tiles.dot(plan.rows, product.words))
    _tensorized(sch, data, position, -1, plan.rows, tiles.load(plan.rows, product.step))
    _tensorized(sch, weights, -2, -1, tiles.ROWS, tiles.load(tiles.ROWS))
    _tensorized(sch, store, row, column, plan.rows, tiles.store(plan.rows, dtype, "local"))
    in_parallel(sch, tasks)
    return names


def _read(block: Block, buffer: Buffer) -> int:
    """Return the position of a buffer among the reads of a block."""
    return next(p for p, region in enumerate(regions_read(block)) if region.buffer is buffer)


def _in_columns(axes: int, row: int, column: int) -> IndexMap:
    """Return the layout [.., column // 16, row, column % 16], in which a tile is contiguous."""

    def places(*at: Any) -> list[Any]:
        others = [at[p] for p in range(axes) if p not in (row, column)]
        return [*others, at[column] // tiles.WORDS, at[row], at[column] % tiles.WORDS]

    return IndexMap.from_func(places, ndim=axes)


def _places(sch: Schedule, main: Any, product: WordProduct, plan: TilePlan) -> tuple[list[Any], Any]:
    """Tile the loops of the writing block. Return the loops that are tasks, and the loop around all tiles in
    registers.
    """
    way, loops = product.way, list(sch.get_loops(main))
    others = [p for p in range(len(way.axes)) if p not in (way.row, way.column)]
    needed = [loops[p] for p in others if p not in way.shared]
    common = [loops[p] for p in way.shared]
    rows, row = sch.split(loops[product.row], [None, plan.row_tiles * plan.rows])
    columns, column, lane = sch.split(loops[way.column], [None, plan.column_tiles, tiles.WORDS])
    line = []
    if common:
        common[-1], some = sch.split(common[-1], [None, plan.lines])
        line = [some]
    tasks = [*common, *needed, columns]
    sch.reorder(*tasks, *line, rows, row, column, lane)
    sch.unroll(column)
    sch.vectorize(lane)
    return tasks, rows


def _tiles_of_data(sch: Schedule, block: Any, product: WordProduct) -> tuple[Any, int]:
    """Copy the first factor into tiles, in the order of the iterators that index it. Return the copy, and the position
    of its row.

    The axes of a tile, rows and words, come last.
    """
    now = block_of(sch, block)
    (load, _) = operands(now) or (None, None)
    assert load is not None
    used = [p for p, axis in enumerate(now.iter_vars) if depends(load, axis.var)]
    row, word = product.row, len(now.iter_vars) - 1
    order = [*(p for p in used if p not in (row, word)), row, word]
    by_iterators = IndexMap.from_func(lambda *at: tuple(at[p] for p in order), ndim=len(now.iter_vars))
    return sch.reindex_cache_read(block, _read(now, load.buffer), tiles.SCOPE, by_iterators), used.index(row)


def _tensorized(sch: Schedule, block: Any, row: int, column: int, rows: int, name: str) -> None:
    """Replace the copies of tiles in a block with instructions, one per tile."""
    own = list(sch.get_loops(block))[-len(block_of(sch, block).iter_vars) :]
    row_loop, column_loop = own[row], own[column]
    others = [loop for loop in own if loop not in (row_loop, column_loop)]
    row_tile, row_in = sch.split(row_loop, [None, rows])
    column_tile, column_in = sch.split(column_loop, [None, tiles.WORDS])
    sch.reorder(*others, row_tile, column_tile, row_in, column_in)
    for loop in (*others, row_tile, column_tile):
        sch.unroll(loop)
    sch.tensorize(row_in, name)
