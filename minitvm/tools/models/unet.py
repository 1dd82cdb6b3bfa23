"""U-Net (Ronneberger et al. 2015): down to small pictures and up again, beside what was seen on the way."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import Layers


def unet(seed: int = 0, shape: Sequence[int] = (1, 3, 256, 256), width: int = 32, depth: int = 4) -> Graph:
    """U-Net of 32 to 512 channels with batch norm (Buda et al. 2019): a mask of the picture's size; 13 GMAC."""
    net = Layers("unet", seed, shape)
    x, skipped = net.input, []
    for level in range(depth):
        x = _twice(net, x, width << level)
        skipped.append(x)
        x = net.max_pool(x, 2, 2)
    x = _twice(net, x, width << depth)
    for level in reversed(range(depth)):
        x = net.concat([net.conv_transpose(x, width << level, 2, 2), skipped[level]])
        x = _twice(net, x, width << level)
    return net.build(net.op("sigmoid", net.conv(x, 1, 1, bias=True)))


def _twice(net: Layers, x: Value, channels: int) -> Value:
    for _ in range(2):
        x = net.relu(net.conv_norm(x, channels, 3, padding=1, gain=0.8))
    return x
