"""Loops over a grid: which of them become which axis of blocks.

An index of fused loops is taken apart by quotients and remainders of all extents but the first. The proofs behind
`bind` decide these where the extents are constant, so each loop of an open extent begins an axis, which constant ones
join. There are three axes; of more such loops the outer ones share one, and `bind` refuses what it cannot decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....strategy.blocks import constant_extent
from ....strategy.tile_nest import THREADS, VIRTUAL, TileNest
from ....tir import Schedule

AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
MOST = 65535  # blocks along y and z, on devices of NVIDIA


def fused(sch: Schedule, loops: Sequence[Any]) -> Any:
    """Nested loops as one."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def in_groups(sch: Schedule, rows: Any, columns: Any, group: int) -> Any:
    """Two nested loops as one that runs down `group` rows of a column before the next column; `group` divides them.

    Blocks start in this order. Those at work beside one another are then a piece of the matrix of blocks that is
    about as tall as it is wide, and read fewer rows and columns of the operands than as many blocks of one row.
    """
    groups, row = sch.split(rows, [None, group])
    sch.reorder(groups, columns, row)
    return sch.fuse(groups, columns, row)


def over_blocks(sch: Schedule, loops: Sequence[Any]) -> Any:
    """Bind nested loops, outer ones first, to blocks; returns the innermost loop that results."""
    axes = _axes(sch, loops)
    for loop, axis in zip(axes, AXES, strict=False):
        sch.bind(loop, axis)
    return axes[-1]


def over_blocks_and_threads(sch: Schedule, loops: Sequence[Any], threads: int) -> Any:
    """The same with `threads` neighbours in a block, fewer if there are fewer; returns the loop over threads."""
    *outside, last = _axes(sch, loops)
    extent = constant_extent(sch, last)
    block, thread = sch.split(last, [None, threads if extent is None else min(threads, extent)])
    for loop, axis in zip((*outside, block), AXES, strict=False):
        sch.bind(loop, axis)
    sch.bind(thread, "threadIdx.x")
    return thread


def over_blocks_of_threads(nest: TileNest) -> Any:
    """Bind a nest's tiles to blocks, and its threads to theirs; returns the loop over threads, which is one."""
    thread = fused(nest.sch, nest.at(THREADS))
    over_blocks(nest.sch, nest.tiles)
    for loop in nest.at(VIRTUAL):
        nest.sch.bind(loop, "vthread")
    nest.sch.bind(thread, "threadIdx.x")
    return thread


def _axes(sch: Schedule, loops: Sequence[Any]) -> list[Any]:
    """The loops fused into as few as may be, outer ones first. The first gets x: only it has more than 65535 blocks."""
    groups: list[list[Any]] = []
    for loop in loops:
        if not groups or constant_extent(sch, loop) is None:
            groups.append([])
        groups[-1].append(loop)
    while len(groups) > len(AXES):
        groups[:2] = [groups[0] + groups[1]]
    return [fused(sch, group) for group in groups]
