"""Inception v3 (Szegedy et al. 2015), on pictures of 299 x 299, without the auxiliary head that training uses."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import Layers

Size = int | tuple[int, int]


def inception_v3(seed: int = 0, shape: Sequence[int] = (1, 3, 299, 299)) -> Graph:
    """Inception v3: eleven modules of parallel branches; 5.7 GMAC."""
    net = Layers("inception_v3", seed, shape)
    x = _conv(net, net.input, 32, 3, stride=2)
    x = _conv(net, _conv(net, x, 32, 3), 64, 3, padding=1)
    x = net.max_pool(x, 3, 2)
    x = _conv(net, _conv(net, x, 80, 1), 192, 3)
    x = net.max_pool(x, 3, 2)
    for pooled in (32, 64, 64):
        x = _module_a(net, x, pooled)
    x = _reduce_to_17(net, x)
    for width in (128, 160, 160, 192):
        x = _module_b(net, x, width)
    x = _reduce_to_8(net, x)
    for _ in range(2):
        x = _module_c(net, x)
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _conv(net: Layers, x: Value, channels: int, kernel: Size, stride: int = 1, padding: Size = 0) -> Value:
    return net.relu(net.conv_norm(x, channels, kernel, stride, padding))


def _pooled(net: Layers, x: Value, channels: int) -> Value:
    return _conv(net, net.avg_pool(x, 3, 1, 1), channels, 1)


def _module_a(net: Layers, x: Value, pooled: int) -> Value:
    five = _conv(net, _conv(net, x, 48, 1), 64, 5, padding=2)
    three = _conv(net, _conv(net, x, 64, 1), 96, 3, padding=1)
    three = _conv(net, three, 96, 3, padding=1)
    return net.concat([_conv(net, x, 64, 1), five, three, _pooled(net, x, pooled)])


def _reduce_to_17(net: Layers, x: Value) -> Value:
    twice = _conv(net, _conv(net, x, 64, 1), 96, 3, padding=1)
    return net.concat([_conv(net, x, 384, 3, stride=2), _conv(net, twice, 96, 3, stride=2), net.max_pool(x, 3, 2)])


def _module_b(net: Layers, x: Value, width: int) -> Value:
    row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    once = _conv(net, x, width, 1)
    for channels, (kernel, padding) in ((width, row), (192, column)):
        once = _conv(net, once, channels, kernel, padding=padding)
    twice = _conv(net, x, width, 1)
    for channels, (kernel, padding) in ((width, column), (width, row), (width, column), (192, row)):
        twice = _conv(net, twice, channels, kernel, padding=padding)
    return net.concat([_conv(net, x, 192, 1), once, twice, _pooled(net, x, 192)])


def _reduce_to_8(net: Layers, x: Value) -> Value:
    three = _conv(net, _conv(net, x, 192, 1), 320, 3, stride=2)
    seven = _conv(net, _conv(net, x, 192, 1), 192, (1, 7), padding=(0, 3))
    seven = _conv(net, seven, 192, (7, 1), padding=(3, 0))
    return net.concat([three, _conv(net, seven, 192, 3, stride=2), net.max_pool(x, 3, 2)])


def _module_c(net: Layers, x: Value) -> Value:
    once = _conv(net, x, 384, 1)
    twice = _conv(net, _conv(net, x, 448, 1), 384, 3, padding=1)
    split = [
        _conv(net, branch, 384, kernel, padding=padding)
        for branch in (once, twice)
        for kernel, padding in (((1, 3), (0, 1)), ((3, 1), (1, 0)))
    ]
    return net.concat([_conv(net, x, 320, 1), *split, _pooled(net, x, 192)])
