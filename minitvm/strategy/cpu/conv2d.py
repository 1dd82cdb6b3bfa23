"""Direct convolution on NCHW[x]c: a register tile of output pixels by channel blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import const, structural_equal
from ...target import CPU
from ...tir import Schedule
from ...tir.nodes import Block
from ..registry import rule
from .blocks import behind, blocks_of, computes
from .generic import attempt, schedule_block
from .register_tile import block_of, epilogue, output_shape, tile_in_registers, tile_reduction
from .tiling import WEIGHED, cpu_of

# What a load costs beside another: a pixel is broadcast from the L1 cache, a vector of weights streams from L2.
# Measured on Zen 5: 7 x 2, 7 x 3 and 10 x 2 reach 240 GFLOP/s; 4 x 4, with more weights a multiply-add, reaches 210.
_PIXEL, _WEIGHTS = 0.5, 2.0
_LONG_ROW = 64
_SIDES = (16, 8, 4)  # of tiles that are turned around in registers
_TASKS_A_CORE = 8  # enough for an even share


@rule("cpu", computes("nn.contrib_conv2d_NCHWc"))
def conv2d_nchwc(sch: Schedule, target: Any) -> list[str]:
    """[N, O/y, OH, OW, y]: tiles of pixels along a row times a few blocks of output channels."""
    conv = sch.get_block("conv2d")
    shape = output_shape(sch, conv)
    tiles = conv_tiles(shape[3], shape[1], cpu_of(target))
    pixels, blocks = tiles[0][0]
    last = _unblocking(sch, conv)
    in_cache = None if last is None else _InCache.of(sch, conv, last, blocks, target)
    if in_cache is not None:
        used = in_cache.schedule(sch, conv, pixels)
    else:
        before = "" if last is None else last.name
        used = tile_in_registers(sch, conv, {1: blocks, 3: pixels}, parallel_axes=3, before=before)
    schedule_other_blocks(sch, target, used)
    return weighed_tiles(tiles)


@dataclass(frozen=True, slots=True)
class _InCache:
    """A change of layout behind the convolution: `rows` of `blocks` blocks of the result at a time, in the cache.

    for <blocks>, <rows>:                   # parallel
        <the convolution's tiles>           # blocked, rows x blocks of the result
        for <tile>: turn it around          # out of the cache into the plain result
    """

    block: str
    blocks: int
    lanes: int
    rows: int
    side: int

    @staticmethod
    def of(sch: Schedule, conv: Any, last: Block, blocks: int, target: Any) -> _InCache | None:
        """None where the image has no tiles that can be turned around in registers, or the result is cut."""
        shape = [extent for extent in output_shape(sch, conv) if extent is not None]
        if len(shape) < 5:
            return None
        _, channel_blocks, height, width, lanes = shape
        result = last.writes[0].buffer
        if lanes not in _SIDES or not structural_equal(result.shape[1], const(channel_blocks * lanes)):
            return None
        cpu, row = cpu_of(target), blocks * width * lanes * result.dtype.bytes
        found = []
        for rows in (d for d in range(1, height + 1) if height % d == 0):
            side = next((s for s in _SIDES if s <= lanes and rows * width % s == 0), 0)
            tasks = channel_blocks // blocks * (height // rows)
            if side and (rows == 1 or rows * row <= cpu.l2.size // 8):
                found.append((min(tasks, _TASKS_A_CORE * cpu.cores), side, rows))
        if not found:
            return None
        _, side, rows = max(found)
        return _InCache(last.name, blocks, lanes, rows, side)

    def schedule(self, sch: Schedule, conv: Any, pixels: int) -> set[str]:
        """Gives the names of the blocks that are scheduled."""
        main = epilogue(sch, conv, before=self.block)
        batch, channel, y, x = sch.get_loops(self.block)
        over, block, lane = sch.split(channel, [None, self.blocks, self.lanes])
        y, row = sch.split(y, [None, self.rows])
        sch.reorder(batch, over, y, block, lane, row, x)
        tile, column = sch.split(sch.fuse(row, x), [None, self.side])
        sch.reorder(block, tile, lane, column)
        sch.unroll(lane)
        sch.vectorize(column)
        task = sch.fuse(batch, over, y)
        sch.compute_at(main, task, preserve_unit_loops=True)
        _, init = tile_reduction(sch, conv, main, sch.get_loops(main)[1:], {1: self.blocks, 3: pixels})
        sch.parallel(task)
        return {self.block, *(block_of(sch, part).name for part in (conv, init, main))}


def _unblocking(sch: Schedule, conv: Any) -> Block | None:
    """The change back to the plain layout behind a convolution."""
    names = behind(sch.func, block_of(sch, conv).name)
    found = (b for b in blocks_of(sch.func) if b.name in names and b.annotations.get("op") == "layout_transform")
    return next(found, None)


def conv_tile(width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False) -> tuple[int, int]:
    """(pixels, channel blocks) of the tile: the fewest loads a multiply-add among those that do not spill."""
    return conv_tiles(width, channel_blocks, cpu, whole)[0][0]


def conv_tiles(
    width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False
) -> list[tuple[tuple[int, int], float]]:
    """The tiles that do not spill, (pixels, channel blocks), each with its weighted loads a multiply-add, best first.

    The blocks divide evenly. The pixels need not, unless the tiles have to be `whole`: what is left of a row is a
    smaller tile with a kernel of its own, and counts as that. Of a symbolic width the tile is that for a long row.
    """
    width, channel_blocks = width or _LONG_ROW, channel_blocks or 1

    def loads(pixels: int, blocks: int) -> float:
        """Weighted loads a pixel and block of a whole row; a tile of `pixels * blocks` needs `pixels + blocks`."""
        full, rest = divmod(width, pixels)
        cost = full * (_PIXEL * pixels + _WEIGHTS * blocks) + (_PIXEL * rest + _WEIGHTS * blocks if rest else 0)
        return cost / (width * blocks) * max(1.0, cpu.chains / (pixels * blocks))

    candidates = [
        (pixels, blocks)
        for blocks in range(1, 9)
        if channel_blocks % blocks == 0
        for pixels in range(1, width + 1)
        if not (whole and width % pixels)
        if pixels * blocks + blocks + (pixels if blocks > 1 else 1) <= cpu.vector_registers
    ]
    # A tile that divides the row has one micro-kernel to compile, one that does not has two.
    costs = {tile: loads(*tile) * (1.0 if width % tile[0] == 0 else 1.1) for tile in candidates}
    return [(tile, costs[tile]) for tile in sorted(candidates, key=lambda tile: (costs[tile], -tile[0]))]


def weighed_tiles(tiles: list[tuple[tuple[int, int], float]]) -> list[str]:
    """The tile taken and the next best, for people."""
    return [
        f"tile of {pixels} pixels x {blocks} channel blocks, {cost:.3g} weighted loads a multiply-add"
        for (pixels, blocks), cost in tiles[:WEIGHED]
    ]


def schedule_other_blocks(sch: Schedule, target: Any, done: set[str]) -> None:
    """What is not part of the micro-kernel (the padded copy, a change of layout behind it), each block by itself."""
    for name in [b.name for b in blocks_of(sch.func)]:
        if name not in done:
            attempt(lambda name=name: schedule_block(sch, name, target))  # type: ignore[misc]
