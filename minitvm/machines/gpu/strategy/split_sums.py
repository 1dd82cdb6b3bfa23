"""Long sums of few results, in parts: the steps of a sum are shared out among blocks, and a second kernel adds them up.

    parts[s, ..] = sum of A * B over the steps of part s        # `parted`: a contraction that has one axis more
    result[..] = epilogue(parts[0, ..] + parts[1, ..] + ..)     # `added_up`: a thread for some neighbours

A batch of one makes few tiles of the last layers of a network, fewer than a device has multiprocessors, each with a sum
of thousands of steps. (Split-K of cuBLAS and CUTLASS; `rfactor` of Suriana, Adams and Kamil.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....expr import REDUCE
from ....strategy.blocks import block_of, constant_extent, extents
from ....strategy.candidate import Unfit
from ....strategy.epilogues import epilogue
from ....strategy.tile_nest import TileNest
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import Block
from .costs import BLOCKS_WANTED, processors_of
from .fallback import THREADS
from .grid import over_blocks_and_threads

_PARTS = (2, 4, 8, 16, 32)  # no more: all of them are read again
_LEAST_STEPS = 32  # of a part


def numbers_of_parts(block: Block, depth: int, blocks: int, target: Target) -> list[int]:
    """In how many parts a sum of `depth` steps may be computed, more than one, where a grid of so many blocks is small.

    There are enough parts for a block on each multiprocessor, or as many as the sum has, up to enough for
    `BLOCKS_WANTED`.
    """
    few = processors_of(target)
    able = [parts for parts in _PARTS if depth // parts >= _LEAST_STEPS and _place(block, parts) is not None]
    useful = [parts for parts in able if parts // 2 * blocks < BLOCKS_WANTED * few]
    return [parts for parts in useful if parts * blocks >= few] or useful[-1:]


def _place(block: Block, parts: int) -> int | None:
    """The outermost iterator of a sum whose extent so many parts divide, by its position; None where there is none."""
    sizes = extents(axis.dom.extent for axis in block.iter_vars)
    for position, (axis, size) in enumerate(zip(block.iter_vars, sizes, strict=True)):
        if axis.kind == REDUCE and size is not None and size % parts == 0:
            return position
    return None


def parted(sch: Schedule, block: Any, parts: int) -> Any:
    """Compute a sum in parts; returns the block of the parts, whose first axis they are. `block` adds them up.

    Raises `Unfit` where no extent of the sum is a multiple of so many.
    """
    place = _place(block_of(sch, block), parts)
    if place is None:
        raise Unfit(f"split sums: wanted an axis of the sum that {parts} parts divide")
    over, _ = sch.split(sch.get_loops(block)[place], [parts, None])
    return sch.rfactor(over, 0)


def added_up(sch: Schedule, block: Any, lanes: int) -> set[str]:
    """Schedule the block that adds up parts, and what follows it; returns the names of the blocks that it scheduled."""
    main = epilogue(sch, block)
    nest = TileNest(sch, block, main)
    extent = constant_extent(sch, nest.grid[-1])
    if len(nest.grid) != len(block_of(sch, block).iter_vars) - 1:
        raise Unfit("split sums: wanted as many axes behind the sum as it has")
    while lanes > 1 and (extent is None or extent % lanes):
        lanes //= 2
    nest.cut(nest.axes[-1], lanes=lanes)
    part, *own = nest.sum_in_tile()
    parts_in_registers(nest, part, own, vectors=lanes > 1)
    over_blocks_and_threads(sch, nest.tiles, THREADS)
    return nest.names()


def parts_in_registers(nest: TileNest, part: Any, own: Sequence[Any], vectors: bool) -> None:
    """Let a thread add up the parts of a sum: `part` is the loop over them, `own` are those over its own results."""
    nest.start(part)
    nest.sch.unroll(part)  # all loads are under way at once
    nest.in_registers(own, vectors)
