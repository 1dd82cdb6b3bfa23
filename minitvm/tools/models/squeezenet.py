"""SqueezeNet (Iandola et al. 2016): fire modules, which squeeze the channels and then expand them two ways."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers


def squeezenet1_0(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """SqueezeNet 1.0; 0.82 GMAC, 1.2 million weights."""
    net = Layers("squeezenet1_0", seed, shape)
    x = net.max_pool(net.relu(net.conv(net.input, 96, 7, 2, bias=True)), 3, 2, ceil_mode=True)
    for squeeze in (16, 16, 32):
        x = _fire(net, x, squeeze)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    for squeeze in (32, 48, 48, 64):
        x = _fire(net, x, squeeze)
    x = _fire(net, net.max_pool(x, 3, 2, ceil_mode=True), 64)
    return _classified(net, x)


def squeezenet1_1(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """SqueezeNet 1.1: as good as 1.0 with less than half the work; 0.35 GMAC."""
    net = Layers("squeezenet1_1", seed, shape)
    x = net.relu(net.conv(net.input, 64, 3, 2, bias=True))
    for squeezes in ((16, 16), (32, 32), (48, 48, 64, 64)):
        x = net.max_pool(x, 3, 2, ceil_mode=True)
        for squeeze in squeezes:
            x = _fire(net, x, squeeze)
    return _classified(net, x)


def _fire(net: Layers, x: Value, squeeze: int) -> Value:
    s = net.relu(net.conv(x, squeeze, 1, bias=True))
    left = net.relu(net.conv(s, 4 * squeeze, 1, bias=True))
    return net.concat([left, net.relu(net.conv(s, 4 * squeeze, 3, padding=1, bias=True))])


def _classified(net: Layers, x: Value) -> Graph:
    return net.build(net.global_avg_pool(net.relu(net.conv(x, 1000, 1, bias=True))))
