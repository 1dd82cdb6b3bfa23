"""Which algorithm a convolution gets: what each should cost, in cycles of one core, by a model of the machine.

An algorithm costs what its best schedule costs: `conv2d` prices direct convolution, `winograd_plan` the transforms of
Winograd's algorithm and what its tasks read again. There is no search, and no measurement at build time.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from ...topi.winograd import TILES
from ..algorithms import DIRECT, WINOGRAD, Convolution
from ..candidate import Cost, Option, cheapest_first
from .conv2d import DirectConvolution
from .tiling import cpu_of
from .winograd_plan import WinogradShape, winograd_plans


def convolution_algorithms(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Option]:
    """The algorithms that fit, the cheapest first; `block` is the number of channels that stand innermost.

    `DIRECT` has no knobs. Those of `WINOGRAD` are `tile`, the outputs that it computes at a time in each direction, and
    `panel`, the blocks of output channels that stand together in its weights. It is for 3x3, stride 1, without
    dilation, and left out with `accuracy="strict"`.
    """
    cpu = cpu_of(target)
    found = [Option(rule=DIRECT, knobs={}, price=lambda: _direct(conv, block, cpu))]
    minimal = (conv.kernel, conv.strides, conv.dilation) == ((3, 3), (1, 1), (1, 1))
    if minimal and accuracy != "strict":
        found += [_winograd(conv, block, tile, cpu) for tile in TILES if min(conv.image) >= tile]
    return cheapest_first(found)


def _direct(conv: Convolution, block: int, cpu: Any) -> Cost:
    *lines, width = conv.image
    depth = conv.in_channels * prod(conv.kernel)
    blocks = ceil(conv.out_channels / block)
    weights = 4 * depth * conv.out_channels
    return DirectConvolution(conv.batch * prod(lines), width, blocks, depth, weights).cheapest(cpu)


def _winograd(conv: Convolution, block: int, tile: int, cpu: Any) -> Option:
    def shape(tile: int) -> WinogradShape:
        height, width = conv.image
        image = (ceil(height / tile), ceil(width / tile))
        return WinogradShape(tile, conv.batch, image, conv.in_channels, ceil(conv.out_channels / block), block)

    def price(tile: int, panel: int) -> Cost:
        return winograd_plans(shape(tile), cpu, panel)[0][1]

    plan, _ = winograd_plans(shape(tile), cpu)[0]
    return Option(rule=WINOGRAD, knobs={"tile": tile, "panel": plan.blocks}, price=price)
