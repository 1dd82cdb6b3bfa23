"""Schedule direct convolution on NCHW[x]c, with register tiles of output pixels by channel blocks."""

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

# A vector of weights streams from the L2 cache: the cycles that it costs besides its load. Measured on Zen 5: 7 x 2,
# 7 x 3 and 10 x 2 reach 240 GFLOP/s; 4 x 4, with more weights per multiply-add, reaches 210. Measured on Ice Lake,
# which loads less per cycle: 7 x 2 reaches 136 GFLOP/s, 7 x 3 163, 6 x 4 176.
_STREAMED = 1.5
_UNEVEN = 1.1  # for what is left of rows, and of blocks: another micro-kernel
_LONG_ROW = 64
# The rest of a row of symbolic width has a micro-kernel for each number of pixels. With this many accumulators in all
# of them together, compiling takes seconds. Larger tiles are no faster: 10 x 2 and 14 x 1 compared with 7 x 2 and 10 x
# 1, at widths of 13 to 80.
_OPEN_ACCUMULATORS = 60
_SIDES = (16, 8, 4)  # of tiles that are turned around in registers
_TASKS_A_CORE = 8  # enough for an even share
_TURN = 0.25  # cycles an instruction that turns a tile around


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of a dilated kernel along one axis: their number, stride and dilation, and the padding before the
    data.
    """

    count: int
    stride: int
    dilation: int
    before: int
    after: int

    def kept(self, extent: int, tile: int) -> float:
        """Return the share of the products that remains if taps are skipped when they see only padding for a whole
        tile.
        """
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
    """The extents that determine the cost of a direct convolution.

    There are `lines` rows (of all `images` together) of `width` pixels, each with `blocks` vectors of output channels.
    Each vector is a sum of `depth` products, and `weights` bytes of weights are read. If the kernel is dilated, `taps`
    are its taps along a line and across lines. If there are several `groups`, `blocks` counts those of one group; a
    tile stays within a group, because groups read different channels.
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
        """Return the extents of a convolution block. A row of unknown width sets `is_open`; other unknown extents count
        as 1.

        `axes` lists the axes of the result that are joined.
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
        """Return the cost of a tile of `lines` by `pixels` by `blocks`. Half of its loads overlap with multiply-adds.

        A tile of several lines contains whole lines, as if the image were one long row; there are then fewer tasks.
        """
        parts, height = ceil(self.blocks / blocks) * self.groups, self.lines // self.images
        steps = self.lines * self.width * self.depth * self.blocks * self.groups * self._kept(pixels, lines)
        widths = OPEN_SIDES if self.is_open else (self.width if lines == 1 else self.width * height,)
        loads = fmean(weighted_loads(width, lines * pixels, blocks, cpu, self.blocks) for width in widths)
        step = (1 / cpu.fma_ports + loads) / 2
        fewer = shared(parts * self.images * ceil(height / lines), cpu) / shared(parts * self.lines, cpu)
        return Cost(steps * step * fewer / KERNEL_EFFICIENCY, self.weights / stall_rate(cpu))

    def _kept(self, pixels: int, lines: int) -> float:
        """Return the share of the products that remains if products with padding are skipped."""
        if self.taps is None:
            return 1.0
        along, across = self.taps
        if self.is_open:
            return sum(along.kept(row, pixels) for row in OPEN_SIDES) / len(OPEN_SIDES)
        return along.kept(self.width, pixels) * across.kept(self.lines // self.images, lines)

    def tiles(self, cpu: CPU) -> list[dict[str, int]]:
        """Return the tiles that fit in registers, of one line or of several whole lines, cheapest first."""
        fitting = conv_tiles(self.width, self.blocks, cpu, uneven=not self.is_open and self.groups == 1)
        tiles = [{"pixels": pixels, "blocks": blocks} for (pixels, blocks), _ in fitting]
        if self.is_open:
            tiles = [tile for tile in tiles if _accumulators(**tile) <= _OPEN_ACCUMULATORS]
        tiles += [{"pixels": self.width, "blocks": blocks, "lines": lines} for lines, blocks in self._several(cpu)]
        return sorted(tiles, key=lambda tile: self.cost(cpu, **tile).cycles)

    def _several(self, cpu: CPU) -> Iterator[tuple[int, int]]:
        """Yield (lines, blocks) of tiles for narrow images, in which one line does not keep the multiply-add units
        busy.
        """
        for blocks in range(1, 9):
            for lines in range(2, min(self.lines // self.images, cpu.vector_registers) + 1):
                if self.blocks % blocks == 0 and registers_of(lines * self.width, blocks) <= cpu.vector_registers:
                    yield lines, blocks

    def cheapest(self, cpu: CPU) -> Cost:
        """Return the cost of the cheapest tile."""
        return self.cost(cpu, **self.tiles(cpu)[0])


def _accumulators(pixels: int, blocks: int) -> int:
    """Return the number of accumulators of a tile and of all smaller tiles that may finish a row."""
    return blocks * pixels * (pixels + 1) // 2


def _taps(block: Block, *axes: int) -> tuple[Taps, Taps] | None:
    """Return the taps along two spatial axes of a dilated convolution, or None if the convolution is not dilated."""
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
    """Return the axis of the result along which a tile's pixels are adjacent: rows, or columns if the image is one
    pixel wide.
    """
    rows = len(shape) - 2
    return rows - 1 if shape[rows] == 1 and rows > 2 else rows


def line_axis(shape: Sequence[int | None]) -> int | None:
    """Return the axis along which a tile may have several lines of pixels, or None if the image is a single line."""
    last = len(shape) - 2
    return None if last == 2 else 2 * last - 1 - pixel_axis(shape)


def _joined(conv: Block) -> tuple[Axis, ...]:
    """Return the result's axes if the image's axes can be joined into one, as with a 1x1 kernel, or () otherwise."""
    accesses = operands(conv)
    if accesses is None or not isinstance(conv.body, BufferStore):
        return ()
    axes = axes_of(conv, (conv.body, *accesses))
    return axes if [len(axis) for axis in axes[:2]] == [1, 1] and len(axes) == 4 and len(axes[2]) > 1 else ()


OPS = ("nn.contrib_conv2d_NCHWc", "nn.contrib_conv3d_NCHWc", "qnn.contrib_conv2d_NCHWc")


@rule("cpu", strategy_blocks.computes(*OPS))
def conv2d_nchwc(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield tiles of pixels along a row times a few blocks of output channels, for results [N, O/y, .., OW, y] of any
    rank.

    A change of layout that follows may be done in the cache, a few rows of the image at a time.
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
    """Schedule tiles in registers, with the epilogue up to the block `before`. Other blocks are scheduled separately.

    `axes` lists joined axes of the result. If there are any, tiles are tasks; otherwise lines are.
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
    """A change of layout after the convolution, done in the cache for `rows` rows of `blocks` blocks of the result at a
    time.

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
        """Return the change of layout, or None if its tiles do not fit in registers or the result is cut."""
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
        """Return the side of the square tiles that transpose `rows` rows, or 0 if there are none."""
        *_, width, lanes = self.shape
        return next((s for s in _SIDES if s <= lanes and rows * width % s == 0), 0)

    def tasks(self, blocks: int, rows: int) -> int:
        """Return the number of tasks, limited to the number beyond which more tasks do not balance the work better."""
        _, channel_blocks, *planes, height, _, _ = self.shape
        return min(
            channel_blocks // blocks * strategy_blocks.volume(planes) * (height // rows), _TASKS_A_CORE * self.cpu.cores
        )

    def rows(self, blocks: int) -> list[int]:
        """Return how many rows may be transposed at a time, best first: prefer many tasks, then large tiles."""
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
        """Return the convolution with this tile, whose result is transposed in the cache or after it was written to
        memory.
        """

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
        """Schedule `rows` of the image at a time, and return the names of the scheduled blocks."""
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
    """Mark the loops over taps with `skip_zeros` if the kernel is so wide that many taps read only padding."""
    block = strategy_blocks.block_of(sch, conv)
    if "dilation" not in block.annotations:
        return
    spatial = len(strategy_blocks.shape_written(block))
    loops = sch.get_loops(conv)[:-spatial]  # around the tile
    for loop in loops[1 - spatial :][1:-1]:  # blocks of channels, taps, channels
        sch.annotate(loop, SKIP_ZEROS, True)


def unblocking(func: PrimFunc, conv: Block) -> Block | None:
    """Return the block that changes the result of a convolution back to the plain layout, or None."""
    names = strategy_blocks.behind(func, conv.name)
    found = (
        b for b in strategy_blocks.blocks_of(func) if b.name in names and b.annotations.get("op") == "layout_transform"
    )
    return next(found, None)


def weighted_loads(width: int, pixels: int, blocks: int, cpu: CPU, channel_blocks: int | None = None) -> float:
    """Return the loads per multiply-add for whole rows, weighted by the cycles that they cost.

    A tile of `pixels` by `blocks` needs `pixels + blocks` loads per step. The rest of a row, and of the
    `channel_blocks`, is a smaller tile.
    """
    channel_blocks = channel_blocks or blocks
    cost, edges = over_tiles(
        (width, pixels), (channel_blocks, blocks), lambda some, part: _load_cycles(some, part, cpu)
    )
    # A tile that divides the row has one micro-kernel to compile, and any other tile has two.
    return cost / (width * channel_blocks) * _UNEVEN**edges


def _load_cycles(pixels: int, blocks: int, cpu: CPU) -> float:
    """Return the cycles of the loads of a step, plus the time by which they exceed its multiply-adds.

    Each vector of weights is loaded and prefetched. With too few results, multiply-adds wait for each other; with too
    many, results are spilled to memory and loaded again.
    """
    held_up = (pixels + 2 * blocks) / cpu.loads - pixels * blocks / cpu.fma_ports
    loads = (pixels + blocks) / cpu.loads + _STREAMED * blocks + max(0.0, held_up)
    spilled = max(0, registers_of(pixels, blocks) - cpu.vector_registers)
    return loads * max(1.0, cpu.chains / (pixels * blocks)) + 2 * spilled


def registers_of(pixels: int, blocks: int) -> int:
    """Return the number of vector registers of a tile: its sums, one vector of weights, and the pixels of a step."""
    return pixels * blocks + 1 + (pixels if blocks > 1 else 1)


def conv_tile(width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False) -> tuple[int, int]:
    """Return (pixels, channel blocks) of the tile with the fewest loads per multiply-add that fits in registers."""
    return conv_tiles(width, channel_blocks, cpu, whole)[0][0]


@lru_cache(maxsize=4096)  # the plans of one Winograd convolution ask for the same tiles many times
def conv_tiles(
    width: int | None, channel_blocks: int | None, cpu: CPU, whole: bool = False, uneven: bool = False
) -> tuple[tuple[tuple[int, int], float], ...]:
    """Return the tiles (pixels, channel blocks) that fit in registers, each with its weighted loads per multiply-add,
    best first.

    The blocks divide evenly, unless `uneven` is True. The pixels need not divide the row, unless `whole` is True: the
    rest of a row is a smaller tile with a separate micro-kernel, and is priced as such. If the width is symbolic, the
    tile for a long row is used.
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
    """Schedule each block outside the micro-kernel separately, such as the padded copy or a change of layout."""
    for name in [b.name for b in strategy_blocks.blocks_of(sch.func)]:
        if name not in done:
            strategy_blocks.attempt(lambda name=name: schedule_block(sch, name, target))  # type: ignore[misc]
