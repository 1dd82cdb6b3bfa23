"""Split long sums of few results: blocks of threads each compute a part of the sum, and a second kernel adds up the
parts.

    parts[s, ..] = sum of A * B over the steps of part s        # `parted`: a contraction with one more axis
    result[..] = epilogue(parts[0, ..] + parts[1, ..] + ..)     # `added_up`: one thread for several neighbours

For a batch of one, the last layers of a network have fewer tiles than a device has multiprocessors, each with a sum of
thousands of steps. (Split-K of cuBLAS and CUTLASS; `rfactor` of Suriana, Adams and Kamil.)
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
    """Return the numbers of parts (2 or more) into which a sum of `depth` steps may be split, for a grid of `blocks`
    blocks.

    The numbers are large enough for a block on each multiprocessor, if the sum has that many parts, and not larger than
    needed for `BLOCKS_WANTED` blocks on each. The list is empty if no number of parts is possible.
    """
    few = processors_of(target)
    able = [parts for parts in _PARTS if depth // parts >= _LEAST_STEPS and _place(block, parts) is not None]
    useful = [parts for parts in able if parts // 2 * blocks < BLOCKS_WANTED * few]
    return [parts for parts in useful if parts * blocks >= few] or useful[-1:]


def _place(block: Block, parts: int) -> int | None:
    """Return the position of the outermost reduction iterator whose extent is divisible by `parts`, or None."""
    sizes = extents(axis.dom.extent for axis in block.iter_vars)
    for position, (axis, size) in enumerate(zip(block.iter_vars, sizes, strict=True)):
        if axis.kind == REDUCE and size is not None and size % parts == 0:
            return position
    return None


def parted(sch: Schedule, block: Any, parts: int) -> Any:
    """Compute a sum in parts. Return the block that computes the parts, which are its first axis; `block` adds them up.

    Raises `Unfit` if no extent of the sum is divisible by `parts`.
    """
    place = _place(block_of(sch, block), parts)
    if place is None:
        raise Unfit(f"split sums: wanted an axis of the sum that {parts} parts divide")
    over, _ = sch.split(sch.get_loops(block)[place], [parts, None])
    return sch.rfactor(over, 0)


def added_up(sch: Schedule, block: Any, lanes: int) -> set[str]:
    """Schedule the block that adds up parts, and the blocks after it. Return the names of the scheduled blocks."""
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
    """Let a thread add up the parts of a sum. `part` is the loop over parts, and `own` are the loops over the thread's
    results.
    """
    nest.start(part)
    nest.sch.unroll(part)  # all loads are under way at once
    nest.in_registers(own, vectors)
