"""Choose how to block a Winograd convolution, from the cache space for a task's transformed input, products and
weights.

A task transforms the input of consecutive tiles (V), and multiplies it by the transformed weights (U) of one panel of
output channels after the other, so that the products of a panel (M) stay in the cache. Each task reads U once. If there
are many tiles, V and M of a task fit in the L2 cache. If there are few tiles, or U is so large that reading it
repeatedly costs more, V of the whole image is computed first, and panels of output channels are tasks.

If the image has symbolic sides, or is dilated, a task computes a rectangle of tiles with constant sides, which may
extend beyond the image. V and M must fit on the stack; if they do not even for a rectangle of one register tile, there
is no plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from ....strategy.blocks import divisors
from ....strategy.candidate import Cost
from ....target import CPU
from .conv2d import conv_tiles
from .model import NEAR_EFFICIENCY, stall_rate, step_cycles
from .tiling import OPEN_SIDES

# Measured on Zen 5; a cycle of one core.
_TRANSFORM = {2: 4.0, 4: 6.0}  # by tile: cycles a vector of channels and place, for either transform
# Factors for the rates of caches and memory: products wait for a part of the data that they read, as in `stall_rate`. A
# separately written V that does not stay in the L2 cache costs most. Weights count a little more than measured, because
# all threads share the memory, and because weights take up cache space.
_BESIDE, _WRITTEN_APART = 4.0, 0.6
_ITEM = 4  # bytes of a float32
_STACK = 800 << 10  # bytes of a thread's stack for V and M
_PANEL = 2  # vectors of output channels that a panel has in most cases
_TEAM = 2  # threads that tasks should be enough for, at least
# The rest of a row of unknown length has a kernel for each number of tiles: the more there are, the longer a build
# takes.
_OPEN_PIXELS = 8
_TILE = 0.1  # cycles of a register tile's step for each of its sides: what is not arithmetic, as `tiling` counts it
_RECTANGLES = 4  # for each register tile: how many sizes of the rectangle are weighed


@dataclass(frozen=True, slots=True)
class WinogradShape:
    """The extents of a Winograd convolution: `image` in tiles (down, across), and `out_blocks` vectors of `lanes`
    channels.

    A symbolic side of the image is None. If the convolution is dilated, `image` is one phase.
    """

    tile: int
    batch: int
    image: tuple[int | None, int | None]
    in_channels: int
    out_blocks: int
    lanes: int
    dilation: tuple[int, int] = (1, 1)

    @property
    def whole(self) -> bool:
        """Return whether the tiles are one list, row after row. Otherwise they are a grid of rows and columns."""
        return self.dilation == (1, 1) and None not in self.image

    @property
    def images(self) -> int:
        """The number of images without dilation: all phases of the whole batch."""
        return self.batch * self.dilation[0] * self.dilation[1]

    @property
    def places(self) -> int:
        """The number of products per tile and pair of channels."""
        return (self.tile + 2) ** 2

    @property
    def weights(self) -> int:
        """The number of bytes of the transformed weights."""
        return _ITEM * self.places * self.in_channels * self.out_blocks * self.lanes

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The sizes, in tiles, that the image is assumed to have. There are several if a side is symbolic."""
        sides = (
            [ceil(side / (self.tile * apart)) if extent is None else extent for side in OPEN_SIDES]
            for extent, apart in zip(self.image, self.dilation, strict=True)
        )
        down, across = sides
        return sorted(set(zip(down, across, strict=True)))


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """A task computes `rows` rows of tiles, with register tiles of `pixels` tiles by `blocks` vectors of output
    channels.

    With `apart`, a separate kernel transforms the input first, and each panel of `blocks` is a task. If the tiles are a
    grid, a task computes `across` tiles of each row; if they are a list, it computes whole rows (0).
    """

    rows: int
    pixels: int
    blocks: int
    apart: bool
    across: int = 0


def winograd_plans(shape: WinogradShape, cpu: CPU, blocks: int | None = None) -> list[tuple[WinogradPlan, Cost]]:
    """Return the plans with their costs, cheapest first. `blocks` is given if the weights are packed already. There may
    be no plan.
    """
    plans = _of_list(shape, cpu, blocks) if shape.whole else _of_grid(shape, cpu, blocks)
    return sorted(((plan, winograd_cost(shape, plan, cpu)) for plan in plans), key=lambda pair: pair[1].cycles)


def _of_list(shape: WinogradShape, cpu: CPU, blocks: int | None) -> Iterator[WinogradPlan]:
    """Yield plans for tiles that are one list: a task computes a number of rows that divides the image."""
    ((down, across),) = shape.sizes
    room = _room(shape, _PANEL, cpu)
    products = cpu.l2.size // 2 // (_ITEM * shape.places * _PANEL * shape.lanes)
    for rows in reversed(divisors(down, down)):
        tile = _register_tile(rows * across, shape.out_blocks, cpu, blocks)
        if rows == 1 or rows * across <= room:
            yield WinogradPlan(rows, *tile, False)
        if rows == 1 or rows * across <= products:
            yield WinogradPlan(rows, *tile, True)


def _of_grid(shape: WinogradShape, cpu: CPU, blocks: int | None) -> Iterator[WinogradPlan]:
    """Yield plans for a grid of tiles: a task computes a rectangle of whole register tiles that fits on the stack."""
    tallest, longest = (max(sides) for sides in zip(*shape.sizes, strict=True))
    most = _OPEN_PIXELS if None in shape.image else longest
    for (pixels, panel), _ in conv_tiles(longest, shape.out_blocks, cpu):
        if pixels > most or blocks not in (None, panel):
            continue
        room = _room(shape, panel, cpu)
        for across in _sides(longest, pixels):
            rows = min(room // across, tallest)
            if rows:
                # As few rows as make no more tasks of the tallest image.
                yield WinogradPlan(ceil(tallest / ceil(tallest / rows)), pixels, panel, False, across)


def _sides(longest: int, pixels: int) -> list[int]:
    """Return lengths of rectangles in whole register tiles: enough for a row, or for a part of it."""
    whole = ceil(longest / pixels)
    return sorted({ceil(whole / parts) * pixels for parts in range(1, _RECTANGLES + 1)})


def _room(shape: WinogradShape, panel: int, cpu: CPU) -> int:
    """Return how many transformed tiles, and their products with a panel, fit on the stack and in the L2 cache."""
    return int(min(_STACK, cpu.l2.size * 4 // 5) // (_ITEM * shape.places * (shape.in_channels + panel * shape.lanes)))


def winograd_cost(shape: WinogradShape, plan: WinogradPlan, cpu: CPU) -> Cost:
    """Return the cost of a plan: products and transforms, and the time spent waiting for weights and transformed input.

    For an image with symbolic sides, it is the mean over the assumed sizes.
    """
    costs = [_cost(shape, size, plan, cpu) for size in shape.sizes]
    return Cost(fmean(cost.compute for cost in costs), fmean(cost.memory for cost in costs))


def _cost(shape: WinogradShape, image: tuple[int, int], plan: WinogradPlan, cpu: CPU) -> Cost:
    down, across = image
    lines = [min(plan.across, across - first) for first in range(0, across, plan.across)] if plan.across else [across]
    groups = shape.images * ceil(down / plan.rows) * len(lines)
    panels = ceil(shape.out_blocks / plan.blocks)
    tiles = shape.images * down * across

    step = step_cycles(plan.pixels, plan.blocks, cpu) / (plan.pixels * plan.blocks) / NEAR_EFFICIENCY
    if plan.across:  # what is left of a row is a smaller register tile
        rest = [count % plan.pixels for count in lines if count % plan.pixels]
        whole = (across - sum(rest)) * step * plan.blocks
        row = whole + sum(step_cycles(count, plan.blocks, cpu) / NEAR_EFFICIENCY for count in rest)
        row += _TILE * (across / plan.pixels * (plan.pixels + plan.blocks))
        step = row / (across * plan.blocks)
    products = tiles * shape.places * shape.in_channels * shape.out_blocks * step
    vectors = tiles * shape.places * (shape.in_channels / shape.lanes + shape.out_blocks)
    inputs = _ITEM * shape.places * shape.in_channels * plan.rows * (plan.across or across)

    # Weights come from memory once: those of the layers before are in the caches.
    near = shape.weights + inputs <= cpu.l2.size
    again = _BESIDE * cpu.l2_rate if near and not plan.across else _rate(shape.weights, cpu)
    reads = max(0.0, tiles / plan.pixels - groups)
    held = shape.weights * (1 / stall_rate(cpu) + (groups - 1) / again + reads / (_BESIDE * cpu.l2_rate))
    if plan.apart:
        if inputs * groups > cpu.l2.size:
            held += inputs * groups / (_WRITTEN_APART * cpu.memory_rate)
        if inputs > cpu.l2.size // 2:
            held += panels * inputs * groups / _rate(inputs * groups, cpu)
    if plan.across:  # the image with its padding is a copy
        held += 2 * _ITEM * shape.in_channels * tiles * shape.tile**2 / cpu.l3_rate
    tasks = groups * (panels if plan.apart else 1)
    team = max(_TEAM, cpu.cores)
    idle = -(-tasks // team) * team / tasks
    return Cost(products + vectors * _TRANSFORM[shape.tile], held) * idle


def _rate(size: int, cpu: CPU) -> float:
    return _BESIDE * float(cpu.l3_rate) if size <= cpu.l3.size // 2 else stall_rate(cpu)


def _register_tile(tiles: int, out_blocks: int, cpu: CPU, blocks: int | None) -> tuple[int, int]:
    found = [tile for tile, _ in conv_tiles(tiles, out_blocks, cpu, whole=True)]
    if blocks is None:
        return found[0]
    return next((tile for tile in found if tile[1] == blocks), (1, blocks))
