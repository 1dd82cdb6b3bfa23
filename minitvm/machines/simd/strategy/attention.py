"""Schedule attention for a few queries at a time: scores, softmax, and the product with the values.

    for head, block of queries in parallel:
        for panel of keys: for tile of queries:  scores[queries, keys] = q . keys            registers, then the cache
        for query: largest, powers, their sum, weights                                        rows
        for tile of queries:  result[queries, width] = weights . values                       registers

The scores of a block stay in the L2 cache, together with the keys and values of a head; all scores at once would be
written to memory and read back, twice. Each product is a micro-kernel of `panels`. Keys are already stored in panels
(`machines.cpu.attention`). If the number of queries is unknown, a task is a head, and its blocks store their scores in
the same memory (`reuse_workspaces`). This follows "FlashAttention" by Dao, Fu, Ermon, Rudra and Re (2022), but with
whole rows of scores, which need no rescaling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from ....strategy.blocks import block_of, blocks_of, constant_extent, is_reduction, reduces_along_last
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.roles import LONG, Roles, roles
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import regions_written
from ....tir.annotations import LANES
from ....tir.nodes import Block, PrimFunc
from .generic import vectorized
from .model import shared
from .panels import PanelPlan, contraction_cost, schedule_panels
from .tasks import in_parallel
from .tiling import RegisterTile, cpu_of, register_tile, registers_of

_BYTES = 4  # of float32
_TILES = (1, 2, 4)  # tiles of queries in a block
_SUMS = 4  # vectors in which a sum is kept: one waits for itself
_OPERATIONS = 30  # of a score behind its product: its exponential above all


def keeps_scores(heads: int, rows: int, columns: int, depth: int, width: int, target: Target) -> bool:
    """Return whether blocks of scores are worthwhile: L2 holds keys, values and some rows of scores, but not all
    scores.
    """
    cpu = cpu_of(target)
    tile = register_tile(rows, columns, "float32", target)
    head = columns * (depth + width) * _BYTES
    some = 2 * _TILES[0] * tile.rows * columns * _BYTES
    return heads * rows * columns * _BYTES > cpu.l2.size >= head + some and rows >= 2 * tile.rows


def key_panel(rows: int | None, columns: int | None, target: Target) -> int:
    """Return how many keys are stored together, which is the width of a register tile. None is an unknown size."""
    return register_tile(rows, columns, "float32", target).columns


def is_attention(func: PrimFunc) -> bool:
    """Return whether a function is two matrix products with a normalisation of rows between them."""
    return _parts(func) is not None


def _parts(func: PrimFunc) -> tuple[Block, Block] | None:
    """Return the blocks of the two products, or None if the function is not attention."""
    blocks = list(blocks_of(func))
    sums = [block for block in blocks if is_reduction(block)]
    if len(sums) < 3 or sums[0] is not blocks[0] or sums[-1] is not blocks[-1]:
        return None
    scores, result = sums[0], sums[-1]
    if _by_rows(scores) is None or _by_rows(result) is None:
        return None
    return (scores, result) if all(map(reduces_along_last, sums[1:-1])) else None


def _by_rows(block: Block) -> Roles | None:
    """Return a matrix product with its last two axes as row and column, or None for any other block."""
    spatial = len(regions_written(block)[0].region)
    ways = (way for way in roles(block, kept=()) if way.row is not None and len(way.axes) == spatial)
    return next((way for way in ways if (way.row, way.column) == (spatial - 2, spatial - 1)), None)


@rule("cpu", is_attention)
def attention(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield blocks of `queries`, with tiles of `rows` by `vectors` for the scores and `result_vectors` for the
    result.
    """
    parts, cpu = _parts(func), cpu_of(target)
    if parts is None:
        return
    scores, result = map(_by_rows, parts)
    assert scores is not None and result is not None  # _parts
    first, second = scores.product, result.product
    lanes = max(1, cpu.vector_bytes // _BYTES)
    if scores.panel is not None and scores.panel % lanes:
        raise Unfit(f"panels of {scores.panel} keys for vectors of {lanes}")

    def price(queries: int, rows: int, vectors: int, result_vectors: int) -> Cost:
        tiles = (RegisterTile(rows, vectors, lanes), RegisterTile(rows, result_vectors, lanes))
        products = [
            contraction_cost(product, PanelPlan(tile, product.m), False, _BYTES, cpu).compute
            for product, tile in zip((first, second), tiles, strict=True)
        ]
        elements = first.outside * first.m * first.n
        kept = first.n * (first.depth + second.n) * _BYTES  # keys and values, once a block
        moved = 4 * min(queries, first.m) * first.n * _BYTES  # scores, powers and weights, written and read
        blocks = first.outside * ceil(first.m / queries)
        fits = kept + moved // 2 <= cpu.l2.size
        held = blocks * (kept + moved) / (cpu.l2_rate if fits else cpu.l3_rate)
        arithmetic = sum(products) + elements / lanes * _OPERATIONS / cpu.fma_ports
        return Cost(arithmetic, held) * shared(blocks, cpu)

    def apply(sch: Schedule, queries: int, rows: int, vectors: int, result_vectors: int) -> None:
        tiles = (RegisterTile(rows, vectors, lanes), RegisterTile(rows, result_vectors, lanes))
        _schedule(sch, [block.name for block in parts], tiles, queries, lanes)

    best = register_tile(None if first.m_open else first.m, None if first.n_open else first.n, "float32", target)
    width = scores.panel or best.columns
    most = max(
        v for v in range(1, cpu.vector_registers) if v == 1 or registers_of(best.rows, v) <= cpu.vector_registers
    )
    for tiles in _TILES:
        queries = tiles * best.rows
        if queries < 2 * first.m:
            yield Candidate(
                knobs={
                    "queries": queries, "rows": best.rows, "vectors": max(1, width // lanes),
                    "result_vectors": min(most, ceil(second.n / lanes)),
                },
                price=price, apply=apply,
            )  # fmt: skip


def _schedule(
    sch: Schedule, products: Sequence[str], tiles: tuple[RegisterTile, RegisterTile], queries: int, lanes: int
) -> None:
    """Compute all blocks inside the loop over blocks of queries of the second product."""
    sums = [block.name for block in blocks_of(sch.func) if is_reduction(block)][1:-1]
    scores, result = map(sch.get_block, products)
    written, last = epilogue(sch, scores, before=sums[0]), epilogue(sch, result)
    order = [block.name for block in blocks_of(sch.func)]
    *of_row, weights = order[order.index(block_of(sch, written).name) + 1 : order.index(products[1])]
    loops = list(sch.get_loops(last))
    row, column = len(loops) - 2, len(loops) - 1
    schedule_panels(
        sch, result, loops, row, column, PanelPlan(tiles[1], queries), streams=False, group=queries, parallel=False
    )
    *outside, at = sch.get_loops(last)[: row + 1]
    sch.compute_at(sch.get_block(weights), at, preserve_unit_loops=True)
    query = sch.get_loops(sch.get_block(weights))[-2]
    for name in reversed(of_row):
        sch.compute_at(sch.get_block(name), query)
    for name in (*of_row, weights):
        loop = sch.get_loops(sch.get_block(name))[-1]
        if name not in sums:
            vectorized(sch, loop, lanes)
        elif (constant_extent(sch, loop) or LONG) >= 2 * lanes:
            sch.annotate(loop, LANES, _SUMS * lanes)
    sch.compute_at(written, at, preserve_unit_loops=True)
    own = list(sch.get_loops(written))[-len(loops) :]
    sch.compute_at(scores, at, preserve_unit_loops=True)
    schedule_panels(sch, scores, own, row, column, PanelPlan(tiles[0], queries), streams=False, parallel=False)
    if constant_extent(sch, at) is None:
        in_parallel(sch, outside)
    else:
        in_parallel(sch, [*outside, at])
