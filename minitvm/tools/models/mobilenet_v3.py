"""MobileNet v3 (Howard et al. 2019): inverted residuals with squeeze-and-excitation and hard swish."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent, rounded_to_eight

# kernel, expanded channels, channels, squeeze-and-excitation, activation, stride
Row = tuple[int, int, int, bool, str, int]

_ROWS: tuple[Row, ...] = (
    (3, 16, 16, False, "nn.relu", 1),
    (3, 64, 24, False, "nn.relu", 2),
    (3, 72, 24, False, "nn.relu", 1),
    (5, 72, 40, True, "nn.relu", 2),
    (5, 120, 40, True, "nn.relu", 1),
    (5, 120, 40, True, "nn.relu", 1),
    (3, 240, 80, False, "nn.hard_swish", 2),
    (3, 200, 80, False, "nn.hard_swish", 1),
    (3, 184, 80, False, "nn.hard_swish", 1),
    (3, 184, 80, False, "nn.hard_swish", 1),
    (3, 480, 112, True, "nn.hard_swish", 1),
    (3, 672, 112, True, "nn.hard_swish", 1),
    (5, 672, 160, True, "nn.hard_swish", 2),
    (5, 960, 160, True, "nn.hard_swish", 1),
    (5, 960, 160, True, "nn.hard_swish", 1),
)


def mobilenet_v3(seed: int = 0, shape: Sequence[int] = PICTURE, blocks: int = len(_ROWS)) -> Graph:
    """MobileNet v3 large: fifteen inverted residuals; 0.22 GMAC. `blocks` takes only the first of them."""
    net = Layers("mobilenet_v3", seed, shape)
    x = net.op("nn.hard_swish", net.conv_norm(net.input, 16, 3, 2, 1))
    for row in _ROWS[:blocks]:
        x = _inverted_residual(net, x, row)
    x = net.op("nn.hard_swish", net.conv_norm(x, 6 * extent(x.shape[1]), 1))
    x = net.op("nn.hard_swish", net.dense(net.global_avg_pool(x), 1280))
    return net.build(net.dense(x, 1000))


def _inverted_residual(net: Layers, x: Value, row: Row) -> Value:
    kernel, expanded, channels, excited, activation, stride = row
    width = extent(x.shape[1])
    y = x if expanded == width else net.op(activation, net.conv_norm(x, expanded, 1))
    y = net.op(activation, net.conv_norm(y, expanded, kernel, stride, kernel // 2, groups=expanded))
    if excited:
        squeezed = rounded_to_eight(expanded / 4)
        y = net.squeeze_excite(y, squeezed, gate="nn.hard_sigmoid", alpha=1 / 6, beta=0.5)
    residual = stride == 1 and width == channels
    y = net.conv_norm(y, channels, 1, gain=0.5 if residual else 1.0)
    return net.add(y, x) if residual else y
