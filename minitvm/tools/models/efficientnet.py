"""EfficientNet (Tan and Le 2019): inverted residuals with squeeze-and-excitation and SiLU, scaled together."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent

# expansion, kernel, stride of the first, channels, how many
_STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def efficientnet_b0(seed: int = 0, shape: Sequence[int] = PICTURE, stages: int = len(_STAGES)) -> Graph:
    """EfficientNet B0: sixteen inverted residuals; 0.39 GMAC. `stages` takes only the first of seven."""
    net = Layers("efficientnet_b0", seed, shape)
    x = net.op("nn.silu", net.conv_norm(net.input, 32, 3, 2, 1))
    for expansion, kernel, stride, channels, depth in _STAGES[:stages]:
        for index in range(depth):
            x = _inverted_residual(net, x, expansion, kernel, 1 if index else stride, channels)
    x = net.op("nn.silu", net.conv_norm(x, 4 * extent(x.shape[1]), 1))
    return net.build(net.dense(net.global_avg_pool(x), 1000))


def _inverted_residual(net: Layers, x: Value, expansion: int, kernel: int, stride: int, channels: int) -> Value:
    width = extent(x.shape[1])
    wide = expansion * width
    y = x if expansion == 1 else net.op("nn.silu", net.conv_norm(x, wide, 1))
    y = net.op("nn.silu", net.conv_norm(y, wide, kernel, stride, kernel // 2, groups=wide))
    y = net.squeeze_excite(y, max(1, width // 4), activation="nn.silu")
    residual = stride == 1 and width == channels
    y = net.conv_norm(y, channels, 1, gain=0.5 if residual else 1.0)
    return net.add(y, x) if residual else y
