"""Choose the algorithm of a convolution by its predicted cost, in cycles of one core.

The cost of an algorithm is the cost of its best schedule: `conv2d` predicts direct convolution, and `winograd_plan`
predicts the transforms of Winograd's algorithm and the data that its tasks read repeatedly. Nothing is searched or
measured at build time.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from statistics import fmean

from ....strategy.algorithms import DIRECT, WINOGRAD, Convolution, algorithm_name, groups_together
from ....strategy.candidate import Cost, Option, Weighed, cheapest_first
from ....strategy.roles import LONG, Product
from ....target import CPU, Target
from ..topi.winograd import TILES, winograd_error_growth
from .conv2d import DirectConvolution
from .panels import PanelPlan, contraction_cost
from .phases import PHASED
from .tiling import OPEN_SIDES, cpu_of, register_tiles
from .winograd_plan import WinogradShape, winograd_plans

_ITEM = 4  # bytes of a float32
_TURN = 0.25  # cycles an element that is turned around in registers takes, beside its memory


def convolution_algorithms(conv: Convolution, block: int, target: Target, accuracy: str = "fast") -> list[Option]:
    """Return the algorithms that fit, cheapest first. `block` is the number of channels in the innermost axis.

    `DIRECT` has no knobs. `WINOGRAD` has the knobs `tile`, the outputs per tile in each direction, and `panel`, the
    number of blocks of output channels that are adjacent in its weights. It requires a 3x3 kernel and stride 1, allows
    any dilation, and is left out with `accuracy="strict"`. If the size of the image is unknown, the cost is the mean
    over `OPEN_SIDES`. Groups are computed on blocks if that costs less than the plain layout, including the changes of
    layout that each needs. Several groups in one block are merged, with zeros between their weights; this spreads NaN
    and infinity, so it is left out with "strict".
    """
    cpu = cpu_of(target)
    if conv.groups > 1:
        return _grouped(conv, block, target, accuracy)
    found = [Option(rule=DIRECT, knobs={}, price=lambda: _direct(conv, block, cpu))]
    if (conv.kernel, conv.strides) == ((3, 3), (1, 1)) and accuracy != "strict" and not conv.exact:
        found += filter(None, (_winograd(conv, block, tile, cpu) for tile in TILES))
    return cheapest_first(found)


def _grouped(conv: Convolution, block: int, target: Target, accuracy: str) -> list[Option]:
    together = groups_together(conv.groups, (conv.in_channels, conv.out_channels), (block, block))
    if together is None or (together > 1 and accuracy == "strict"):
        return []
    joined, cpu = replace(conv, groups=conv.groups // together), cpu_of(target)
    cost, changes = _direct(joined, block, cpu), changes_around(conv, cpu)
    if cost.cycles + conv.alone * changes > _plain_groups(conv, target) + (not conv.alone) * changes:
        return []
    return [Option(rule=DIRECT, knobs={}, price=lambda: cost)]


def _plain_groups(conv: Convolution, target: Target) -> float:
    """Return the cycles of a grouped convolution on plain layouts. A group has few channels, so shared cache lines stay
    cached.

    An image is read once, padded, and read again. With steps between pixels it is stored phase by phase.
    """
    cost, cpu = plain_cost(conv, target), cpu_of(target)
    elements = pixels_of(conv) * prod(conv.strides) * conv.in_channels
    image = 3 * _ITEM * elements / cpu.l3_rate + (PHASED * elements if conv.strides[-1] > 1 else 0.0)
    return cost.compute + min(cost.memory, image)


def plain_cost(conv: Convolution, target: Target) -> Cost:
    """Return the cost of a convolution on plain layouts, by the rule for any sum of products."""
    cpu = cpu_of(target)
    sides = [LONG if side is None else side for side in conv.image]
    joined = prod(conv.kernel) == prod(conv.strides) == 1  # all pixels are one row
    n = prod(sides) if joined else sides[-1]
    m, depth = conv.out_channels // conv.groups, conv.in_channels // conv.groups * prod(conv.kernel)
    outside = conv.groups * conv.batch * prod(sides) // max(1, n)
    product = Product(m, n, depth, outside, contiguous=conv.strides[-1] == 1)
    tiles = [tile for tile, _ in register_tiles(product.m, n, "float32", target)[:4]]
    costs = (
        contraction_cost(product, PanelPlan(tile, product.m), pack, _ITEM, cpu)
        for tile in tiles
        for pack in (False, True)[not product.contiguous :]
    )
    return min(costs, key=lambda cost: cost.cycles)


def pixels_of(conv: Convolution) -> int:
    """Return the number of pixels of the result. An unknown side counts as `roles.LONG`."""
    return conv.batch * prod(LONG if side is None else side for side in conv.image)


def changes_around(conv: Convolution, cpu: CPU) -> float:
    """Return the cycles for the changes of layout around a plain convolution whose neighbours are blocked."""
    pixels = pixels_of(conv)
    before, behind = (pixels * prod(conv.strides), conv.in_channels), (pixels, conv.out_channels)
    return layout_changes(*before, cpu) + layout_changes(*behind, cpu)


def layout_changes(pixels: int, channels: int, cpu: CPU) -> float:
    """Return the cycles of a change between the blocked and the plain layout, which reads and writes each element."""
    return float(pixels * channels * (2 * _ITEM / cpu.l3_rate + _TURN))


def _direct(conv: Convolution, block: int, cpu: CPU) -> Cost:
    depth = conv.in_channels // conv.groups * prod(conv.kernel)
    blocks = ceil(conv.out_channels // conv.groups / block)
    weights = 4 * depth * conv.out_channels
    images = sorted({tuple(side if n is None else n for n in conv.image) for side in OPEN_SIDES})
    is_open = conv.image[-1] is None
    costs = [
        DirectConvolution(
            conv.batch * prod(lines), width, blocks, depth, weights, is_open=is_open, groups=conv.groups
        ).cheapest(cpu)
        for *lines, width in images
    ]
    return Cost(fmean(cost.compute for cost in costs), fmean(cost.memory for cost in costs))


def _winograd(conv: Convolution, block: int, tile: int, cpu: CPU) -> Option | None:
    """Return Winograd's algorithm with tiles of this size, or None if the image is smaller than a tile or tiles do not
    fit.
    """
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


def algorithm_text(option: Option | Weighed) -> str:
    """Return the name of an algorithm, and for Winograd the worst-case growth of rounding errors over direct
    convolution.
    """
    if option.rule != WINOGRAD:
        return algorithm_name(option)
    return f"{algorithm_name(option)}, error at most {winograd_error_growth(int(option.knobs['tile'])):.0f}x"
