"""GPT-2 (Radford et al. 2019): a transformer that sees only what comes before."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import Layers
from .transformer import attention, causal_mask, feed_forward

VOCABULARY = 50257


def gpt2(
    seed: int = 0,
    shape: Sequence[int] = (1, 64),
    depth: int = 4,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = VOCABULARY,
) -> Graph:
    """GPT-2 small with four of its twelve layers, on 64 tokens: logits of every next token; 4.3 GMAC.

    `input_ids` is int64 of `shape`, [batch, length]. The table of tokens is also the weight of the last layer.
    """
    net = Layers("gpt2", seed, shape, "input_ids", "int64")
    tokens = net.constant(net.table((vocabulary, width), 0.1))
    x = net.op("take", tokens, net.input, axis=0)
    x = net.add(x, net.table((1, shape[1], width), 0.1))
    mask = causal_mask(shape[1])
    for _ in range(depth):
        x = net.add(x, attention(net, net.layer_norm(x), heads, mask))
        x = net.add(x, feed_forward(net, net.layer_norm(x), 4 * width, "tanh"))
    return net.build(net.op("nn.dense", net.layer_norm(x), tokens))
