"""Schedule any sum of products. The schedule follows from how the operands are indexed (`roles`), not from names.

Matrix products, their transposes and batches of them, convolutions of any rank and layout, grouped or dilated, einsums:
a tile of rows by vectors of columns is kept in registers (`panels`). If the vectors are not contiguous in their
operand, a panel of it is first packed in the order in which the micro-kernel reads it.

The multiply-add units are the bottleneck: a step of an 8 x 3 tile needs 24 multiply-adds (12 cycles on two ports), but
only 3 vector loads and 8 broadcasts (5.5 cycles on two load ports).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import Any

from ....expr import REDUCE
from ....strategy.blocks import block_of, only_reduction
from ....strategy.candidate import Candidate, Cost, Knob
from ....strategy.epilogues import epilogue, rearranged
from ....strategy.registry import rule
from ....strategy.roles import Roles, depends, names_of, roles, split_axis, way_of, writer_of_sum
from ....target import Target
from ....tir import IndexMap, Schedule
from ....tir.analysis.block_regions import buffers_written
from ....tir.nodes import Block, PrimFunc
from .conv2d import schedule_other_blocks
from .panels import PanelPlan, contraction_cost, row_block, schedule_panels
from .phases import PHASED, phase_elements, store_phases
from .tiling import RegisterTile, cpu_of, register_tiles

_TILES = 12  # how many register tiles are weighed, the best first


def has_contraction(func: PrimFunc) -> bool:
    """Return whether the only reduction of a function is a contraction, summed in floats or int32."""
    block = _reduction(func)
    return block is not None and bool(roles(block))


def _reduction(func: PrimFunc) -> Block | None:
    block = only_reduction(func)
    if block is None:
        return None
    dtype = buffers_written(block)[0].dtype
    return block if dtype.is_float or dtype == "int32" else None


@rule("cpu", has_contraction)
def contraction(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules with tiles of `rows` by `vectors` along the axes named `row` and `column`. A task computes
    `task_rows` rows of the result.

    With `pack`, a task first copies the panel that its rows read. With `phases`, the operand with the rows is stored
    phase by phase. If there are no rows, `row` is `column`.
    """
    block = _reduction(func)
    if block is None:
        return
    dtype = buffers_written(block)[0].dtype
    cpu = cpu_of(target, dtype)
    behind = rearranged(func, block)
    kept = None if behind is None else behind.kept
    ways = {names_of(way): way for way in roles(block, kept)}

    def plan(rows: int, vectors: int, lanes: int, task_rows: int, **_: Any) -> PanelPlan:
        return PanelPlan(RegisterTile(rows, vectors, lanes), task_rows)

    def price(row: str, column: str, pack: bool, phases: bool, **tile: Any) -> Cost:
        way = ways[row, column]
        product = replace(way.product, contiguous=way.contiguous or phases)
        stored = (phase_elements(way) or 0) * PHASED if phases else 0.0
        return contraction_cost(product, plan(**tile), pack, dtype.bytes, cpu) + Cost(0.0, stored)

    def apply(sch: Schedule, row: str, column: str, pack: bool, phases: bool, **tile: Any) -> None:
        way = ways[row, column]
        if phases:
            block = sch.get_block(way.block.name)
            store_phases(sch, block, way)
            way = way_of(block_of(sch, block), row, column, kept)
        used = _schedule(sch, way, plan(**tile), pack, target.has_threads)
        schedule_other_blocks(sch, target, used)

    for (row, column), way in ways.items():
        product = way.product
        lanes = lanes_for(product.n, max(1, cpu.vector_bytes // dtype.bytes))
        panel = way.panel if not way.panel or way.panel % lanes == 0 else 0  # vectors would lie in two panels
        # A single row takes the time of reading its operand: each vector is a separate stream.
        m, n = (None if product.m_open else product.m, None if product.n_open else product.n)
        ranked = register_tiles(m, n, dtype, target, streams=panel != 0)
        tiles = (tile for tile, _ in ranked if tile.rows <= product.m)
        fitting = (tile for tile in tiles if way.group is None or way.group % tile.rows == 0)
        # Rows whose elements are interleaved are stored together.
        fitting = (tile for tile in fitting if tile.rows % (1 if behind is None else behind.step) == 0)
        streams = (tile for tile in fitting if tile.rows > 1 or tile.vectors <= cpu.chains)
        for tile in islice(streams, _TILES):
            plain = (False,) if panel else (False, True)
            copies = [(pack, False) for pack in ((True,) if panel == 0 else plain)]
            if panel == 0 and phase_elements(way) is not None:
                copies.append((False, True))
            for pack, phases in copies:
                # Two tasks with rows of one panel would pack it twice.
                whole = pack or product.m_open
                some = row_block(product.m, product.n, tile.rows, lanes * tile.vectors, cpu.cores)
                knobs: dict[str, Knob] = {
                    "row": row, "column": column, "rows": tile.rows, "vectors": tile.vectors, "lanes": lanes,
                    "task_rows": max(1, ceil(product.m / tile.rows)) * tile.rows if whole else some, "pack": pack,
                    "phases": phases,
                }  # fmt: skip
                yield Candidate(knobs=knobs, price=price, apply=apply)


def lanes_for(columns: int, widest: int) -> int:
    """Return the number of lanes for rows of this many columns: the widest, or fewer if those hold the whole row."""
    while widest >= 8 and widest // 2 >= columns:
        widest //= 2
    return widest


def _schedule(sch: Schedule, way: Roles, plan: PanelPlan, pack: bool, parallel: bool) -> set[str]:
    """Schedule the contraction and the element-wise blocks after it. Return the names of the scheduled blocks.

    If it is not `parallel`, no loops are fused into tasks, whose places would have to be computed by divisions.
    """
    block = sch.get_block(way.block.name)
    main = writer_of_sum(sch, way, block, epilogue)
    row = way.row
    if row is not None and way.group is not None:
        split_axis(sch, block, main, row, way.group)
        row += 1
    packed = sch.reindex_cache_read(block, way.read, "local", _packed_order(way)) if pack else None
    init = schedule_panels(
        sch, block, list(sch.get_loops(main)), row, _place(way, way.column), plan, streams=not pack, packed=packed,
        inside=[_place(way, p) for p in way.shared] if pack else (), parallel=parallel,
    )  # fmt: skip
    return {block_of(sch, part).name for part in (init, block, main, packed) if part is not None}


def _place(way: Roles, position: int) -> int:
    """Return the position of an axis after the row axis has been split into groups and rows of a group."""
    return position + (way.group is not None and way.row is not None and position > way.row)


def _packed_order(way: Roles) -> IndexMap:
    """Return the order of a packed operand's axes: outside axes (or the group), then the axes of the sum, then the
    column.
    """
    iterators = way.block.iter_vars
    outside = [p for p in range(len(way.axes)) if p != way.column and way.needed(p)]
    summed = [axis for axis in iterators if axis.kind == REDUCE]
    inner = [len(way.axes) + p for p, axis in enumerate(summed) if depends(way.vectors, axis.var)]
    order = [_place(way, p) for p in (*outside, *inner, way.column)]
    ndim = _place(way, len(way.axes) + len(summed))
    return IndexMap.from_func(lambda *iters: tuple(iters[p] for p in order), ndim=ndim)
