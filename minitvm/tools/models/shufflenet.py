"""ShuffleNet v2 (Ma et al. 2018): half of the channels pass through, then the halves are shuffled."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent


def shufflenet_v2(seed: int = 0, shape: Sequence[int] = PICTURE, depths: Sequence[int] = (4, 8, 4)) -> Graph:
    """ShuffleNet v2, width 1.0: sixteen units of 1x1, depthwise 3x3 and 1x1 convolutions; 0.15 GMAC."""
    net = Layers("shufflenet_v2", seed, shape)
    x = net.relu(net.conv_norm(net.input, 24, 3, 2, 1))
    x = net.max_pool(x, 3, 2, 1)
    for channels, depth in zip((116, 232, 464), depths, strict=True):
        for index in range(depth):
            x = _shuffled(net, _unit(net, x, channels) if index else _first_unit(net, x, channels))
    x = net.relu(net.conv_norm(x, 1024, 1))
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _unit(net: Layers, x: Value, channels: int) -> Value:
    kept, changed = net.split(x, 2, axis=1)
    return net.concat([kept, _branch(net, changed, channels // 2, 1)])


def _first_unit(net: Layers, x: Value, channels: int) -> Value:
    width = extent(x.shape[1])
    short = net.conv_norm(x, width, 3, 2, 1, groups=width)
    short = net.relu(net.conv_norm(short, channels // 2, 1))
    return net.concat([short, _branch(net, x, channels // 2, 2)])


def _branch(net: Layers, x: Value, width: int, stride: int) -> Value:
    y = net.relu(net.conv_norm(x, width, 1))
    y = net.conv_norm(y, width, 3, stride, 1, groups=width)
    return net.relu(net.conv_norm(y, width, 1, gain=0.7))


def _shuffled(net: Layers, x: Value) -> Value:
    """The channels of the two halves by turns."""
    n, channels, height, width = (extent(d) for d in x.shape)
    y = net.op("reshape", x, newshape=(n, 2, channels // 2, height, width))
    y = net.op("transpose", y, axes=(0, 2, 1, 3, 4))
    return net.op("reshape", y, newshape=(n, channels, height, width))
