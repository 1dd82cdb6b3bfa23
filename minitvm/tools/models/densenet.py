"""DenseNet (Huang et al. 2016): every layer reads all layers of its block before it."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import PICTURE, Layers, extent

GROWTH = 32


def densenet121(seed: int = 0, shape: Sequence[int] = PICTURE) -> Graph:
    """DenseNet-121: four blocks of 6, 12, 24 and 16 layers; 2.8 GMAC."""
    net = Layers("densenet121", seed, shape)
    x = net.relu(net.conv_norm(net.input, 64, 7, 2, 3))
    x = net.max_pool(x, 3, 2, 1)
    for index, depth in enumerate((6, 12, 24, 16)):
        if index:
            x = net.avg_pool(net.conv(net.relu(net.batch_norm(x)), extent(x.shape[1]) // 2, 1), 2, 2)
        parts = [x]
        for _ in range(depth):
            y = net.conv(net.relu(net.batch_norm(net.concat(parts) if len(parts) > 1 else x)), 4 * GROWTH, 1)
            parts.append(net.conv(net.relu(net.batch_norm(y)), GROWTH, 3, padding=1))
        x = net.concat(parts)
    return net.build(net.dense(net.global_avg_pool(net.relu(net.batch_norm(x))), 1000))
