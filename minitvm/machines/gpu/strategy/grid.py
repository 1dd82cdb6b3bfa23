"""Assign loops to the axes of a grid.

An index of fused loops is split by quotients and remainders of all extents but the first. The proofs that `bind` needs
succeed if these extents are constant. So each loop of unknown extent begins a new axis, and constant loops join it.
There are three axes. If there are more loops of unknown extent, the outer ones share an axis, and `bind` refuses the
cases that it cannot decide.
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
    """Fuse nested loops into one and return it."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def in_groups(sch: Schedule, rows: Any, columns: Any, group: int) -> Any:
    """Fuse two nested loops so that the result runs through `group` rows of a column before the next column.

    `group` must divide the rows. Blocks start in this order. So the blocks that run at the same time form a roughly
    square part of the matrix of blocks, and read fewer rows and columns of the operands than the same number of blocks
    in one row.
    """
    groups, row = sch.split(rows, [None, group])
    sch.reorder(groups, columns, row)
    return sch.fuse(groups, columns, row)


def over_blocks(sch: Schedule, loops: Sequence[Any]) -> Any:
    """Bind nested loops, outermost first, to blocks. Return the innermost of the resulting loops."""
    axes = _axes(sch, loops)
    for loop, axis in zip(axes, AXES, strict=False):
        sch.bind(loop, axis)
    return axes[-1]


def over_blocks_and_threads(sch: Schedule, loops: Sequence[Any], threads: int) -> Any:
    """Bind nested loops to blocks with `threads` threads each, or fewer if there are fewer iterations. Return the loop
    over threads.
    """
    *outside, last = _axes(sch, loops)
    extent = constant_extent(sch, last)
    block, thread = sch.split(last, [None, threads if extent is None else min(threads, extent)])
    for loop, axis in zip((*outside, block), AXES, strict=False):
        sch.bind(loop, axis)
    sch.bind(thread, "threadIdx.x")
    return thread


def over_blocks_of_threads(nest: TileNest) -> Any:
    """Bind the tiles of a nest to blocks and its threads to threads. Return the single loop over threads."""
    thread = fused(nest.sch, nest.at(THREADS))
    over_blocks(nest.sch, nest.tiles)
    for loop in nest.at(VIRTUAL):
        nest.sch.bind(loop, "vthread")
    nest.sch.bind(thread, "threadIdx.x")
    return thread


def _axes(sch: Schedule, loops: Sequence[Any]) -> list[Any]:
    """Fuse the loops into as few as possible, outermost first. The first one becomes axis x, the only one that allows
    more than 65535 blocks.
    """
    groups: list[list[Any]] = []
    for loop in loops:
        if not groups or constant_extent(sch, loop) is None:
            groups.append([])
        groups[-1].append(loop)
    while len(groups) > len(AXES):
        groups[:2] = [groups[0] + groups[1]]
    return [fused(sch, group) for group in groups]
