"""A tagger of words (Huang, Xu and Yu 2015): what a word is follows from the words on both sides of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from .layers import Layers

TAGS = 17  # the parts of speech of Universal Dependencies


def lstm_tagger(
    seed: int = 0, shape: Sequence[int] = (1, 64), width: int = 100, hidden: int = 256, vocabulary: int = 20000
) -> Graph:
    """Embedding, bidirectional LSTM, linear: the scores of every word's tags, for 64 words; 47 MMAC.

    `input_ids` is int64 of `shape`, [batch, length].
    """
    net = Layers("lstm_tagger", seed, shape, "input_ids", "int64")
    words = net.op("take", net.constant(net.table((vocabulary, width))), net.input, axis=0)
    x = net.op("transpose", words, axes=(1, 0, 2))
    x = net.dense(net.bidirectional_lstm(x, hidden), TAGS, gain=2.0)
    return net.build(net.op("transpose", x, axes=(1, 0, 2)))
