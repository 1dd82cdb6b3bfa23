"""How a Winograd convolution is blocked: by what a task's transformed input, products and weights need of the caches.

A task takes consecutive tiles of the image, transforms what they read of the input (V), and multiplies it with the
transformed weights (U) of one panel of output channels after the other, so that the products of a panel (M) stay near.
U is read once a task. Where there are many tiles, V and M of a task fit the L2 cache; where there are few, or U is so
large that reading it often costs more, V of the whole image is made first, and panels of output channels are tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from ..candidate import Cost
from .conv2d import conv_tiles
from .model import MEMORY_STALL, NEAR_EFFICIENCY, step_cycles

# Measured on Zen 5; a cycle of one core.
_TRANSFORM = {2: 4.0, 4: 6.0}  # by tile: cycles a vector of channels and place, for either transform
# Rates as MEMORY_STALL is one. V written apart that does not stay in the L2 cache costs most. For the rate of memory,
# which all threads share, and for the room that weights take, weights count a little more than measured.
_WEIGHTS_L2, _WEIGHTS_L3, _INPUT_L3, _WRITTEN_APART = 256.0, 64.0, 64.0, 3.0
_ITEM = 4  # bytes of a float32
_STACK = 800 << 10  # bytes of a thread's stack for V and M
_PANEL = 2  # vectors of output channels that a panel has in most cases
_TEAM = 2  # threads that tasks should be enough for, at least


@dataclass(frozen=True, slots=True)
class WinogradShape:
    """What is known of a Winograd convolution: `image` in tiles (down, across); `out_blocks` vectors of `lanes`."""

    tile: int
    batch: int
    image: tuple[int, int]
    in_channels: int
    out_blocks: int
    lanes: int

    @property
    def places(self) -> int:
        """Products a tile and pair of channels."""
        return (self.tile + 2) ** 2

    @property
    def weights(self) -> int:
        """Bytes of the transformed weights."""
        return _ITEM * self.places * self.in_channels * self.out_blocks * self.lanes


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """`rows` of tiles a task; its register tile is `pixels` tiles by `blocks` vectors of output channels.

    With `apart` the input is transformed before, by a kernel of its own, and each panel of `blocks` is a task.
    """

    rows: int
    pixels: int
    blocks: int
    apart: bool


def winograd_plans(shape: WinogradShape, cpu: Any, blocks: int | None = None) -> list[tuple[WinogradPlan, Cost]]:
    """The ways to block it, the cheapest first; `blocks` where the weights are packed already."""
    plans = [
        WinogradPlan(rows, *_register_tile(rows * shape.image[1], shape.out_blocks, cpu, blocks), apart)
        for rows, apart in _groups(shape, cpu)
    ]
    return sorted(((plan, winograd_cost(shape, plan, cpu)) for plan in plans), key=lambda pair: pair[1].cycles)


def _groups(shape: WinogradShape, cpu: Any) -> Iterator[tuple[int, bool]]:
    """The rows of tiles that a task may take, and whether their transform stands apart."""
    down, across = shape.image
    a_panel = _PANEL * shape.lanes
    room = min(_STACK, cpu.l2.size * 4 // 5) // (_ITEM * shape.places * (shape.in_channels + a_panel))
    products = cpu.l2.size // 2 // (_ITEM * shape.places * a_panel)
    for rows in range(1, down + 1):
        if down % rows:
            continue
        if rows == 1 or rows * across <= room:
            yield rows, False
        if rows == 1 or rows * across <= products:
            yield rows, True


def winograd_cost(shape: WinogradShape, plan: WinogradPlan, cpu: Any) -> Cost:
    """The cost of a plan: products and transforms, and what waits for weights and for the transformed input."""
    down, across = shape.image
    groups = shape.batch * ceil(down / plan.rows)
    panels = ceil(shape.out_blocks / plan.blocks)
    tiles = shape.batch * down * across

    step = step_cycles(plan.pixels, plan.blocks, cpu) / (plan.pixels * plan.blocks) / NEAR_EFFICIENCY
    products = tiles * shape.places * shape.in_channels * shape.out_blocks * step
    vectors = tiles * shape.places * (shape.in_channels / shape.lanes + shape.out_blocks)
    inputs = _ITEM * shape.places * shape.in_channels * plan.rows * across

    # Weights come from memory once: those of the layers before are in the caches.
    near = shape.weights + inputs <= cpu.l2.size
    again = _WEIGHTS_L2 if near else _rate(shape.weights, _WEIGHTS_L3, cpu)
    reads = max(0.0, tiles / plan.pixels - groups)
    held = shape.weights * (1 / MEMORY_STALL + (groups - 1) / again + reads / _WEIGHTS_L2)
    if plan.apart:
        if inputs * groups > cpu.l2.size:
            held += inputs * groups / _WRITTEN_APART
        if inputs > cpu.l2.size // 2:
            held += panels * inputs * groups / _rate(inputs * groups, _INPUT_L3, cpu)
    tasks = groups * (panels if plan.apart else 1)
    team = max(_TEAM, cpu.cores)
    idle = -(-tasks // team) * team / tasks
    return Cost(products + vectors * _TRANSFORM[shape.tile], held) * idle


def _rate(size: int, from_l3: float, cpu: Any) -> float:
    return from_l3 if size <= cpu.l3.size // 2 else MEMORY_STALL


def _register_tile(tiles: int, out_blocks: int, cpu: Any, blocks: int | None) -> tuple[int, int]:
    found = [tile for tile, _ in conv_tiles(tiles, out_blocks, cpu, whole=True)]
    if blocks is None:
        return found[0]
    return next((tile for tile in found if tile[1] == blocks), (1, blocks))
