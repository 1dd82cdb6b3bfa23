"""How many channels lie together: what a network's convolutions, copies and passes over memory cost with each block.

A vector of 16 lanes multiplies as fast as one of 8, so 24 channels are better two vectors of 16, the second half full,
than three of 8; what fills the last block takes memory, which matters where little is computed. Channels that no
vector divides may also stay as they are, where changes of layout would cost more than wide vectors save.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from ..algorithms import ChannelUse, Convolution, whole_block
from ..roles import LONG, Product
from .algorithms import convolution_algorithms
from .model import L3_BYTES
from .panels import PanelPlan, contraction_cost
from .tiling import cpu_of, register_tiles

_ITEM = 4  # bytes of a float32
_TURN = 0.25  # cycles an element that is turned around in registers takes, beside its memory
# A block that leaves lanes empty has to save this part of the whole: what is not priced (masks, tails, code) costs.
_CLEAR = 0.97


def channel_block(use: ChannelUse, lanes: int, target: Any, accuracy: str = "fast") -> int | None:
    """The block that costs the least, of at least 4 channels (or all of a few); None where the plain layout does.

    Channels that a vector divides always have a block.
    """
    whole = whole_block(use.count, lanes)
    if use.count <= 4:
        return whole
    costs = {block: _cost(use, block, target, accuracy) for block in (lanes, lanes // 2, lanes // 4) if block >= 4}
    best = min(costs, key=lambda block: costs[block])
    stay = _plain_cost(use, lanes, target, accuracy) if whole is None else costs[whole]
    return best if costs[best] <= _CLEAR * stay else whole


def _cost(use: ChannelUse, block: int, target: Any, accuracy: str) -> float:
    """Cycles of what the network does with these channels in such blocks."""
    cpu, blocks = cpu_of(target), ceil(use.count / block)
    made = sum(_best(conv, block, target, accuracy) for conv in use.made)
    depthwise = sum(pixels * taps * blocks for pixels, taps in use.depthwise) / cpu.loads * 2
    turned = use.turned + (use.parted if use.count % block else 0)
    vectors = use.passed * blocks / cpu.loads
    return made + depthwise + vectors + _memory(use.passed, blocks * block) + _changes(turned, blocks * block)


def _plain_cost(use: ChannelUse, lanes: int, target: Any, accuracy: str) -> float:
    """The same in the plain layout, less what the convolutions that read these channels would cost with blocks."""
    cpu, vectors = cpu_of(target), use.count / lanes
    depthwise = sum(pixels * taps * vectors for pixels, taps in use.depthwise) / cpu.loads * 2
    cycles = depthwise + use.passed * vectors / cpu.loads + _memory(use.passed, use.count)
    for conv in {*use.made, *use.read}:
        times = max(use.made.count(conv), use.read.count(conv))
        cycles += times * _plain(conv, target)
        cycles -= use.read.count(conv) * _best(conv, lanes, target, accuracy) * (conv not in use.made)
        for count, scale in ((conv.in_channels, prod(conv.strides)), (conv.out_channels, 1)):
            if count != use.count:  # the other side has blocks
                cycles += times * _changes(_pixels(conv) * scale, count)
    return cycles


def _best(conv: Convolution, block: int, target: Any, accuracy: str) -> float:
    return convolution_algorithms(conv, block, target, accuracy)[0].cost.cycles


def _plain(conv: Convolution, target: Any) -> float:
    """Cycles of a convolution on plain layouts, by the rule for any sum of products."""
    cpu = cpu_of(target)
    sides = [LONG if side is None else side for side in conv.image]
    joined = prod(conv.kernel) == prod(conv.strides) == 1  # all pixels are one row
    n = prod(sides) if joined else sides[-1]
    product = Product(
        conv.out_channels, n, conv.in_channels * prod(conv.kernel), conv.batch * prod(sides) // max(1, n),
        contiguous=conv.strides[-1] == 1,
    )  # fmt: skip
    tiles = [tile for tile, _ in register_tiles(product.m, n, "float32", target)[:4]]
    return min(
        contraction_cost(product, PanelPlan(tile, product.m), pack, _ITEM, cpu).cycles
        for tile in tiles
        for pack in (False, True)[not product.contiguous :]
    )


def _pixels(conv: Convolution) -> int:
    return conv.batch * prod(LONG if side is None else side for side in conv.image)


def _memory(pixels: int, channels: int) -> float:
    return _ITEM * pixels * channels / L3_BYTES


def _changes(pixels: int, channels: int) -> float:
    """Of changes of layout, which read and write."""
    return pixels * channels * (2 * _ITEM / L3_BYTES + _TURN)
