"""Schedule sums and extremes over windows within a channel: depthwise convolutions and pools.

    for each tile, on the grid:
        acc[pixels, lanes] = 0
        for the window: acc[p, l] += x[p * stride + tap, l] * w[tap, l]
        out[pixels, lanes] = epilogue(acc)

A thread computes several neighbours along a row; in a blocked layout, for one vector of channels. So one weight serves
all of them. Padding is computed where it is read, so that a single kernel is enough. Memory limits the speed either
way.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ....expr import REDUCE, Var, find, walk
from ....strategy import blocks as strategy_blocks
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.roles import roles
from ....strategy.tile_nest import TileNest
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from .costs import processors_of
from .fallback import THREADS, others_on_the_grid, usual_threads
from .grid import over_blocks_and_threads

DEPTHWISE = (
    *(f"nn.depthwise_conv{rank}d" for rank in (1, 2, 3)),
    "nn.contrib_depthwise_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_rows",
)
POOLS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_WINDOW = 128  # taps, beyond which threads should share them
_PIXELS = 8
# Cycles of a multiprocessor, fitted to depthwise convolutions on an H200.
_LAUNCH = 2600.0
_ADDRESSES, _TAP = 150.0, 9.0  # of a thread, and of a tap
_LINE = 0.9  # of what a pixel costs, one more in the same thread
_WIDE, _SHIFTED = 0.3, 2.0  # as many times, a further lane: of channels; of pixels, whose vectors are not aligned
_APART = 0.25  # as many times, for each pixel that neighbouring threads are apart in memory
_SERIAL = 0.7  # of a thread's work is not hidden by other threads


def has_window(func: PrimFunc) -> bool:
    """Return whether the only reduction of a function is a pool or a depthwise convolution with a small window."""
    block = strategy_blocks.only_reduction(func)
    if block is None:
        return False
    if strategy_blocks.volume(strategy_blocks.reduced(block), _WINDOW + 1) > _WINDOW:
        return False
    op = block.annotations.get("op")
    return op in POOLS or (op in DEPTHWISE and all(way.row is None for way in roles(block)))


@rule("gpu", has_window)
def windows(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a thread for each tile of `pixels` by `lanes` along the last axes."""
    block = strategy_blocks.only_reduction(func)
    assert block is not None
    shape = strategy_blocks.shape_written(block)
    widest = max(1, int(target.vector_lanes("float32")))
    others = usual_threads(func, target)
    along = strategy_blocks.contiguous_along_last(block)
    lanes_of = [n for n in (widest, 1) if n == 1 or (along and shape[-1] is not None and shape[-1] % n == 0)]

    blocked = _ends_in_channels(block)

    def price(pixels: int, lanes: int, threads: int) -> Cost:
        wide = 1.0 + (lanes - 1) * (_WIDE if blocked else _SHIFTED)
        apart = 1.0 if blocked else 1.0 + _APART * (pixels - 1)
        each = (
            _ADDRESSES
            + _TAP
            * strategy_blocks.volume(strategy_blocks.reduced(block))
            * (1.0 + _LINE * (pixels - 1))
            * wide
            * apart
        )
        blocks = ceil(strategy_blocks.volume(shape) / (pixels * lanes * threads))
        beside = blocks * threads / (max(1, target.lanes) * processors_of(target))
        return Cost(_LAUNCH + max(1.0, beside) * each + _SERIAL * each)

    def apply(sch: Schedule, pixels: int, lanes: int, threads: int) -> None:
        used = _schedule(sch, block.name, blocked, pixels, lanes, threads)
        others_on_the_grid(sch, used, others, widest)

    for lanes in lanes_of:
        axis = -2 if blocked else -1
        row = shape[axis] if len(shape) >= -axis else 1
        for pixels in strategy_blocks.divisors(None if row is None else row // (lanes if axis == -1 else 1), _PIXELS):
            yield Candidate(knobs={"pixels": pixels, "lanes": lanes, "threads": THREADS}, price=price, apply=apply)


def _schedule(sch: Schedule, name: str, blocked: bool, pixels: int, lanes: int, threads: int) -> set[str]:
    """Schedule the window and the blocks after it. Return the names of the scheduled blocks.

    Pixels are neighbours along the last axis, or along the axis before it if the last axis is a block of channels
    (`blocked`).
    """
    block = sch.get_block(name)
    kinds = [axis.kind for axis in strategy_blocks.block_of(sch, block).iter_vars]
    if kinds != sorted(kinds, key=lambda kind: kind == REDUCE):
        raise Unfit("windows: wanted the axes of the window behind those of the result")
    for producer in sch.get_producers(block):
        if strategy_blocks.inlinable(sch.func, strategy_blocks.block_of(sch, producer)):
            strategy_blocks.attempt(lambda producer=producer: sch.compute_inline(producer))  # type: ignore[misc]
    main = epilogue(sch, block)
    nest = TileNest(sch, block, main)
    if len(nest.grid) != len(kinds) - kinds.count(REDUCE):
        raise Unfit("windows: wanted as many axes behind the window as it has")
    last = nest.axes[-1]
    if lanes > 1:
        nest.cut(last, lanes=lanes)
    nest.cut(max(0, last - 1) if blocked else last, registers=pixels)
    nest.order()
    own, window = nest.axes_and_steps(nest.sum_in_tile())
    sch.reorder(*window, *own)
    nest.start(window[0])
    nest.in_registers(own, vectors=lanes > 1)
    over_blocks_and_threads(sch, nest.tiles, threads)
    return nest.names()


def _ends_in_channels(block: Block) -> bool:
    """Return whether the last axis of the result is a block of channels, along which the window does not move."""
    assert isinstance(block.body, BufferStore)
    taps = {axis.var for axis in block.iter_vars if axis.kind == REDUCE}
    last = block.body.indices[-1] if block.body.indices else None
    loads = list(find(block.body.value, BufferLoad))
    moved = [index for load in loads for index in load.indices if any(n is last for n in walk(index))]
    return not any(n in taps for index in moved for n in find(index, Var))
