"""Schedule Winograd's convolution on GPUs: two transforms, and a batch of matrix products between them.

    for each tile and channel, a thread:                     # both transforms in registers, each element loaded once
        strips = the tile's pixels, zeros around the image
        columns = B^T strips
        tiles[u, v] = columns B
    for each place (u, v): products[u, v] = weights[u, v] * tiles[u, v]      # `contraction.TiledSum`
    for each tile and output channel, a thread:
        rows = A^T (products, after adding up their parts)
        result = epilogue(rows A)

If images are small, a place has few tiles. But there are 16 or 36 places, so there are more blocks than in a direct
convolution, each with a ninth of the steps. Data that the transforms write and read again usually stay in the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ....strategy import blocks as strategy_blocks
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.epilogues import inlined_forward
from ....strategy.registry import rule
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import PrimFunc
from . import implicit_gemm
from .contraction import TiledSum
from .costs import element_wise_cost
from .fallback import THREADS
from .grid import fused, over_blocks
from .matrices import MatrixProduct, product_of_matrices

_ROW = 256  # threads along a row of tiles, at most

OP = "nn.contrib_winograd_conv2d_NCHWc"


@rule("gpu", strategy_blocks.computes(OP), first=True)
def winograd(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a thread for each tile and channel of a transform, and products by `implicit_gemm` or
    `TiledSum`.

    With `splits` above 1, `TiledSum` computes the products in parts, and the transform of the result adds them up.
    """
    if "strips" not in {block.name for block in strategy_blocks.blocks_of(func)}:
        raise Unfit("winograd: wanted an image of constant extents, without dilation")
    tile, products = (
        int(strategy_blocks.block_named(func, "winograd").annotations["tile"]),
        strategy_blocks.block_named(func, "products"),
    )
    before, behind_them = _transforms(func, tile + 2)
    matrices, tiled = product_of_matrices(products), TiledSum(products, target)

    def price(**knobs: Any) -> Cost:
        return tiled.cost(**knobs) + before(target, 1) + behind_them(target, int(knobs["splits"]))

    def apply(sch: Schedule, **knobs: Any) -> None:
        in_parts = int(knobs["splits"]) > 1
        source = sch.get_block("products") if in_parts else sch.cache_read(sch.get_block("rows"), 0, "local")
        _transformed(sch)
        _, copies = tiled.schedule(sch, lambda sch, block: sch.cache_write(block, 0, "local"), **knobs)
        _result(sch, tile, source, in_parts)
        for copy in copies:
            sch.annotate(copy, "double_buffer_scope", 0)

    if matrices is not None:
        yield from _by_matrices(matrices, tile, lambda: before(target, 1) + behind_them(target, 1), target)
    for knobs in tiled.decisions():
        yield Candidate(knobs=knobs, price=price, apply=apply)


def _by_matrices(
    product: MatrixProduct, tile: int, transforms: Callable[[], Cost], target: Target
) -> Iterator[Candidate]:
    """Yield candidates that compute the products of all places as matrix products. Rows are tiles, and columns are
    output channels.
    """
    fetches = implicit_gemm.fetches_of(product)

    def price(**knobs: Any) -> Cost:
        return implicit_gemm.tile_cost(product, implicit_gemm.Tile(**knobs), fetches, target) + transforms()

    def apply(sch: Schedule, **knobs: Any) -> None:
        source = sch.cache_read(sch.get_block("rows"), 0, "local")
        _transformed(sch)
        _result(sch, tile, source, in_parts=False)
        implicit_gemm.schedule(sch, product, implicit_gemm.Tile(**knobs), alone=True)

    for one in implicit_gemm.tiles(product, fetches, target):
        yield Candidate(knobs=asdict(one), price=price, apply=apply)


Transform = Callable[[Any, int], Cost]  # what it costs on a target, where its input is in so many parts


def _transforms(func: PrimFunc, line: int) -> tuple[Transform, Transform]:
    """Return the costs of both transforms. Each value is twice a sum of about `line` terms."""
    values = {
        name: strategy_blocks.volume(strategy_blocks.shape_written(strategy_blocks.block_named(func, name)))
        for name in ("tiles", "products", "winograd")
    }

    def before(target: Target, parts: int) -> Cost:  # noqa: ARG001 (the image is whole)
        return element_wise_cost(2 * values["tiles"], 2 * line * values["tiles"], line**2, target)

    def behind_them(target: Target, parts: int) -> Cost:
        read = values["products"] * parts
        operations = read + 2 * line * values["products"]
        return element_wise_cost(read + values["winograd"], operations, parts * line**2, target)

    return before, behind_them


def _transformed(sch: Schedule) -> None:
    """Schedule the input's transform: a thread for each tile and channel, adjacent along channels first, then along
    tiles.
    """
    tiles, columns, strips = (sch.get_block(name) for name in ("tiles", "columns", "strips"))
    n, u, v, ib, p, c = sch.get_loops(tiles)
    down, across = sch.split(p, [strategy_blocks.shape_written(strategy_blocks.block_of(sch, strips))[2], None])
    outer = _ordered(sch, n, ib, down, across, c, [u, v])
    for stage in (columns, strips):
        _in_registers(sch, stage, c)
    _on_the_grid(sch, outer)


def _result(sch: Schedule, tile: int, source: Any, in_parts: bool) -> None:
    """Schedule the result's transform and the blocks after it: a thread for each tile and output channel.

    `source` loads a tile of products into registers. With `in_parts`, it adds up their parts.
    """
    result, rows = (sch.get_block(name) for name in ("winograd", "rows"))
    strategy_blocks.inline_injective(sch, within=strategy_blocks.behind(sch.func, "winograd"))
    result = inlined_forward(sch, result)
    for consumer in sch.get_consumers(result):  # another layout is written at once
        strategy_blocks.attempt(lambda consumer=consumer: sch.reverse_compute_inline(consumer))  # type: ignore[misc]
    b, ob, y, x, oc = sch.get_loops(result)
    (down, dy), (across, dx) = (sch.split(loop, [None, tile]) for loop in (y, x))
    outer = _ordered(sch, b, ob, down, across, oc, [dy, dx])
    for stage in (rows, source):
        _in_registers(sch, stage, oc)
    if in_parts:
        place = list(sch.get_loops(source)).index(oc) + 1
        init = sch.decompose_reduction(source, sch.get_loops(source)[place])
        _unrolled(sch, sch.get_loops(init)[place:])
    _on_the_grid(sch, outer)


def _ordered(
    sch: Schedule, batch: Any, channels: Any, down: Any, across: Any, lane: Any, inside: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the nested loops over blocks and over threads, around the loops `inside`, which are unrolled.

    Threads are adjacent along channels, then along tiles of a row, then along blocks of channels. Their numbers divide
    these axes, so that the position of a tile is a quotient of the thread index alone.
    """
    channel, row, vectors = (strategy_blocks.constant_extent(sch, loop) or 1 for loop in (lane, across, channels))
    some = strategy_blocks.largest_divisor(row, max(1, _ROW // channel))
    over, across = sch.split(across, [None, some])
    further, channels = sch.split(
        channels, [None, strategy_blocks.largest_divisor(vectors, max(1, THREADS // (some * channel)))]
    )
    blocks, threads = [batch, further, down, over], [channels, across, lane]
    sch.reorder(*blocks, *threads, *inside)
    _unrolled(sch, inside)
    return blocks, threads


def _on_the_grid(sch: Schedule, loops: tuple[list[Any], list[Any]]) -> None:
    blocks, threads = loops
    sch.bind(fused(sch, threads), "threadIdx.x")
    over_blocks(sch, blocks)


def _in_registers(sch: Schedule, stage: Any, loop: Any) -> None:
    """Compute the elements of `stage` that an iteration of a loop reads in that iteration, unrolled and in
    registers.
    """
    sch.compute_at(stage, loop)
    sch.set_scope(stage, 0, "local")
    around = list(sch.get_loops(stage)).index(loop) + 1
    _unrolled(sch, sch.get_loops(stage)[around:])


def _unrolled(sch: Schedule, loops: Sequence[Any]) -> None:
    for loop in loops:
        sch.unroll(loop)
