"""Sums of products, whatever they are called: their schedule follows from how the operands are indexed (`roles`).

Matrix products, their transposes and batches of them, convolutions of any rank and layout, grouped or dilated, einsums:
a tile of rows by vectors of columns is kept in registers (`panels`). Where the vectors are not contiguous in their
operand, the panel of it is packed first, in the order in which the micro-kernel reads it.

What bounds it is the multiply-add units: a step of an 8 x 3 tile is 24 multiply-adds (12 cycles on two ports) against
3 vector loads and 8 broadcasts (5.5 cycles on two load ports).
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
    """Whether the only reduction of a function is a contraction, summed in floats or int32."""
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
    """Yield tiles of `rows` by `vectors` along the axes named `row` and `column`. A task has `task_rows` result rows.

    With `pack`, a task first copies the panel that its rows read. With `phases`, the operand of the rows is stored
    phase by phase. If there are no rows, `row` is `column`.
    """
    block, cpu = _reduction(func), cpu_of(target)
    if block is None:
        return
    dtype = buffers_written(block)[0].dtype
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
        used = _schedule(sch, way, plan(**tile), pack)
        schedule_other_blocks(sch, target, used)

    for (row, column), way in ways.items():
        product = way.product
        lanes = lanes_for(product.n, max(1, cpu.vector_bytes // dtype.bytes))
        panel = way.panel if not way.panel or way.panel % lanes == 0 else 0  # vectors would lie in two panels
        # A single row is bound by reading its operand: each vector is a stream of its own.
        m, n = (None if product.m_open else product.m, None if product.n_open else product.n)
        ranked = register_tiles(m, n, dtype, target, streams=panel != 0)
        tiles = (tile for tile, _ in ranked if tile.rows <= product.m)
        fitting = (tile for tile in tiles if way.group is None or way.group % tile.rows == 0)
        # Rows whose elements lie between one another's are stored together.
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
    """The lanes of vectors for rows of so many columns: the widest, or fewer that are enough for a row."""
    while widest >= 8 and widest // 2 >= columns:
        widest //= 2
    return widest


def _schedule(sch: Schedule, way: Roles, plan: PanelPlan, pack: bool) -> set[str]:
    """The contraction and what follows it element by element; gives the names of the blocks that it scheduled."""
    block = sch.get_block(way.block.name)
    main = writer_of_sum(sch, way, block, epilogue)
    row = way.row
    if row is not None and way.group is not None:
        split_axis(sch, block, main, row, way.group)
        row += 1
    packed = sch.reindex_cache_read(block, way.read, "local", _packed_order(way)) if pack else None
    init = schedule_panels(
        sch, block, list(sch.get_loops(main)), row, _place(way, way.column), plan, streams=not pack, packed=packed,
        inside=[_place(way, p) for p in way.shared] if pack else (),
    )  # fmt: skip
    return {block_of(sch, part).name for part in (init, block, main, packed) if part is not None}


def _place(way: Roles, position: int) -> int:
    """Where an axis is once the rows are an axis of groups and one of the rows in a group, in their place."""
    return position + (way.group is not None and way.row is not None and position > way.row)


def _packed_order(way: Roles) -> IndexMap:
    """The axes on which the vectors' operand depends: what is outside (of grouped rows the group), those of the sum,
    the column."""
    iterators = way.block.iter_vars
    outside = [p for p in range(len(way.axes)) if p != way.column and way.needed(p)]
    summed = [axis for axis in iterators if axis.kind == REDUCE]
    inner = [len(way.axes) + p for p, axis in enumerate(summed) if depends(way.vectors, axis.var)]
    order = [_place(way, p) for p in (*outside, *inner, way.column)]
    ndim = _place(way, len(way.axes) + len(summed))
    return IndexMap.from_func(lambda *iters: tuple(iters[p] for p in order), ndim=ndim)
