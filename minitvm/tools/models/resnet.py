"""ResNet (He et al. 2015); the 3x3 convolution of a bottleneck has the stride, as in torchvision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers

Block = Callable[[Layers, Value, int, int], Value]


def resnet18(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """ResNet-18: eight blocks of two 3x3 convolutions; 1.8 GMAC. `shape` is that of the input, NCHW."""
    return _resnet("resnet18", seed, _basic, (2, 2, 2, 2), shape)


def resnet50(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """ResNet-50: sixteen bottlenecks of 1x1, 3x3 and 1x1 convolutions; 4.1 GMAC."""
    return _resnet("resnet50", seed, _bottleneck, (3, 4, 6, 3), shape)


def _resnet(name: str, seed: int, block: Block, depths: tuple[int, ...], shape: Sequence[int]) -> Graph:
    net = Layers(name, seed, shape)
    x = net.relu(net.conv_norm(net.input, 64, 7, 2, 3))
    x = net.max_pool(x, 3, 2, 1)
    for stage, depth in enumerate(depths):
        for index in range(depth):
            x = block(net, x, 64 << stage, 2 if stage and not index else 1)
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _basic(net: Layers, x: Value, width: int, stride: int) -> Value:
    y = net.relu(net.conv_norm(x, width, 3, stride, 1))
    y = net.conv_norm(y, width, 3, 1, 1, gain=0.5)
    return net.relu(net.add(y, _shortcut(net, x, width, stride)))


def _bottleneck(net: Layers, x: Value, width: int, stride: int) -> Value:
    y = net.relu(net.conv_norm(x, width, 1))
    y = net.relu(net.conv_norm(y, width, 3, stride, 1))
    y = net.conv_norm(y, 4 * width, 1, gain=0.5)
    return net.relu(net.add(y, _shortcut(net, x, 4 * width, stride)))


def _shortcut(net: Layers, x: Value, channels: int, stride: int) -> Value:
    return x if x.shape[1] == channels and stride == 1 else net.conv_norm(x, channels, 1, stride)
