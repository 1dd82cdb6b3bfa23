"""MobileNet: depthwise separable convolutions (Howard et al. 2017), inverted residuals (Sandler et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent


def mobilenet(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """MobileNet v1, width 1.0: thirteen pairs of a depthwise 3x3 and a 1x1 convolution; 0.57 GMAC."""
    net = Layers("mobilenet", seed, shape)
    x = net.relu(net.conv_norm(net.input, 32, 3, 2, 1))
    rows = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for channels, stride in rows:
        width = extent(x.shape[1])
        x = net.relu(net.conv_norm(x, width, 3, stride, 1, groups=width))
        x = net.relu(net.conv_norm(x, channels, 1))
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def mobilenet_v2(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """MobileNet v2, width 1.0: seventeen inverted residuals; 0.3 GMAC."""
    net = Layers("mobilenet_v2", seed, shape)
    x = net.relu6(net.conv_norm(net.input, 32, 3, 2, 1))
    # expansion, channels, how many, stride of the first
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, channels, depth, stride in rows:
        for index in range(depth):
            x = _inverted_residual(net, x, expansion, channels, 1 if index else stride)
    x = net.relu6(net.conv_norm(x, 1280, 1))
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _inverted_residual(net: Layers, x: Value, expansion: int, channels: int, stride: int) -> Value:
    width = extent(x.shape[1]) * expansion
    y = x if expansion == 1 else net.relu6(net.conv_norm(x, width, 1))
    y = net.relu6(net.conv_norm(y, width, 3, stride, 1, groups=width))
    residual = stride == 1 and x.shape[1] == channels
    y = net.conv_norm(y, channels, 1, gain=0.5 if residual else 1.0)
    return net.add(y, x) if residual else y
