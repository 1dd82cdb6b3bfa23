"""What transformers are built of (Vaswani et al. 2017): attention of several heads, and two dense layers."""

from __future__ import annotations

import math

import numpy as np

from ...graph import Value
from .layers import Layers, extent

MASKED = -10000.0  # added to the score of what may not be seen


def attention(
    net: Layers, x: Value, heads: int, mask: Value | np.ndarray | None = None, key_bias: bool = True
) -> Value:
    """Self-attention of data [batch, sequence, features]; `mask` is added to the scores [batch, heads, query, key]."""
    width = extent(x.shape[-1])
    query, key, value = (split_heads(net, net.dense(x, width, bias), heads) for bias in (True, key_bias, True))
    mixed = attend(net, query, key, value, mask)
    return net.dense(join_heads(net, mixed), width)


def attend(net: Layers, query: Value, key: Value, value: Value, mask: Value | np.ndarray | None = None) -> Value:
    """softmax(query key^T / sqrt(width) + mask) value, of [batch, heads, sequence, width] each."""
    scale = 1 / math.sqrt(extent(query.shape[-1]))
    scores = net.op("nn.matmul", query, net.op("transpose", key, axes=(0, 1, 3, 2)))
    scores = net.op("multiply", scores, scale)
    if mask is not None:
        scores = net.op("add", scores, mask)
    return net.op("nn.matmul", net.op("nn.softmax", scores, axis=-1), value)


def split_heads(net: Layers, x: Value, heads: int) -> Value:
    """[batch, sequence, features] as [batch, heads, sequence, features of one]."""
    batch, length, width = (extent(d) for d in x.shape)
    parts = net.op("reshape", x, newshape=(batch, length, heads, width // heads))
    return net.op("transpose", parts, axes=(0, 2, 1, 3))


def join_heads(net: Layers, x: Value) -> Value:
    """[batch, heads, sequence, features of one] as [batch, sequence, features]."""
    batch, heads, length, width = (extent(d) for d in x.shape)
    parts = net.op("transpose", x, axes=(0, 2, 1, 3))
    return net.op("reshape", parts, newshape=(batch, length, heads * width))


def feed_forward(net: Layers, x: Value, width: int, approximate: str = "none") -> Value:
    """Two dense layers with GELU between them; `width` is that of the inner one."""
    return net.dense(net.gelu(net.dense(x, width), approximate), extent(x.shape[-1]))


def causal_mask(length: int) -> np.ndarray:
    """[length, length] to add to scores: nobody sees what comes later."""
    return np.triu(np.full((length, length), MASKED, np.float32), 1)
