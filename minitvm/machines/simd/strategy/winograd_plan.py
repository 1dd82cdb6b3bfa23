"""How a Winograd convolution is blocked: by what a task's transformed input, products and weights need of the caches.

A task takes consecutive tiles of the image, transforms what they read of the input (V), and multiplies it with the
transformed weights (U) of one panel of output channels after the other, so that the products of a panel (M) stay near.
U is read once a task. Where there are many tiles, V and M of a task fit the L2 cache; where there are few, or U is so
large that reading it often costs more, V of the whole image is made first, and panels of output channels are tasks.

If the image is open, or dilated, a task takes a rectangle of tiles of constant sides, which may stick out of the image.
V and M then always fit the stack; where a rectangle of one register tile does not, there is no plan.
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
# Of the rates of caches and memory: products are held up, as `stall_rate` has it, by a part of what they read. V
# written apart that does not stay in the L2 cache costs most. For the rate of memory, which all threads share, and for
# the room that weights take, weights count a little more than measured.
_BESIDE, _WRITTEN_APART = 4.0, 0.6
_ITEM = 4  # bytes of a float32
_STACK = 800 << 10  # bytes of a thread's stack for V and M
_PANEL = 2  # vectors of output channels that a panel has in most cases
_TEAM = 2  # threads that tasks should be enough for, at least
# Of an open row what is left has a kernel for each number of tiles: the more there are, the longer a build takes.
_OPEN_PIXELS = 8
_TILE = 0.1  # cycles of a register tile's step for each of its sides: what is not arithmetic, as `tiling` counts it
_RECTANGLES = 4  # for each register tile: how many sizes of the rectangle are weighed


@dataclass(frozen=True, slots=True)
class WinogradShape:
    """What is known of a Winograd convolution: `image` in tiles (down, across); `out_blocks` vectors of `lanes`.

    An open side of the image is None; if the image is dilated, it is one phase.
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
        """Whether the tiles are one list, row after row; they are a grid of rows and columns if not."""
        return self.dilation == (1, 1) and None not in self.image

    @property
    def images(self) -> int:
        """Images without dilation: the phases of the whole batch."""
        return self.batch * self.dilation[0] * self.dilation[1]

    @property
    def places(self) -> int:
        """Products a tile and pair of channels."""
        return (self.tile + 2) ** 2

    @property
    def weights(self) -> int:
        """Bytes of the transformed weights."""
        return _ITEM * self.places * self.in_channels * self.out_blocks * self.lanes

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The images, in tiles, that this one may be."""
        sides = (
            [ceil(side / (self.tile * apart)) if extent is None else extent for side in OPEN_SIDES]
            for extent, apart in zip(self.image, self.dilation, strict=True)
        )
        down, across = sides
        return sorted(set(zip(down, across, strict=True)))


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """`rows` of tiles a task; its register tile is `pixels` tiles by `blocks` vectors of output channels.

    With `apart` the input is transformed before, by a kernel of its own, and each panel of `blocks` is a task. A task
    takes `across` tiles of each row if the tiles are a grid, and whole rows (0) if they are a list.
    """

    rows: int
    pixels: int
    blocks: int
    apart: bool
    across: int = 0


def winograd_plans(shape: WinogradShape, cpu: CPU, blocks: int | None = None) -> list[tuple[WinogradPlan, Cost]]:
    """The ways to block it, the cheapest first; `blocks` where the weights are packed already. There may be none."""
    plans = _of_list(shape, cpu, blocks) if shape.whole else _of_grid(shape, cpu, blocks)
    return sorted(((plan, winograd_cost(shape, plan, cpu)) for plan in plans), key=lambda pair: pair[1].cycles)


def _of_list(shape: WinogradShape, cpu: CPU, blocks: int | None) -> Iterator[WinogradPlan]:
    """Plans for tiles that are one list: a task takes rows that divide the image."""
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
    """Plans for a grid of tiles: a task takes a rectangle that fits the stack, in whole register tiles."""
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
    """Lengths of rectangles in whole register tiles: enough for a row, or a part of it."""
    whole = ceil(longest / pixels)
    return sorted({ceil(whole / parts) * pixels for parts in range(1, _RECTANGLES + 1)})


def _room(shape: WinogradShape, panel: int, cpu: CPU) -> int:
    """How many tiles of a task, transformed, and their products with a panel, fit the stack and the L2 cache."""
    return int(min(_STACK, cpu.l2.size * 4 // 5) // (_ITEM * shape.places * (shape.in_channels + panel * shape.lanes)))


def winograd_cost(shape: WinogradShape, plan: WinogradPlan, cpu: CPU) -> Cost:
    """The cost of a plan: products and transforms, and what waits for weights and for the transformed input.

    For an open image it is the mean of those that it may be.
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
