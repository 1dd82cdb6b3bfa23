"""Choose how many channels form a block, by the cost of a network's convolutions, copies and memory traffic.

A vector of 16 lanes multiplies as fast as one of 8, so 24 channels are better as two vectors of 16, the second one half
full, than as three of 8. But the padding in the last block takes memory, which matters if there is little arithmetic.
If no vector size divides the channels and changes of layout cost more than wide vectors save, they stay plain.
"""

from __future__ import annotations

from math import ceil, prod

from ....strategy.algorithms import LEAST_BLOCK, ChannelUse, Convolution, whole_block
from ....target import CPU, Target
from .. import tile_intrinsics as tiles
from .algorithms import changes_around, convolution_algorithms, layout_changes, pixels_of, plain_cost
from .tiles import PER_WORD, has_tiles
from .tiling import cpu_of

_ITEM = 4  # bytes of a float32
# A block with empty lanes must save at least this part of the cost, because masks, tails and code are not in the model.
_CLEAR = 0.97


def channel_block(use: ChannelUse, lanes: int, target: Target, accuracy: str = "fast") -> int | None:
    """Return the cheapest block, of at least 4 channels unless there are fewer, or None if the plain layout is cheaper.

    Channels that a vector divides always have a block, unless vectors have fewer lanes than the smallest block.
    """
    whole = whole_block(use.count, lanes)
    if use.count <= LEAST_BLOCK or lanes < LEAST_BLOCK:
        return whole
    tiled = _of_tiles(use, target)
    if tiled:
        return tiled
    blocks = [block for block in (lanes, lanes // 2, lanes // 4) if block >= LEAST_BLOCK]
    costs = {block: _cost(use, block, target, accuracy) for block in blocks}
    best = min(costs, key=lambda block: costs[block])
    stay = _plain_cost(use, lanes, target, accuracy) if whole is None else costs[whole]
    return best if costs[best] <= _CLEAR * stay else whole


def _of_tiles(use: ChannelUse, target: Target) -> int:
    """Return the block that fills the rows of tile registers, if all convolutions of these channels use tiles, else
    0.
    """
    words = {conv.words for conv in (*use.made, *use.read)}
    if len(words) != 1 or "" in words or not use.read or use.depthwise or use.parted:
        return 0
    block = tiles.WORDS * PER_WORD[word := words.pop()]
    return block if use.count % block == 0 and has_tiles(target, word) else 0


def _cost(use: ChannelUse, block: int, target: Target, accuracy: str) -> float:
    """Return the cycles of the network's operators on these channels with this block size."""
    cpu, blocks = cpu_of(target), ceil(use.count / block)
    made = sum(_best(conv, block, target, accuracy) for conv in use.made)
    depthwise = sum(pixels * taps * blocks for pixels, taps in use.depthwise) / cpu.loads * 2
    turned = use.turned + (use.parted if use.count % block else 0)
    vectors = use.passed * blocks / cpu.loads
    count = blocks * block
    return made + depthwise + vectors + _memory(use.passed, count, cpu) + layout_changes(turned, count, cpu)


def _plain_cost(use: ChannelUse, lanes: int, target: Target, accuracy: str) -> float:
    """Return the cycles in the plain layout, minus the cycles that the reading convolutions would take with blocks."""
    cpu, vectors = cpu_of(target), use.count / lanes
    depthwise = sum(pixels * taps * vectors for pixels, taps in use.depthwise) / cpu.loads * 2
    cycles = depthwise + use.passed * vectors / cpu.loads + _memory(use.passed, use.count, cpu)
    for conv in {*use.made, *use.read}:
        times = max(use.made.count(conv), use.read.count(conv))
        cycles += times * plain_cost(conv, target).cycles
        cycles -= use.read.count(conv) * _best(conv, lanes, target, accuracy) * (conv not in use.made)
        for count, scale in ((conv.in_channels, prod(conv.strides)), (conv.out_channels, 1)):
            if count != use.count:  # the other side has blocks
                cycles += times * layout_changes(pixels_of(conv) * scale, count, cpu)
    return cycles


def _best(conv: Convolution, block: int, target: Target, accuracy: str) -> float:
    found = convolution_algorithms(conv, block, target, accuracy)
    if found:
        return found[0].cost.cycles
    return plain_cost(conv, target).cycles + changes_around(conv, cpu_of(target))


def _memory(pixels: int, channels: int, cpu: CPU) -> float:
    return _ITEM * pixels * channels / float(cpu.l3_rate)
