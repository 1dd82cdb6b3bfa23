"""VGG (Simonyan and Zisserman 2014), without batch norm."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import PICTURE, Layers


def vgg16(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """VGG-16: thirteen 3x3 convolutions and three dense layers; 15.5 GMAC, 138 million weights."""
    return _vgg("vgg16", seed, (2, 2, 3, 3, 3), shape)


def vgg19(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """VGG-19: sixteen 3x3 convolutions and three dense layers; 19.6 GMAC, 144 million weights."""
    return _vgg("vgg19", seed, (2, 2, 4, 4, 4), shape)


def _vgg(name: str, seed: int, depths: tuple[int, ...], shape: Sequence[int]) -> Graph:
    net = Layers(name, seed, shape)
    x = net.input
    for depth, channels in zip(depths, (64, 128, 256, 512, 512), strict=True):
        for _ in range(depth):
            x = net.relu(net.conv(x, channels, 3, padding=1, bias=True))
        x = net.max_pool(x, 2, 2)
    x = net.flatten(x)
    for _ in range(2):
        x = net.relu(net.dense(x, 4096))
    return net.build(net.dense(x, 1000))
