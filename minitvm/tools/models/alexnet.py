"""AlexNet (Krizhevsky 2014, the one-column version), on pictures of 227 x 227."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import Layers


def alexnet(seed: int = 0, shape: Sequence[int] = (1, 3, 227, 227)) -> Graph:
    """AlexNet: five convolutions and three dense layers; 0.7 GMAC, 61 million weights."""
    net = Layers("alexnet", seed, shape)
    x = net.relu(net.conv(net.input, 64, 11, 4, 2, bias=True))
    x = net.max_pool(x, 3, 2)
    x = net.relu(net.conv(x, 192, 5, padding=2, bias=True))
    x = net.max_pool(x, 3, 2)
    for channels in (384, 256, 256):
        x = net.relu(net.conv(x, channels, 3, padding=1, bias=True))
    x = net.flatten(net.max_pool(x, 3, 2))
    for _ in range(2):
        x = net.relu(net.dense(x, 4096))
    return net.build(net.dense(x, 1000))
