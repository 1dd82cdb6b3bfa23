"""Direct convolution on NCHW[x]c: a register tile of output pixels by channel blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil
from statistics import fmean
from typing import Any

from ....errors import ScheduleError
from ....expr import const, structural_equal
from ....strategy import blocks as strategy_blocks
from ....strategy.candidate import Candidate, Cost
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.roles import Axis, axes_of, operands
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written
from ....tir.annotations import SKIP_ZEROS
from ....tir.nodes import Block, BufferStore, PrimFunc
from .generic import schedule_block
from .model import KERNEL_EFFICIENCY, shared, stall_rate
from .register_tile import PREFETCH_AHEAD, tile_in_registers, tile_reduction
from .tiling import OPEN_SIDES, cpu_of, over_tiles

# A vector of weights streams from the L2 cache: cycles that it costs beside its load. Measured on Zen 5: 7 x 2, 7 x 3
# and 10 x 2 reach 240 GFLOP/s; 4 x 4, with more weights a multiply-add, reaches 210. Measured on Ice Lake, which loads
# less in a cycle: 7 x 2 136 GFLOP/s, 7 x 3 163, 6 x 4 176.
_STREAMED = 1.5
_UNEVEN = 1.1  # for what is left of rows, and of blocks: another micro-kernel
_LONG_ROW = 64
# What is left of a row of symbolic width has a micro-kernel for each number of pixels. So many accumulators of all of
# them together compile in seconds; larger tiles are no faster: 7 x 2 and 10 x 1 beside 10 x 2 and 14 x 1 at widths of
# 13 to 80.
_OPEN_ACCUMULATORS = 60
_SIDES = (16, 8, 4)  # of tiles that are turned around in registers
_TASKS_A_CORE = 8  # enough for an even share
_TURN = 0.25  # cycles an instruction that turns a tile around


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of a dilated kernel along one axis: how far apart they are, and where they meet padding."""

    count: int
    stride: int
    dilation: int
    before: int
    after: int

    def kept(self, extent: int, tile: int) -> float:
        """The part of the products that is left where taps that see only padding for a whole tile are skipped."""
        return _kept(self, extent, tile)


@lru_cache(maxsize=4096)
def _kept(taps: Taps, extent: int, tile: int) -> float:
    image = (extent - 1) * taps.stride + taps.dilation * (taps.count - 1) + 1 - taps.before - taps.after
    some = 0
    for first in range(0, extent, tile):
        size = min(tile, extent - first)
        for tap in range(taps.count):
            low = first * taps.stride + tap * taps.dilation - taps.before
            some += size if low < image and low + (size - 1) * taps.stride >= 0 else 0
    return some / (extent * taps.count)


@dataclass(frozen=True, slots=True)
class DirectConvolution:
    """The extents on which the cost of a direct convolution depends.

    `lines` rows of `width` pixels (all `images` together) of `blocks` vectors of output channels, each of which is a
    sum of `depth` products; `weights` bytes are read. `taps` are those along a line and across lines, where the kernel
    is dilated. Each of several `groups` has so many blocks and reads other pixels: a tile stays within one.
    """

    lines: int
    width: int
    blocks: int
    depth: int
    weights: int
    images: int = 1
    taps: tuple[Taps, Taps] | None = None
    is_open: bool = False
    groups: int = 1

    @staticmethod
    def of(block: Block, axes: Sequence[Axis] = ()) -> DirectConvolution:
        """The convolution of a block. A row of symbolic width `is_open`, other symbolic extents are taken for 1.

        `axes` are those of its result that are joined.
        """
        shape = strategy_blocks.shape_written(block)
        if axes:
            shape = [
                strategy_blocks.volume(shape[p] for p in axis) if len(axis) > 1 else shape[axis[0]] for axis in axes
            ]
        batch, blocks, *image, lanes = shape
        pixels, lines = pixel_axis(shape), line_axis(shape)
        width, height = shape[pixels], 1 if lines is None else shape[lines] or 1
        depth = strategy_blocks.volume(strategy_blocks.reduced(block))
        item = buffers_written(block)[0].dtype.bytes
        weights = item * depth * (blocks or 1) * (lanes or 1)
        images = strategy_blocks.volume([batch, *image[:-2]])
        taps = None if lines is None else _taps(block, pixels - 2, lines - 2)
        is_open, groups = width is None, int(block.annotations.get("groups", 1))
        each = (blocks or 1) // groups
        return DirectConvolution(
            images * height, width or _LONG_ROW, each, depth, weights, images, taps, is_open, groups
        )

    def cost(self, cpu: CPU, pixels: int, blocks: int, lines: int = 1) -> Cost:
        """The cost of a tile of `lines` by `pixels` by `blocks`; half of its loads pass beside the multiply-adds.

        A tile of several lines has whole ones, as if the image were one long row; it makes fewer tasks.
        """
        parts, height = ceil(self.blocks / blocks) * self.groups, self.lines // self.images
        steps = self.lines * self.width * self.depth * self.blocks * self.groups * self._kept(pixels, lines)
        widths = OPEN_SIDES if self.is_open else (self.width if lines == 1 else self.width * height,)
        loads = fmean(weighted_loads(width, lines * pixels, blocks, cpu, self.blocks) for width in widths)
        step = (1 / cpu.fma_ports + loads) / 2
        fewer = shared(parts * self.images * ceil(height / lines), cpu) / shared(parts * self.lines, cpu)
        return Cost(steps * step * fewer / KERNEL_EFFICIENCY, self.weights / stall_rate(cpu))

    def _kept(self, pixels: int, lines: int) -> float:
        """The part of the products that is left where padding is skipped."""
        if self.taps is None:
            return 1.0
        along, across = self.taps
        if self.is_open:
            return sum(along.kept(row, pixels) for row in OPEN_SIDES) / len(OPEN_SIDES)
        return along.kept(self.width, pixels) * across.kept(self.lines // self.images, lines)

    def tiles(self, cpu: CPU) -> list[dict[str, int]]:
        """The tiles that do not spill, of one line or of several whole ones, the cheapest first."""
        fitting = conv_tiles(self.width, self.blocks, cpu, uneven=not self.is_open and self.groups == 1)
        tiles = [{"pixels": pixels, "blocks": blocks} for (pixels, blocks), _ in fitting]
        if self.is_open:
            tiles = [tile for tile in tiles if _accumulators(**tile) <= _OPEN_ACCUMULATORS]
        tiles += [{"pixels": self.width, "blocks": blocks, "lines": lines} for lines, blocks in self._several(cpu)]
        return sorted(tiles, key=lambda tile: self.cost(cpu, **tile).cycles)

    def _several(self, cpu: CPU) -> Iterator[tuple[int, int]]:
        """(lines, blocks) of tiles for narrow images, one line of which does not keep the multiply-add units busy."""
        for blocks in range(1, 9):
            for lines in range(2, min(self.lines // self.images, cpu.vector_registers) + 1):
                if self.blocks % blocks == 0 and registers_of(lines * self.width, blocks) <= cpu.vector_registers:
                    yield lines, blocks

    def cheapest(self, cpu: CPU) -> Cost:
        """The cost of the tile that is taken."""
        return self.cost(cpu, **self.tiles(cpu)[0])


def _accumulators(pixels: int, blocks: int) -> int:
    """Accumulators of a tile, and of the tiles of fewer pixels for what is left of a row."""
    return blocks * pixels * (pixels + 1) // 2


def _taps(block: Block, *axes: int) -> tuple[Taps, Taps] | None:
    """The taps along two spatial axes of a dilated convolution."""
    notes = block.annotations
    if "dilation" not in notes:
        return None
    strides, dilation, padding = (tuple(map(int, notes[name])) for name in ("strides", "dilation", "padding"))
    kernel = strategy_blocks.extents(strategy_blocks.reduced(block))[
        1 : 1 + len(strides)
    ]  # behind the axis of channels, or of their blocks
    before, after = padding[: len(kernel)], padding[len(kernel) :]
    first, second = (Taps(kernel[a] or 1, strides[a], dilation[a], before[a], after[a]) for a in axes)
    return first, second


def pixel_axis(shape: Sequence[int | None]) -> int:
    """The axis of the result along which pixels of a tile lie: rows, or columns of an image that is one pixel wide."""
    rows = len(shape) - 2
    return rows - 1 if shape[rows] == 1 and rows > 2 else rows


def line_axis(shape: Sequence[int | None]) -> int | None:
    """The axis along which lines of pixels lie beside one another; None where the image is one line."""
    last = len(shape) - 2
    return None if last == 2 else 2 * last - 1 - pixel_axis(shape)


def _joined(conv: Block) -> tuple[Axis, ...]:
    """The axes of the result where those of the image are one, as with a kernel of one tap; () where they are not."""
    accesses = operands(conv)
    if accesses is None or not isinstance(conv.body, BufferStore):
        return ()
    axes = axes_of(conv, (conv.body, *accesses))
    return axes if [len(axis) for axis in axes[:2]] == [1, 1] and len(axes) == 4 and len(axes[2]) > 1 else ()


OPS = ("nn.contrib_conv2d_NCHWc", "nn.contrib_conv3d_NCHWc", "qnn.contrib_conv2d_NCHWc")


@rule("cpu", strategy_blocks.computes(*OPS))
def conv2d_nchwc(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """[N, O/y, .., OW, y]: tiles of pixels along a row times a few blocks of output channels, in any rank.

    Where a change of layout follows, it may be made in the cache, of some rows of the image at a time.
    """
    conv, cpu = next(b for b in strategy_blocks.blocks_of(func) if b.annotations.get("op") in OPS), cpu_of(target)
    if (strategy_blocks.shape_written(conv)[-1] or 1) * buffers_written(conv)[0].dtype.bytes > cpu.vector_bytes:
        return  # blocks of several vectors are for tile registers
    last = unblocking(func, conv)
    axes = _joined(conv) if last is None else ()
    shape = DirectConvolution.of(conv, axes)
    on_rows = pixel_axis(strategy_blocks.shape_written(conv)) == len(strategy_blocks.shape_written(conv)) - 2
    turned = _Turned.of(conv, last, cpu) if last is not None and on_rows else None
    for number, tile in enumerate(shape.tiles(cpu)):
        if turned is None:
            apply = partial(_blocked, target, conv.name, "" if last is None else last.name, axes)
            yield Candidate(knobs=tile, price=partial(shape.cost, cpu), apply=apply)
            continue
        rows = [some for some in turned.rows(tile["blocks"]) if some >= tile.get("lines", 1)]
        for some in rows if number == 0 else rows[:1]:
            yield turned.candidate(shape, target, tile, True, some)
        yield turned.candidate(shape, target, tile, False, 1)


def _blocked(
    target: Target,
    name: str,
    before: str,
    axes: Sequence[Axis],
    sch: Schedule,
    pixels: int,
    blocks: int,
    lines: int = 1,
) -> None:
    """Tiles in registers, the epilogue up to the block `before`; the other blocks each by itself.

    `axes` are those of the result that are joined: then tiles are tasks, else lines.
    """
    conv = sch.get_block(name)
    shape = [1] * len(axes) if axes else strategy_blocks.shape_written(strategy_blocks.block_of(sch, conv))
    tile, across = {1: blocks, pixel_axis(shape): pixels}, line_axis(shape)
    if across is not None:
        tile[across] = lines
    tasks = len(shape) - (1 if axes else 2)
    used = tile_in_registers(sch, conv, tile, parallel_axes=tasks, before=before, axes=axes)
    _skip_padding(sch, conv)
    schedule_other_blocks(sch, target, used)


@dataclass(frozen=True, slots=True)
class _Turned:
    """A change of layout behind the convolution: `rows` of `blocks` blocks of the result at a time, in the cache.

    for <blocks>, <rows>:                   # parallel
        <the convolution's tiles>           # blocked, rows x blocks of the result
        for <tile>: turn it around          # out of the cache into the plain result
    """

    conv: str
    block: str
    shape: tuple[int, ...]
    item: int
    cpu: CPU

    @staticmethod
    def of(conv: Block, last: Block, cpu: CPU) -> _Turned | None:
        """None where the image has no tiles that can be turned around in registers, or the result is cut."""
        shape = tuple(extent for extent in strategy_blocks.shape_written(conv) if extent is not None)
        if len(shape) < len(strategy_blocks.shape_written(conv)) or len(shape) < 5:
            return None
        channel_blocks, lanes = shape[1], shape[-1]
        result = buffers_written(last)[0]
        if lanes not in _SIDES or not structural_equal(result.shape[1], const(channel_blocks * lanes)):
            return None
        turned = _Turned(conv.name, last.name, shape, result.dtype.bytes, cpu)
        return turned if turned.rows(1) else None

    def side(self, rows: int) -> int:
        """The side of the tiles of `rows` rows that are turned around, 0 where there are none."""
        *_, width, lanes = self.shape
        return next((s for s in _SIDES if s <= lanes and rows * width % s == 0), 0)

    def tasks(self, blocks: int, rows: int) -> int:
        """How many tasks there are, as far as more of them share the work more evenly."""
        _, channel_blocks, *planes, height, _, _ = self.shape
        return min(
            channel_blocks // blocks * strategy_blocks.volume(planes) * (height // rows), _TASKS_A_CORE * self.cpu.cores
        )

    def rows(self, blocks: int) -> list[int]:
        """How many rows may be turned around at a time: first what gives many tasks, then large tiles."""
        *_, height, width, lanes = self.shape
        fitting = [
            rows
            for rows in reversed(strategy_blocks.divisors(height, height))
            if self.side(rows) and (rows == 1 or rows * blocks * width * lanes * self.item <= self.cpu.l2.size // 8)
        ]
        return sorted(fitting, key=lambda rows: (self.tasks(blocks, rows), self.side(rows), rows), reverse=True)

    def candidate(
        self, shape: DirectConvolution, target: Target, tile: dict[str, int], in_cache: bool, rows: int
    ) -> Candidate:
        """The convolution with that tile, and the result turned around in the cache or after it was written."""

        def price(pixels: int, blocks: int, in_cache: bool, rows: int, lines: int = 1) -> Cost:
            elements = strategy_blocks.volume(self.shape)
            before = shape.cost(self.cpu, pixels, blocks, lines)
            side = self.side(rows if in_cache else self.shape[-3]) or 1
            turn = elements * _TURN * (2 + side.bit_length() - 1) / side
            if not in_cache:
                return before + Cost(turn, 2 * elements * self.item / self.cpu.l3_rate)
            evenest = max(self.tasks(blocks, other) for other in self.rows(blocks) or [rows])
            uneven = shared(self.tasks(blocks, rows), self.cpu) / shared(evenest, self.cpu)
            return (before + Cost(turn)) * uneven

        def apply(sch: Schedule, pixels: int, blocks: int, in_cache: bool, rows: int, lines: int = 1) -> None:
            if not in_cache:
                _blocked(target, self.conv, self.block, (), sch, pixels, blocks, lines)
                return
            if self.shape[-3] % rows or not self.side(rows):
                raise ScheduleError(f"conv2d_nchwc: {rows} rows of the image have no tiles that can be turned around")
            last = len(self.shape) - 2
            used = self.schedule(sch, rows, {1: blocks, last - 1: lines, last: pixels})
            schedule_other_blocks(sch, target, used)

        return Candidate(knobs={**tile, "in_cache": in_cache, "rows": rows}, price=price, apply=apply)

    def schedule(self, sch: Schedule, rows: int, tiles: dict[int, int]) -> set[str]:
        """`rows` of the image at a time; returns the names of the blocks that are scheduled."""
        conv = sch.get_block(self.conv)
        main = epilogue(sch, conv, before=self.block)
        batch, channel, *planes, y, x = sch.get_loops(self.block)
        over, block, lane = sch.split(channel, [None, tiles[1], self.shape[-1]])
        y, row = sch.split(y, [None, rows])
        sch.reorder(batch, over, *planes, y, block, lane, row, x)
        tile, column = sch.split(sch.fuse(row, x), [None, self.side(rows)])
        sch.reorder(block, tile, lane, column)
        sch.unroll(lane)
        sch.vectorize(column)
        task = sch.fuse(batch, over, *planes, y)
        sch.compute_at(main, task, preserve_unit_loops=True)
        nest = tile_reduction(sch, conv, main, sch.get_loops(main)[1:], tiles, PREFETCH_AHEAD)
        _skip_padding(sch, conv)
        sch.parallel(task)
        return {self.block, *nest.names()}


def _skip_padding(sch: Schedule, conv: Any) -> None:
    """Note the loops over taps, where the kernel is so wide that many of them read nothing but padding."""
    block = strategy_blocks.block_of(sch, conv)
    if "dilation" not in block.annotations:
        return
    spatial = len(strategy_blocks.shape_written(block))
    loops = sch.get_loops(conv)[:-spatial]  # around the tile
    for loop in loops[1 - spatial :][1:-1]:  # blocks of channels, taps, channels
        sch.annotate(loop, SKIP_ZEROS, True)


def unblocking(func: PrimFunc, conv: Block) -> Block | None:
    """The change back to the plain layout behind a convolution."""
    names = strategy_blocks.behind(func, conv.name)
    found = (
        b for b in strategy_blocks.blocks_of(func) if b.name in names and b.annotations.get("op") == "layout_transform"
    )
    return next(found, None)


def weighted_loads(width: int, pixels: int, blocks: int, cpu: CPU, channel_blocks: int | None = None) -> float:
    """Loads a multiply-add of whole rows, weighted by what they cost in cycles beside one another.

    A tile of `pixels` by `blocks` needs `pixels + blocks` of them a step; what is left of a row, and of the
    `channel_blocks`, is a smaller tile.
    """
    channel_blocks = channel_blocks or blocks
    cost, edges = over_tiles(
        (width, pixels), (channel_blocks, blocks), lambda some, part: _load_cycles(some, part, cpu)
    )
    # A tile that divides has one micro-kernel to compile, one that does not has two.
    return cost / (width * channel_blocks) * _UNEVEN**edges


def _load_cycles(pixels: int, blocks: int, cpu: CPU) -> float:
    """Cycles of the loads of a step, and again by how much they take longer than its multiply-adds.

    Each vector of weights is loaded, and asked for ahead of time. Too few chains of multiply-adds wait for one another,
    too many results are stored and loaded again.
    """
    held_up = (pixels + 2 * blocks) / cpu.loads - pixels * blocks / cpu.fma_ports
    loads = (pixels + blocks) / cpu.loads + _STREAMED * blocks + max(0.0, held_up)
    spilled = max(0, registers_of(pixels, blocks) - cpu.vector_registers)
    return loads * max(1.0, cpu.chains / (pixels * blocks)) + 2 * spilled


def registers_of(pixels: int, blocks: int) -> int:
    """Vectors that a tile keeps in registers: the sums, and of a step all pixels and one vector of weights."""
    return pixels * blocks + 1 + (pixels if blocks > 1 else 1)


def conv_tile(width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False) -> tuple[int, int]:
    """(pixels, channel blocks) of the tile: the fewest loads a multiply-add among those that do not spill."""
    return conv_tiles(width, channel_blocks, cpu, whole)[0][0]


@lru_cache(maxsize=4096)  # the plans of one Winograd convolution ask for the same tiles many times
def conv_tiles(
    width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False, uneven: bool = False
) -> tuple[tuple[tuple[int, int], float], ...]:
    """The tiles that do not spill, (pixels, channel blocks), each with its weighted loads a multiply-add, best first.

    The blocks divide evenly, unless they may be `uneven`. The pixels need not, unless the tiles have to be `whole`:
    what is left of a row is a smaller tile with a kernel of its own, and counts as that. If the width is symbolic, the
    tile of a long row is used.
    """
    width, channel_blocks = width or _LONG_ROW, channel_blocks or 1
    costs = {
        (pixels, blocks): weighted_loads(width, pixels, blocks, cpu, channel_blocks)
        for blocks in range(1, min(8, channel_blocks) + 1)
        if uneven or channel_blocks % blocks == 0
        for pixels in range(1, min(width, cpu.vector_registers) + 1)
        if not (whole and width % pixels) and registers_of(pixels, blocks) <= cpu.vector_registers
    }
    return tuple(sorted(costs.items(), key=lambda item: (item[1], -item[0][0])))


def schedule_other_blocks(sch: Schedule, target: Target, done: set[str]) -> None:
    """What is not part of the micro-kernel (the padded copy, a change of layout behind it), each block by itself."""
    for name in [b.name for b in strategy_blocks.blocks_of(sch.func)]:
        if name not in done:
            strategy_blocks.attempt(lambda name=name: schedule_block(sch, name, target))  # type: ignore[misc]
