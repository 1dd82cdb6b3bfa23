"""Sums of products on GPUs: a thread keeps a tile of results in registers, rows by vectors of columns.

    for each tile, on the grid:
        acc[rows, vectors] = 0
        for k:                              # each step reads rows + vectors, and multiplies rows * vectors
            acc[r, v] += a[r, k] * b[k, v]
        out[rows, vectors] = epilogue(acc)

What the axes are for is read off the accesses (`strategy.roles`), as for CPUs. A thread's loads are vectors along the
column; threads of a block are neighbours along it, so that their loads lie together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from ...expr import REDUCE
from ...tir import Schedule
from ...tir.nodes import Block, PrimFunc
from ..blocks import attempt, block_of, blocks_of, is_reduction
from ..candidate import Candidate, Cost, Unfit
from ..epilogues import epilogue
from ..registry import rule
from ..roles import Roles, join_axes, names_of, roles
from .fallback import THREADS, on_the_grid

_ACCUMULATORS = 32  # floats of a thread's tile: with what is loaded beside them they stay in registers
_BUSY = 4096  # threads that keep a GPU busy


def has_contraction(func: PrimFunc) -> bool:
    """Whether the only reduction of a function is a contraction, summed in floats or int32."""
    block = _reduction(func)
    return block is not None and bool(roles(block))


def _reduction(func: PrimFunc) -> Block | None:
    reductions = [block for block in blocks_of(func) if is_reduction(block)]
    if len(reductions) != 1:
        return None
    dtype = reductions[0].writes[0].buffer.dtype
    return reductions[0] if dtype in ("float32", "int32") else None


@rule("gpu", has_contraction)
def contraction(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """Tiles of `rows` by `vectors` of `lanes` along the axes `row` and `column`, by their names, a tile a thread."""
    block = _reduction(func)
    if block is None:
        return
    ways = {names_of(way): way for way in roles(block)}
    widest = max(1, int(target.vector_lanes("float32")))

    def price(row: str, column: str, rows: int, vectors: int, lanes: int, threads: int) -> Cost:
        product = ways[row, column].product
        tiles = product.outside * ceil(product.m / rows) * ceil(product.n / (vectors * lanes))
        loads = rows + vectors * (1 if product.contiguous else lanes)
        step = max(float(rows * vectors), 1.5 * loads) + (4.0 * vectors if product.n % (vectors * lanes) else 0.0)
        alone = max(1.0, _BUSY / max(1, tiles)) ** 0.5
        return Cost(tiles * product.depth * step * alone + threads / 1e3)

    def apply(sch: Schedule, row: str, column: str, rows: int, vectors: int, lanes: int, threads: int) -> None:
        used = _schedule(sch, ways[row, column], (rows, vectors, lanes), threads)
        for name in [b.name for b in blocks_of(sch.func)]:
            if name not in used:
                attempt(lambda name=name: on_the_grid(sch, name, THREADS))  # type: ignore[misc]

    for (row, column), way in ways.items():
        product = way.product
        for lanes in {n for n in (widest, widest // 2, 1) if 0 < n <= max(1, product.n)}:
            for rows in (1, 2, 4, 8):
                for vectors in (1, 2, 4):
                    fits = rows * vectors * lanes <= max(_ACCUMULATORS, 8 * widest)
                    divides = product.m_open or product.m % rows == 0
                    if fits and divides and rows <= product.m and (way.group is None or way.group % rows == 0):
                        knobs = {"row": row, "column": column, "rows": rows, "vectors": vectors, "lanes": lanes}
                        yield Candidate(knobs={**knobs, "threads": THREADS}, price=price, apply=apply)


def _schedule(sch: Schedule, way: Roles, tile: tuple[int, int, int], threads: int) -> set[str]:
    """The contraction and what follows it element by element; gives the names of the blocks that it scheduled."""
    kinds = [axis.kind for axis in way.block.iter_vars]
    spatial = len(kinds) - kinds.count(REDUCE)
    if kinds != sorted(kinds, key=lambda kind: kind == REDUCE):
        raise Unfit("contraction: wanted the axes of the sum behind those of the result")
    rows, vectors, lanes = tile
    block = sch.get_block(way.block.name)
    main = epilogue(sch, block)
    if len(sch.get_loops(main)) != spatial:
        raise Unfit("contraction: wanted as many axes behind the sum as the sum has")
    if len(way.axes) < spatial:
        join_axes(sch, block, main, way)
    loops = list(sch.get_loops(main))
    others = [loop for position, loop in enumerate(loops) if position not in (way.row, way.column)]
    row, row_tile = ([], []) if way.row is None else _halves(sch, loops[way.row], rows)
    column, in_tile = _halves(sch, loops[way.column], vectors * lanes)
    outer = [*others, *row, *column]
    sch.reorder(*outer, *row_tile, *in_tile)
    written = [*row_tile, *sch.split(in_tile[0], [None, lanes])]
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    own = list(sch.get_loops(block))[len(outer) :]
    axes, reduction = own[: len(loops)], own[len(loops) :]
    vector, lane = sch.split(axes[way.column], [None, lanes])
    tile_loops = [*(loop for position, loop in enumerate(axes) if position != way.column), vector, lane]
    sch.reorder(*reduction, *tile_loops)
    init = sch.decompose_reduction(block, reduction[0])
    for nest in (tile_loops, list(sch.get_loops(init))[len(outer) :], written):
        for loop in nest[:-1]:
            sch.unroll(loop)
        if lanes > 1:
            sch.vectorize(nest[-1])
        else:
            sch.unroll(nest[-1])
    whole = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    blocks, inner = sch.split(whole, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return {block_of(sch, part).name for part in (init, block, main)}


def _halves(sch: Schedule, loop: Any, tile: int) -> tuple[list[Any], list[Any]]:
    outer, inner = sch.split(loop, [None, tile])
    return [outer], [inner]
