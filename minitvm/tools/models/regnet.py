"""RegNet (Radosavovic et al. 2020): bottlenecks with grouped convolutions, whose widths follow a line."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent

GROUP_WIDTH = 8  # channels in a group


def regnet_y_400mf(seed: int = 0, shape: Sequence[int] = PICTURE, depths: Sequence[int] = (1, 3, 6, 6)) -> Graph:
    """RegNet Y of 0.4 GMAC: sixteen bottlenecks of 1x1, grouped 3x3 and 1x1 convolutions, each with an excitation."""
    net = Layers("regnet_y_400mf", seed, shape)
    x = net.relu(net.conv_norm(net.input, 32, 3, 2, 1))
    for width, depth in zip((48, 104, 208, 440), depths, strict=True):
        for index in range(depth):
            x = _block(net, x, width, 1 if index else 2)
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _block(net: Layers, x: Value, width: int, stride: int) -> Value:
    before = extent(x.shape[1])
    y = net.relu(net.conv_norm(x, width, 1))
    y = net.relu(net.conv_norm(y, width, 3, stride, 1, groups=width // GROUP_WIDTH))
    y = net.squeeze_excite(y, round(before / 4))
    y = net.conv_norm(y, width, 1, gain=0.5)
    shortcut = x if before == width and stride == 1 else net.conv_norm(x, width, 1, stride)
    return net.relu(net.add(y, shortcut))
