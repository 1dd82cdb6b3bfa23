"""The vision transformer (Dosovitskiy et al. 2020): a picture is a sequence of patches."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import PICTURE, Layers, extent
from .transformer import attention, feed_forward


def vit_small(seed: int = 0, shape: Sequence[int] = PICTURE, depth: int = 12, width: int = 384) -> Graph:
    """ViT small with patches of 16 x 16: twelve blocks of six heads, 197 tokens; 4.6 GMAC."""
    net = Layers("vit_small", seed, shape)
    x = net.conv(net.input, width, 16, 16, bias=True)
    batch, _, rows, columns = (extent(d) for d in x.shape)
    x = net.op("transpose", net.op("reshape", x, newshape=(batch, width, rows * columns)), axes=(0, 2, 1))
    x = net.op("concatenate", net.table((1, 1, width)).repeat(batch, 0), x, axis=1)
    x = net.add(x, net.table((1, rows * columns + 1, width)))
    for _ in range(depth):
        x = net.add(x, attention(net, net.layer_norm(x, 1e-6), width // 64))
        x = net.add(x, feed_forward(net, net.layer_norm(x, 1e-6), 4 * width))
    x = net.op("strided_slice", net.layer_norm(x, 1e-6), begin=(0,), end=(1,), axes=(1,))
    return net.build(net.dense(net.op("reshape", x, newshape=(batch, width)), 1000))
