"""ConvNeXt (Liu et al. 2022): a ResNet in the shape of a transformer, depthwise 7x7 and layer norm over channels."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent


def convnext_tiny(seed: int = 0, shape: Sequence[int] = PICTURE, depths: Sequence[int] = (3, 3, 9, 3)) -> Graph:
    """ConvNeXt tiny: eighteen blocks of a depthwise 7x7 convolution and two dense layers; 4.5 GMAC."""
    net = Layers("convnext_tiny", seed, shape)
    x = _norm(net, net.conv(net.input, 96, 4, 4, bias=True))
    for stage, depth in enumerate(depths):
        if stage:
            x = net.conv(_norm(net, x), 96 << stage, 2, 2, bias=True)
        for _ in range(depth):
            x = _block(net, x)
    return net.build(net.dense(net.layer_norm(net.global_avg_pool(x), 1e-6), 1000))


def _norm(net: Layers, x: Value) -> Value:
    """Layer norm over the channels of each point, NCHW."""
    return net.to_channels_first(net.layer_norm(net.to_channels_last(x), 1e-6))


def _block(net: Layers, x: Value) -> Value:
    width = extent(x.shape[1])
    y = net.conv(x, width, 7, padding=3, groups=width, bias=True)
    y = net.layer_norm(net.to_channels_last(y), 1e-6)
    y = net.dense(net.gelu(net.dense(y, 4 * width)), width)
    y = net.to_channels_first(net.op("multiply", y, net.table((width,), 0.2)))
    return net.add(x, y)
