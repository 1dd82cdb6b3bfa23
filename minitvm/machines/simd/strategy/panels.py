"""The micro-kernel of matrix products: a tile of rows by vectors of columns in registers, on panels of columns.

    for outer, (i_block, j_panel) in parallel:          in the order in which the larger operand is read once
        for i_tile in i_block:
            acc[rows, vectors] = 0                              registers
            for reduction: acc[rows, vectors] += a[rows] * b[vectors]
            out[rows, vectors] = epilogue(acc)

Tiles need not divide: what sticks out is left off by micro-kernels of their own, which `partition_loops` cuts off, or
`unswitch_tiles` where an extent is open. A panel of b stays in the cache while the rows of a task pass.
After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd
from typing import Any

from ....expr import find
from ....strategy.blocks import block_of, constant_extent, extents
from ....strategy.candidate import Cost
from ....strategy.roles import Product, contiguous_along
from ....target import CPU
from ....tir import Schedule
from ....tir.annotations import PREFETCH
from ....tir.nodes import BufferLoad, BufferStore
from .model import KERNEL_EFFICIENCY, stall_rate
from .register_tile import PREFETCH_AHEAD
from .tasks import in_parallel
from .tiling import RegisterTile, least_cycles_of, slower_than_least

# Cycles an element that is packed takes, in order or turned around; and by how much a pass over a panel takes longer
# where it is spread over pages, not packed. Measured on Zen 5 on 1024 x 1024 x 1024 and 16 x 2048 x 2048.
_COPIED, _TURNED = 0.65, 0.8
_SPREAD = 0.02
# Rows often stand a power of two apart, and displace one another in the L1 cache. Measured on Zen 5: of up to 10 rows
# that are 16 KB apart nothing is lost, of 13 a sixth.
_ROWS, _ROW = 8, 0.03
# A micro-kernel that is cut along both edges, of which one is open, has twice as many versions to compile and to fetch.
_VERSIONS = 1.02


@dataclass(frozen=True, slots=True)
class PanelPlan:
    """`tile` of the result in registers, `task_rows` of it a task: all rows if these are no more, or open."""

    tile: RegisterTile
    task_rows: int


def contraction_cost(product: Product, plan: PanelPlan, pack: bool, itemsize: int, cpu: CPU) -> Cost:
    """Return the cost of a plan's tiles, including partial tiles and waiting for the vector operand."""
    tile, m, n, depth = plan.tile, product.m, product.n, product.depth
    known = (None if product.m_open else m, None if product.n_open else n)
    slower = slower_than_least(*known, tile, cpu, streams=not pack)
    steps = slower * least_cycles_of(m, n, tile.lanes, cpu, streams=not pack) * depth / KERNEL_EFFICIENCY
    steps *= 1 + _ROW * max(0, tile.rows - _ROWS)
    if product.m_open and (product.n_open or n % tile.columns):
        steps *= _VERSIONS
    panels, passes = ceil(n / tile.columns), ceil(m / tile.rows)
    panel = depth * tile.columns * itemsize
    near, stall = cpu.l2_rate if panel <= cpu.l2.size // 2 else cpu.l3_rate, stall_rate(cpu)
    # The first pass over a panel waits for it; in the others most of the reading passes beside the arithmetic.
    held = panels * panel * (1 / stall + (passes - 1) / near / 4)
    if product.packed and m >= n:
        # Panels that lie packed in memory are read again for each block of rows; otherwise the rows are.
        held += (ceil(m / plan.task_rows) - 1) * n * depth * itemsize / cpu.l3_rate
    elif pack:
        held += panels * depth * tile.columns * (_COPIED if product.contiguous else _TURNED)
    else:
        held += n * depth * passes * _SPREAD
        lost = displaced(depth, tile.columns * itemsize, product.pitch * itemsize, cpu.l2)
        held += lost * panels * panel * (passes - 1) / stall
    return Cost(steps, held) * float(product.outside)


def displaced(rows: int, nbytes: int, pitch: int, cache: Any) -> float:
    """The part of a panel that is no longer in a cache when it is read again: of rows of so many bytes, a pitch apart.

    A line's address modulo the size of a way decides where it may lie. Rows whose pitch has a large common divisor with
    that size begin at few places, and displace one another. Of a panel that fills half of what they can take nothing is
    lost; measured on Emerald Rapids, of one that fills all of it nearly everything.
    """
    if pitch <= 0:
        return 0.0
    way = cache.size // cache.ways
    lines = ceil(nbytes / cache.line) * cache.line
    room = cache.ways * min(way, way // gcd(pitch, way) * lines)
    return min(1.0, max(0.0, 2 * rows * lines / room - 1))


def schedule_panels(
    sch: Schedule,
    block: Any,
    loops: Sequence[Any],
    row: int | None,
    column: int,
    plan: PanelPlan,
    streams: bool = True,
    packed: Any = None,
    group: int | None = None,
    inside: Sequence[int] = (),
    parallel: bool = True,
) -> Any:
    """Compute the reduction `block` in tiles of `loops`, and return its init block.

    `loops` are the loops of the block that writes the result. `row` and `column` are the positions of the loops to tile
    (`row` may be None); all other loops go outside. The block itself has the same loops in the same order, followed by
    those of its reduction. The options:

        streams      the panel comes from memory, so prefetch it
        packed       a copy of the panel, made once per task
        group        a tile stays within this many rows
        inside       positions of loops within a panel, which is the same for all their iterations
        parallel     panels are tasks, or blocks of rows of a panel

    With `parallel`, one operand is read again for each block or panel of the other. That is the one with fewer
    elements; if it is packed first or an extent is open, panels are tasks.
    """
    tile, count = plan.tile, len(loops)
    columns = constant_extent(sch, loops[column])
    outside = [loop for position, loop in enumerate(loops) if position not in (row, column, *inside)]
    within = [loops[position] for position in inside]
    row_tiles, rows, extent = [], [], None
    if row is not None:
        row_loop = loops[row]
        if group is not None:
            over, row_loop = sch.split(row_loop, [None, group])
            outside.append(over)
        extent = constant_extent(sch, row_loop)
        *row_tiles, inner = sch.split(row_loop, _row_factors(plan, extent))
        rows = [inner]
    j_panel, j_vector, j_lane = sch.split(loops[column], [None, tile.vectors, tile.lanes])
    blocks, last = row_tiles[:-1], row_tiles[-1:]
    once = packed is None and extent is not None and columns is not None and extent < columns
    tasks = [*outside, j_panel, *blocks] if once else [*outside, *blocks, j_panel]
    around = [*tasks, *within, *last]
    sch.reorder(*around, *rows, j_vector, j_lane)
    sch.compute_at(block, around[-1], preserve_unit_loops=True)
    own = list(sch.get_loops(block))[-len(block_of(sch, block).iter_vars) :]
    spatial, reduction = own[:count], own[count:]
    vector, lane = sch.split(spatial[column], [None, tile.lanes])
    rest = [loop for position, loop in enumerate(spatial) if position not in (row, column)]
    own_row = [spatial[row]] if row is not None else []
    sch.reorder(*rest, *reduction, *own_row, vector, lane)
    init = sch.decompose_reduction(block, reduction[0])
    if streams:
        sch.annotate(reduction[-1], PREFETCH, PREFETCH_AHEAD)
    if packed is not None:
        pack_panel(sch, packed, j_panel, tile.lanes)
    inits = list(sch.get_loops(init))[-2 - len(rows) :]
    for nest in ([*own_row, vector, lane], inits, [*rows, j_vector, j_lane]):
        for loop in nest[:-1]:
            sch.unroll(loop)
        sch.vectorize(nest[-1])
    if parallel:
        in_parallel(sch, tasks)
    return init


def _row_factors(plan: PanelPlan, extent: int | None) -> list[int | None]:
    if extent is None or plan.task_rows >= extent:
        return [None, plan.tile.rows]
    return [None, max(1, plan.task_rows // plan.tile.rows), plan.tile.rows]


def row_block(m: int, n: int, tile_rows: int, tile_columns: int, cores: int) -> int:
    """Rows of one parallel task: a multiple of the tile, few enough that every core gets several tasks."""
    panels = max(1, -(-n // tile_columns))  # a matrix without columns has no panel, and nothing to share out
    tiles = -(-m // tile_rows)
    wanted = 1 if cores == 1 else max(1, -(-8 * cores // panels))
    return max(1, -(-tiles // max(1, min(wanted, tiles)))) * tile_rows


def pack_panel(sch: Schedule, packed: Any, at: Any, lanes: int, shortest: int = 1) -> None:
    """Copy the panel at the loop over panels, in vectors; see `copy_in_vectors`."""
    sch.compute_at(packed, at, preserve_unit_loops=True)
    copy_in_vectors(sch, packed, lanes, shortest)


def pack_whole(sch: Schedule, packed: Any, lanes: int, shortest: int = 1) -> None:
    """Copy all of it in front, in vectors; the cores share what stands in front of the columns."""
    around = copy_in_vectors(sch, packed, lanes, shortest)
    in_parallel(sch, around[:-1] or around)


def copy_in_vectors(sch: Schedule, packed: Any, lanes: int, shortest: int = 1) -> list[Any]:
    """Copy in vectors along the columns, which stand last where it is written; returns the loops around the vectors.

    Where it is read they may not stand last: then squares are turned around in registers (`transpose_tiles`), if what
    stands last there has at least the extent `shortest`.
    """
    block = block_of(sch, packed)
    store = block.body
    assert isinstance(store, BufferStore)
    loads = list(find(store.value, BufferLoad))
    axes = [axis.var for axis in block.iter_vars]
    column = axes.index(store.indices[-1])  # type: ignore[arg-type]
    long = [p for p, axis in enumerate(block.iter_vars) if (extents([axis.dom.extent])[0] or shortest) >= shortest]
    along = next((p for p in long if all(contiguous_along(load, axes[p]) for load in loads)), column)
    loops = list(sch.get_loops(packed))[-len(axes) :]
    others = [loop for position, loop in enumerate(loops) if position not in (column, along)]
    vectors, lane = sch.split(loops[column], [None, lanes])
    if along == column:
        around = [*others, vectors]
        sch.reorder(*around, lane)
    else:
        squares, row = sch.split(loops[along], [None, lanes])
        around = [*others, squares, vectors]
        sch.reorder(*around, row, lane)
        sch.unroll(row)
    sch.vectorize(lane)
    return around
