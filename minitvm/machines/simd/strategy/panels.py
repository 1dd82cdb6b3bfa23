"""The micro-kernel of matrix products: a register tile of rows by vectors of columns, computed on panels of columns.

    for outer, (i_block, j_panel) in parallel:          in the order in which the larger operand is read once
        for i_tile in i_block:
            acc[rows, vectors] = 0                              registers
            for reduction: acc[rows, vectors] += a[rows] * b[vectors]
            out[rows, vectors] = epilogue(acc)

Tiles need not divide the result: partial tiles at the edges get separate micro-kernels, made by `partition_loops`, or
by `unswitch_tiles` if an extent is symbolic. A panel of b stays in the cache while a task works through its rows. After
Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
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

# Cycles per packed element, in order or transposed; and the factor by which a pass over a panel takes longer if it is
# spread over pages instead of packed. Measured on Zen 5 on 1024 x 1024 x 1024 and 16 x 2048 x 2048.
_COPIED, _TURNED = 0.65, 0.8
_SPREAD = 0.02
# Rows are often a power of two apart, and evict each other from the L1 cache. Measured on Zen 5: up to 10 rows that are
# 16 KB apart lose nothing, and 13 rows lose a sixth.
_ROWS, _ROW = 8, 0.03
# A micro-kernel that is cut along both edges, one of them symbolic, has twice as many versions to compile and fetch.
_VERSIONS = 1.02


@dataclass(frozen=True, slots=True)
class PanelPlan:
    """A register `tile` of the result, and the `task_rows` rows per task: all rows if there are not more, or if their
    number is symbolic.
    """

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
    # The first pass over a panel waits for memory; in later passes most of the reading overlaps with the arithmetic.
    held = panels * panel * (1 / stall + (passes - 1) / near / 4)
    if product.packed and m >= n:
        # Panels that are packed in memory are read again for each block of rows; otherwise the rows are read again.
        held += (ceil(m / plan.task_rows) - 1) * n * depth * itemsize / cpu.l3_rate
    elif pack:
        held += panels * depth * tile.columns * (_COPIED if product.contiguous else _TURNED)
    else:
        held += n * depth * passes * _SPREAD
        lost = displaced(depth, tile.columns * itemsize, product.pitch * itemsize, cpu.l2)
        held += lost * panels * panel * (passes - 1) / stall
    return Cost(steps, held) * float(product.outside)


def displaced(rows: int, nbytes: int, pitch: int, cache: Any) -> float:
    """Return the share of a panel that has left a cache when it is read again. The panel has `rows` rows of `nbytes`
    bytes, which begin `pitch` bytes apart.

    The address of a line modulo the size of a cache way decides where it is stored. If the pitch has a large common
    divisor with that size, rows begin at few places and evict each other. Nothing is lost while a panel fills at most
    half of the places that its rows can use; if it fills all of them, nearly everything is lost (measured on Emerald
    Rapids).
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
        inside       positions of loops whose iterations all use the same panel
        parallel     panels, or blocks of rows of a panel, are tasks

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
    """Return the rows per parallel task: a multiple of the tile, and few enough that every core gets several tasks."""
    panels = max(1, -(-n // tile_columns))  # a matrix without columns has no panel, and nothing to share out
    tiles = -(-m // tile_rows)
    wanted = 1 if cores == 1 else max(1, -(-8 * cores // panels))
    return max(1, -(-tiles // max(1, min(wanted, tiles)))) * tile_rows


def pack_panel(sch: Schedule, packed: Any, at: Any, lanes: int, shortest: int = 1) -> None:
    """Copy the panel at the loop over panels, in vectors; see `copy_in_vectors`."""
    sch.compute_at(packed, at, preserve_unit_loops=True)
    copy_in_vectors(sch, packed, lanes, shortest)


def pack_whole(sch: Schedule, packed: Any, lanes: int, shortest: int = 1) -> None:
    """Copy the whole operand before the product, in vectors. The axes before the columns are shared among the cores."""
    around = copy_in_vectors(sch, packed, lanes, shortest)
    in_parallel(sch, around[:-1] or around)


def copy_in_vectors(sch: Schedule, packed: Any, lanes: int, shortest: int = 1) -> list[Any]:
    """Copy in vectors along the columns, which are the last axis of the copy. Return the loops around the vectors.

    If the columns are not the last axis of the source, squares are transposed in registers (`transpose_tiles`),
    provided that the source's last axis has at least the extent `shortest`.
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
