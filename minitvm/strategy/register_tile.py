"""A tile of results that stays in registers while a reduction runs; vectors along its last axis.

for <outer tiles>:
    acc[tile] = 0                           # registers
    for <reduction>:
        for <tile>:                         # unrolled; the last axis is one vector
            acc[tile] += a * b
    out[tile] = epilogue(acc[tile])         # bias, activation, residual: while still in registers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..expr import REDUCE
from ..tir import Schedule
from ..tir.annotations import PREFETCH
from ..tir.nodes import BufferLoad
from .blocks import block_of
from .roles import operands, panel_along


def tile_reduction(
    sch: Schedule, block: Any, main: Any, loops: Sequence[Any], tiles: Mapping[int, int], prefetch: int = 0
) -> tuple[list[Any], Any]:
    """Tile `loops`, those of `main` over the axes of the result, and compute the reduction `block` in each tile.

    The last of them must be one vector long. What is around the loops stays there. Gives the loops over the tiles and
    the block that starts the accumulators. Memory is asked for `prefetch` iterations ahead, with 0 not at all.
    """
    axes, around = len(loops), len(sch.get_loops(main)) - len(loops)
    outer, inner = [], []
    for axis, loop in enumerate(loops[:-1]):
        over, tile = sch.split(loop, factors=[None, tiles.get(axis, 1)])
        outer.append(over)
        inner.append(tile)
    vector = loops[-1]
    sch.reorder(*outer, *inner, vector)
    # The block moves below all outer loops; its own loops over the tile keep one loop an axis.
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    depth = around + len(outer)
    own = sch.get_loops(block)[depth:]
    tile_loops, reduction = own[:axes], _by_panels(sch, block, own[axes:])
    sch.reorder(*reduction, *tile_loops)
    init = sch.decompose_reduction(block, reduction[0])
    if prefetch:
        sch.annotate(reduction[-1], PREFETCH, prefetch)
    for nest in (tile_loops, sch.get_loops(init)[depth:], [*inner, vector]):
        for loop in nest[:-1]:
            sch.unroll(loop)
        sch.vectorize(nest[-1])
    return outer, init


def _by_panels(sch: Schedule, block: Any, loops: Sequence[Any]) -> list[Any]:
    """The loops of a reduction, of which one over panels is split: panels outside of the others, their lanes inside.

    Channels that do not fill their blocks of 16 are such a loop: `x[c // 16, .., c % 16]`.
    """
    summed = [axis.var for axis in block_of(sch, block).iter_vars if axis.kind == REDUCE]
    accesses: Sequence[BufferLoad] = operands(block_of(sch, block)) or ()
    for var, loop in zip(summed, loops, strict=True):
        width = max((panel_along(access, var) for access in accesses), default=0)
        if width:
            panel, lane = sch.split(loop, [None, width])
            return [panel, *(other for other in loops if other is not loop), lane]
    return list(loops)
