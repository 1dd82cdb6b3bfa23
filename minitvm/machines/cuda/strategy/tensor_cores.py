"""Schedule products on tensor cores, summed in float32, of 16-bit floats or of float32 rounded to 10 bits of mantissa.

Tiles of the operands are in shared storage, and fragments of these tiles are in registers:

    for each tile of bm x bn, on the grid:
        for ko:                                     # a software pipeline: the next steps are being copied
            async A_shared, B_shared = the tiles of step ko
            for ki:
                a, b = fragments of A_shared, B_shared     # ldmatrix
                acc += a * b                        # mma.sync, for each 16 x 8 tile of the warp
        out = epilogue(acc)                         # through shared storage, if other blocks follow

A sum is a product of matrices if each axis of its result is an axis of the first operand, of the second, or of both.
The axes of each kind are joined: into rows, columns, and outside axes, which count separate products. The axes of the
sum are joined into steps. So a convolution is the product of implicit GEMM, and blocks fetch its tiles
(`fetched_tiles`).

Rows of the tiles are 16 bytes longer than necessary, so that `ldmatrix` reads them from different banks. This follows
CUTLASS ("Efficient GEMM in CUDA", "Implicit GEMM Convolution") and TVM's schedules with tensor intrinsics (TensorIR,
ASPLOS 2023).

If tiles do not divide the extents, operands are padded with zeros when they are copied to shared storage. Results are
padded in shared storage, too, and those outside the product are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product as every
from math import ceil, prod
from typing import Any

from ....expr import REDUCE, Add, Call, Cast, Expr, Mul
from ....strategy.blocks import behind, block_of, blocks_of, constant_extent, only_reduction
from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....strategy.roles import operands
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written, regions_read, regions_written
from ....tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ...gpu.strategy.fallback import THREADS, others_on_the_grid
from ...gpu.strategy.fetched_tiles import along, fetched, in_stages
from ...gpu.strategy.grid import MOST, fused, in_groups
from ...gpu.strategy.matrices import MatrixProduct, as_matrices, product_of_matrices
from ..capability import capability
from ..tensor_intrin import tensor_cores
from .warp_tiles import DECLARED, BlockTile, Matrices, WarpTile, grouped, warp_tile_cost

LEAST = 80  # the compute capability from which devices have mma.sync.m16n8k16 and cp.async
_WASTE = 0.125  # of an extent may be padding
PADDED = 1.25  # times as long takes a step whose copies ask for each place whether it is padding
_ROWS, _COLUMNS = (16, 32, 64, 128, 256), (8, 16, 32, 64, 128, 256)  # of a tile
_DEPTHS = {2: (16, 32, 64), 4: (8, 16, 32)}  # steps of a piece, by the bytes of an element

OperandTiles = Sequence[tuple[BufferLoad, Sequence[Sequence[int]]]]  # each with the axes of its tile


def operand_tiles(product: MatrixProduct) -> OperandTiles:
    """Return the two operands, each with the two axes of its tiles: (rows, steps) and (steps, columns); (columns,
    steps) if the second is transposed.
    """
    last = (product.columns, product.steps) if is_transposed(product) else (product.steps, product.columns)
    return [
        (product.a, product.tile_axes(product.a, product.rows, product.steps)),
        (product.b, product.tile_axes(product.b, *last)),
    ]


def is_transposed(product: MatrixProduct) -> bool:
    """Return whether the second operand's tile is columns by steps, because neighbouring steps are neighbours in
    memory.
    """
    both = [product.columns, product.steps]
    return along(product.block, product.b, both) == 1 and product.lies_along(product.b, product.steps)


def fetches_of(product: MatrixProduct, load: BufferLoad, tile: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the axis of a tile along which threads fetch neighbours, and how many neighbours each thread fetches at
    once.
    """
    axis, run = product.run(load, tile)
    return axis, run if axis == len(tile) - 1 else 1  # turned around on the way


def gap(product: MatrixProduct, tile: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return (factor, offset): the distance between rows of a tile is a multiple of `factor` elements, plus `offset`.

    So the 8 rows that `ldmatrix` reads begin in different banks. For float32, which threads load separately, the
    elements of 8 rows and 4 neighbouring steps, or of 4 steps and 8 neighbouring columns, are in different banks.
    """
    return (8, 4) if product.bytes == 4 and tile[-1] == product.steps else (16, 8)


def product_of(func: PrimFunc) -> MatrixProduct | None:
    """Return the product of matrices that is the only reduction of a function, or None for another one or another
    dtype.
    """
    block = only_reduction(func)
    if block is None:
        return None
    loads, store = operands(block), block.body
    if loads is None or not isinstance(store, BufferStore) or store.buffer.dtype != "float32":
        return None
    dtype = str(loads[0].buffer.dtype)
    if dtype not in tensor_cores.INPUTS or loads[1].buffer.dtype != dtype or not _multiplies(block, loads):
        return None
    return product_of_matrices(block)


def _multiplies(block: Block, loads: Sequence[BufferLoad]) -> bool:
    """Return whether the block adds products of two elements, each in a form that tensor cores read."""
    assert isinstance(block.body, BufferStore) and isinstance(block.body.value, Add)
    value = block.body.value
    products = [part for part in (value.a, value.b) if isinstance(part, Mul)]
    return any(all(_is_factor(f, loads) for f in (part.a, part.b)) for part in products)


def _is_factor(e: Expr, loads: Sequence[BufferLoad]) -> bool:
    """Return whether a factor is a 16-bit element converted to float32, or a float32 rounded to 10 bits of mantissa."""
    if isinstance(e, Call) and e.op == "round_tf32":
        return any(e.args[0] is load for load in loads)
    return isinstance(e, Cast) and e.dtype == "float32" and any(e.value is load for load in loads)


def seen_by_costs(func: PrimFunc, product: MatrixProduct) -> tuple[Matrices, bool]:
    """Return a product in the form that the cost model uses, and whether its results must go through shared storage."""
    a, b = (fetches_of(product, *operand)[1] for operand in operand_tiles(product))
    matrices = Matrices(product.count, product.m, product.n, product.k, product.bytes, (a, b))
    return matrices, bool(behind(func, product.block.name)) or not product.is_plain


def has_product(func: PrimFunc) -> bool:
    """Return whether a function is a matrix product that tensor cores can compute."""
    return product_of(func) is not None


@rule("cuda", has_product)
def tensor_core(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a block of `warp_rows` x `warp_columns` warps for each tile of `rows` x `columns`, in steps
    of `depth`.
    """
    product = product_of(func)
    if product is None or capability(target) < LEAST:
        return
    matrices, followed = seen_by_costs(func, product)

    def price(**knobs: int) -> Cost:
        tile = WarpTile(**knobs)
        return warp_tile_cost(matrices, tile, followed or not tile.divides(matrices), PADDED, target)

    def apply(sch: Schedule, **knobs: int) -> None:
        tile = WarpTile(**knobs)
        taken = tile.shared_bytes(matrices, followed or not tile.divides(matrices))
        scope = "shared" if taken <= DECLARED else "shared.dyn"
        used = _schedule(sch, product, tile, scope)
        others_on_the_grid(sch, used, THREADS)

    depths = sizes_for(product.k, _DEPTHS[product.bytes])
    for rows, columns, depth in every(sizes_for(product.m, _ROWS), sizes_for(product.n, _COLUMNS), depths):
        for warp_rows, warp_columns, stages in every((1, 2, 4), (1, 2, 4), (2, 3, 4)):
            tile = WarpTile(rows, columns, depth, warp_rows, warp_columns, stages=stages)
            whole = stages == 2 or stages <= ceil(product.k / depth)
            if whole and tile.fits(matrices, followed or not tile.divides(matrices), target):
                yield Candidate(knobs=asdict(grouped(matrices, tile, target)), price=price, apply=apply)


def sizes_for(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """Return the sizes that divide an extent or need little padding. If there is none, return all up to the next larger
    size.
    """
    little = [size for size in sizes if -extent % size <= extent * _WASTE]
    return little or [size for size in sizes if size // 2 < extent or size == sizes[0]]


def _schedule(sch: Schedule, product: MatrixProduct, tile: WarpTile, scope: str) -> set[str]:
    """Schedule the product and the element-wise blocks after it. Return the names of the scheduled blocks.

    Tiles are in shared storage with the scope `scope`.
    """
    dtype, tiles, transposed = product.dtype, operand_tiles(product), is_transposed(product)
    block, shapes = sch.get_block(product.block.name), [axes for _, axes in tiles]
    last, copies = as_matrices(sch, product, block, (tile.rows, tile.columns, tile.depth), shapes, (scope, scope))
    writer, (i, j, k) = in_blocks(sch, block, last, tile, tensor_cores.ACCUMULATOR)
    warp_row, warp_i = sch.split(i, [tile.warp_rows, None])
    warp_column, warp_j = sch.split(j, [tile.warp_columns, None])
    (mi, ii), (nj, jj) = sch.split(warp_i, [None, 16]), sch.split(warp_j, [None, 8])
    ko, k1 = sch.split(k, [None, tile.depth])
    steps = tensor_cores.depth_of(dtype)
    ki, kk = sch.split(k1, [None, steps])
    sch.reorder(warp_row, warp_column, ko, ki, mi, nj, ii, jj, kk)
    warp = fused(sch, [warp_row, warp_column])
    sch.bind(warp, "threadIdx.y")
    sch.reverse_compute_at(writer, warp)
    if last is not None:
        sch.storage_align(writer, 0, -2, 16, 8)  # the pairs of 4 rows are in different banks
    pair = dtype != "float32" and tile.columns // tile.warp_columns % 16 == 0
    width = 16 if pair else 8  # columns that a load brings
    fragments = []
    for copy, scope, name in zip(
        copies,
        (tensor_cores.MATRIX_A, tensor_cores.MATRIX_B),
        (tensor_cores.load_a(dtype), tensor_cores.load_b(dtype, transposed, pair)),
        strict=True,
    ):
        operand = buffers_written(block_of(sch, copy))[0].name
        read = next(p for p, r in enumerate(regions_read(block_of(sch, block))) if r.buffer.name == operand)
        fragment = sch.cache_read(block, read, scope)
        sch.compute_at(fragment, ki)
        sch.compute_at(copy, ko, preserve_unit_loops=True)
        fragments.append((fragment, name, scope))
    for copy, (load, axes) in zip(copies, tiles, strict=True):
        whole = [("threadIdx.y", tile.warps), ("threadIdx.x", tensor_cores.WARP)]
        fetched(sch, copy, len(axes), *fetches_of(product, load, axes), whole)
        sch.storage_align(copy, 0, -2, *gap(product, axes))
    init = sch.decompose_reduction(block, ko)
    *_, init_m, init_n, init_i, _ = sch.get_loops(init)
    for loop in (init_m, init_n, mi, nj):
        sch.unroll(loop)
    sch.tensorize(init_i, tensor_cores.FILL)
    sch.tensorize(ii, tensor_cores.multiply(dtype, transposed))
    for fragment, name, scope in fragments:
        across = (width, steps) if transposed else (steps, width)
        _in_tiles(sch, fragment, (16, steps) if scope == tensor_cores.MATRIX_A else across, name)
    _in_tiles(sch, writer, (16, 8), tensor_cores.STORE if last is None else tensor_cores.STORE_SHARED)
    sch.annotate(ki, "software_pipeline_stage", [0, 0, 0])
    sch.annotate(ki, "software_pipeline_order", [0, 1, 2])
    in_stages(sch, ko, tile.stages)
    sch.unroll(ki)
    if last is not None:
        stored_by_all(sch, last, tile.warps)
    return scheduled(sch, product, last)


def in_blocks(sch: Schedule, block: Any, last: Any, tile: BlockTile, accumulator: str) -> tuple[Any, Sequence[Any]]:
    """Compute a tile in each block of threads, with sums in the scope `accumulator`.

    Returns the block that stores the sums, and the loops around the sum: over rows, columns and steps.
    """
    writer = sch.cache_write(block, 0, accumulator)
    if last is None:
        return writer, tiled(sch, block, tile)[1:]
    grid, *_ = tiled(sch, last, tile)
    sch.compute_at(writer, grid)
    sch.compute_at(block, grid)
    return writer, sch.get_loops(block)[-3:]


def scheduled(sch: Schedule, product: MatrixProduct, last: Any) -> set[str]:
    """Return the names of the blocks into which a product was split: its parts, the necessary copies, and `last`."""
    parts = {
        block.name
        for block in blocks_of(sch.func)
        if block.name.startswith(product.block.name) or any(r.buffer.scope != "global" for r in regions_written(block))
    }
    return parts if last is None else {*parts, block_of(sch, last).name}


def tiled(sch: Schedule, block: Any, tile: BlockTile) -> list[Any]:
    """Tile the loops over m and n, and bind the loops over tiles. Return the innermost bound loop, followed by the
    others.
    """
    *outside, i, j = sch.get_loops(block)[: sum(axis.kind != REDUCE for axis in block_of(sch, block).iter_vars)]
    rest = list(sch.get_loops(block))[len(outside) + 2 :]
    grid_i, tile_i = sch.split(i, [None, tile.rows])
    grid_j, tile_j = sch.split(j, [None, tile.columns])
    sch.reorder(*outside, grid_i, grid_j, tile_i, tile_j, *rest)
    counts = [prod(constant_extent(sch, loop) or 1 for loop in loops) for loops in (outside, [grid_i])]
    if max(counts) > MOST:  # only along x there may be so many
        grid_j = fused(sch, [*outside, grid_i, grid_j])
    else:
        if outside:
            sch.bind(fused(sch, outside), "blockIdx.z")
        if tile.group > 1:
            grid_j = in_groups(sch, grid_i, grid_j, tile.group)
        else:
            sch.bind(grid_i, "blockIdx.y")
    sch.bind(grid_j, "blockIdx.x")
    return [grid_j, tile_i, tile_j, *rest]


def stored_by_all(sch: Schedule, block: Any, groups: int, neighbours: int = tensor_cores.WARP) -> None:
    """Share out the tile of results among `groups` of `neighbours` threads, in vectors of neighbouring elements."""
    row, column = sch.get_loops(block)[-2:]
    lanes = 4 if buffers_written(block_of(sch, block))[0].dtype.bytes >= 4 else 8
    vectors, lane = sch.split(column, [None, lanes])
    _, group, thread = sch.split(sch.fuse(row, vectors), [None, groups, neighbours])
    sch.bind(group, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)


def _in_tiles(sch: Schedule, block: Any, shape: tuple[int, int], name: str) -> None:
    """Split the last two loops of a block into tiles, each of which is one instruction."""
    row, column = sch.get_loops(block)[-2:]
    (row_0, row_1), (column_0, column_1) = sch.split(row, [None, shape[0]]), sch.split(column, [None, shape[1]])
    sch.reorder(row_0, column_0, row_1, column_1)
    sch.unroll(row_0)
    sch.unroll(column_0)
    sch.tensorize(row_1, name)
