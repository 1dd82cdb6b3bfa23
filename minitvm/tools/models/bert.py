"""BERT (Devlin et al. 2018): a transformer that sees its text from both sides."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph, Value
from .layers import Layers
from .transformer import MASKED, attention, feed_forward

VOCABULARY = 30522


def bert(
    seed: int = 0,
    shape: Sequence[int] = (1, 128),
    depth: int = 4,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = VOCABULARY,
) -> Graph:
    """BERT of base width with four of its twelve layers, on 128 tokens: the last hidden states; 3.7 GMAC.

    `input_ids` and `attention_mask` are int64 of `shape`, [batch, length]; the mask is 1 for
    tokens and 0 for what is behind the text.
    """
    net = Layers("bert", seed, shape, "input_ids", "int64")
    mask = _scores_of_mask(net, net.another_input("attention_mask", shape, "int64"))
    x = net.op("take", net.table((vocabulary, width)), net.input, axis=0)
    x = net.layer_norm(net.add(x, net.table((1, shape[1], width))), 1e-12)
    for _ in range(depth):
        x = net.layer_norm(net.add(x, attention(net, x, heads, mask)), 1e-12)
        x = net.layer_norm(net.add(x, feed_forward(net, x, 4 * width)), 1e-12)
    return net.build(x)


def _scores_of_mask(net: Layers, mask: Value) -> Value:
    """What is added to the scores of each key: 0, or so little that it is not seen."""
    hidden = net.op("subtract", 1.0, net.op("cast", mask, dtype="float32"))
    scores = net.op("multiply", hidden, MASKED)
    return net.op("expand_dims", scores, axis=1, num_newaxis=2)
