"""Sums of products on GPUs: a thread keeps a tile of results in registers, rows by vectors of columns.

    for each tile, on the grid:
        acc[blocks, rows, vectors] = 0
        for k:                              # reads rows + blocks * vectors, and multiplies rows * blocks * vectors
            acc[b, r, v] += x[r, k] * y[k, b, v]
        out[blocks, rows, vectors] = epilogue(acc)

What the axes are for is read off the accesses (`strategy.roles`), as for CPUs; `blocks` are points of a further axis on
which the rows' operand does not depend: the blocks of output channels of a convolution. A thread's loads are vectors
along the column. Rows divide their axis where it is known: nothing is computed that is not wanted, without a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from ...expr import REDUCE
from ...tir import Schedule
from ...tir.nodes import Block, PrimFunc
from ..blocks import attempt, block_of, blocks_of, divisors, is_reduction
from ..candidate import Candidate, Cost, Knob, Unfit
from ..epilogues import epilogue
from ..registry import rule
from ..roles import Roles, depends, join_axes, names_of, operands, roles
from .fallback import THREADS, on_the_grid, spatial_instances, threads_of_a_block

_ACCUMULATORS = 12  # vectors of a thread's tile: with what is loaded beside them they stay in 16 registers
_ROWS = 16
_LATENCY = 6.0  # steps that a multiply-add takes, while others may start
_BUSY = 4096  # threads that keep a device busy


def has_contraction(func: PrimFunc) -> bool:
    """Whether the only reduction of a function is a contraction, summed in float32 or int32."""
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
    """A thread for each tile of `blocks` by `rows` by `vectors` of `lanes`, along the axes `row` and `column`."""
    block = _reduction(func)
    if block is None:
        return
    ways = {names_of(way): way for way in roles(block)}
    widest = max(1, int(target.vector_lanes("float32")))
    others = threads_of_a_block(max(map(spatial_instances, blocks_of(func))), target)

    def price(row: str, column: str, blocks: int, rows: int, vectors: int, lanes: int, threads: int) -> Cost:
        product = ways[row, column].product
        tiles = product.outside / blocks * ceil(product.m / rows) * ceil(product.n / (vectors * lanes))
        loads = rows + blocks * vectors * (1 if product.contiguous else lanes)
        step = max(float(blocks * rows * vectors), float(loads), _LATENCY)
        step += 4.0 * vectors * rows if product.n % (vectors * lanes) else 0.0
        alone = max(1.0, _BUSY / max(1.0, tiles)) ** 0.5
        return Cost(tiles * product.depth * step * alone + threads / 1e3)

    def apply(sch: Schedule, row: str, column: str, threads: int, **tile: int) -> None:
        used = _schedule(sch, ways[row, column], threads, **tile)
        for name in [b.name for b in blocks_of(sch.func)]:
            if name not in used:
                attempt(lambda name=name: on_the_grid(sch, name, others, widest))  # type: ignore[misc]

    for (row, column), way in ways.items():
        product, further = way.product, _further(way)
        for lanes in sorted({n for n in (widest, widest // 2, 1) if 0 < n <= max(1, product.n)}):
            for rows in _row_tiles(way):
                for vectors in (1, 2, 3, 4):
                    for blocks in divisors(None if further is None else way.extent(further), 4):
                        if blocks * rows * vectors <= _ACCUMULATORS * max(1, widest // lanes):
                            knobs: dict[str, Knob] = {
                                "row": row, "column": column, "blocks": blocks, "rows": rows, "vectors": vectors,
                                "lanes": lanes, "threads": THREADS,
                            }  # fmt: skip
                            yield Candidate(knobs=knobs, price=price, apply=apply)


def _row_tiles(way: Roles) -> list[int]:
    """Numbers of rows that divide their axis, or a group of it."""
    if way.row is None:
        return [1]
    if way.product.m_open:
        return [1, 2, 4]
    return divisors(way.product.m, _ROWS)


def _further(way: Roles) -> int | None:
    """A further axis of the result on which only the vectors' operand depends; None where there is none."""
    loads = operands(way.block) or ()
    rows = next(load for load in loads if load is not way.vectors)
    for position, axis in enumerate(way.axes):
        used = any(depends(rows, way.block.iter_vars[p].var) for p in axis)
        if position not in (way.row, way.column) and not used and way.needed(position):
            return position
    return None


def _schedule(
    sch: Schedule, way: Roles, threads: int, blocks: int, rows: int, vectors: int, lanes: int
) -> set[str]:  # fmt: skip
    """The contraction and what follows it element by element; gives the names of the blocks that it scheduled."""
    kinds = [axis.kind for axis in way.block.iter_vars]
    spatial = len(kinds) - kinds.count(REDUCE)
    if kinds != sorted(kinds, key=lambda kind: kind == REDUCE):
        raise Unfit("contraction: wanted the axes of the sum behind those of the result")
    block = sch.get_block(way.block.name)
    main = epilogue(sch, block)
    if len(sch.get_loops(main)) != spatial:
        raise Unfit("contraction: wanted as many axes behind the sum as the sum has")
    if len(way.axes) < spatial:
        join_axes(sch, block, main, way)
    loops = list(sch.get_loops(main))
    tiles = {way.column: vectors * lanes}
    if way.row is not None:
        tiles[way.row] = rows
    further = _further(way)
    if further is not None:
        tiles[further] = blocks
    inside = [position for position in (further, way.row, way.column) if position is not None]
    halves = {position: sch.split(loops[position], [None, tiles[position]]) for position in inside}
    outer = [loop for position, loop in enumerate(loops) if position not in halves]
    outer += [halves[position][0] for position in inside]
    sch.reorder(*outer, *(halves[position][1] for position in inside))
    written = [*(halves[p][1] for p in inside[:-1]), *sch.split(halves[way.column][1], [None, lanes])]
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    own = list(sch.get_loops(block))[len(outer) :]
    axes, reduction = own[: len(loops)], own[len(loops) :]
    vector = sch.split(axes[way.column], [None, lanes])
    tile_loops = [*(axes[p] for p in range(len(axes)) if p not in inside), *(axes[p] for p in inside[:-1]), *vector]
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
    over, inner = sch.split(whole, [None, threads])
    sch.bind(over, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return {block_of(sch, part).name for part in (init, block, main)}
