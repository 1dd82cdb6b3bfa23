"""Which algorithm a convolution gets: what each should cost, in cycles of one core, by a model of the machine.

An algorithm costs what its best schedule costs: `conv2d` prices direct convolution, `winograd_plan` the transforms of
Winograd's algorithm and what its tasks read again. There is no search, and no measurement at build time.
"""

from __future__ import annotations

from math import ceil, prod
from statistics import fmean
from typing import Any

from ...topi.winograd import TILES
from ..algorithms import DIRECT, WINOGRAD, Convolution
from ..candidate import Cost, Option, cheapest_first
from .conv2d import DirectConvolution
from .tiling import OPEN_SIDES, cpu_of
from .winograd_plan import WinogradShape, winograd_plans


def convolution_algorithms(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Option]:
    """The algorithms that fit, the cheapest first; `block` is the number of channels that stand innermost.

    `DIRECT` has no knobs. Those of `WINOGRAD` are `tile`, the outputs that it computes at a time in each direction, and
    `panel`, the blocks of output channels that stand together in its weights. It is for 3x3 and stride 1, with any
    dilation, and left out with `accuracy="strict"`. If a side of the image is open, costs are the mean of `OPEN_SIDES`.
    """
    cpu = cpu_of(target)
    found = [Option(rule=DIRECT, knobs={}, price=lambda: _direct(conv, block, cpu))]
    if (conv.kernel, conv.strides) == ((3, 3), (1, 1)) and accuracy != "strict" and not conv.exact:
        found += filter(None, (_winograd(conv, block, tile, cpu) for tile in TILES))
    return cheapest_first(found)


def _direct(conv: Convolution, block: int, cpu: Any) -> Cost:
    depth = conv.in_channels * prod(conv.kernel)
    blocks = ceil(conv.out_channels / block)
    weights = 4 * depth * conv.out_channels
    images = sorted({tuple(side if n is None else n for n in conv.image) for side in OPEN_SIDES})
    is_open = conv.image[-1] is None
    costs = [
        DirectConvolution(conv.batch * prod(lines), width, blocks, depth, weights, is_open=is_open).cheapest(cpu)
        for *lines, width in images
    ]
    return Cost(fmean(cost.compute for cost in costs), fmean(cost.memory for cost in costs))


def _winograd(conv: Convolution, block: int, tile: int, cpu: Any) -> Option | None:
    """Winograd's algorithm on tiles of a size; None where the image is smaller than a tile, or tiles do not fit."""
    sides = list(zip(conv.image, conv.dilation, strict=True))
    if any(n is not None and n < tile * apart for n, apart in sides):
        return None
    down, across = (None if n is None else ceil(n / (tile * apart)) for n, apart in sides)
    apart, blocks = (conv.dilation[0], conv.dilation[1]), ceil(conv.out_channels / block)
    shape = WinogradShape(tile, conv.batch, (down, across), conv.in_channels, blocks, block, apart)

    def price(tile: int, panel: int) -> Cost:  # noqa: ARG001 (a knob)
        return winograd_plans(shape, cpu, panel)[0][1]

    plans = winograd_plans(shape, cpu)
    if not plans:
        return None
    return Option(rule=WINOGRAD, knobs={"tile": tile, "panel": plans[0][0].blocks}, price=price)
