"""A decoder in the shape of Llama (Touvron et al. 2023): RMS norm, rotary positions, grouped queries and SwiGLU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph import Graph, Value
from .layers import Layers, extent
from .transformer import attend, causal_mask, join_heads, split_heads

VOCABULARY = 32000


def llama(
    seed: int = 0,
    shape: Sequence[int] = (1, 64),
    depth: int = 4,
    width: int = 768,
    heads: int = 12,
    key_heads: int = 4,
    hidden: int = 2048,
    vocabulary: int = VOCABULARY,
) -> Graph:
    """Four layers of 768 features, where three query heads share a key head, on 64 tokens: logits; 3.1 GMAC.

    `input_ids` is int64 of `shape`, [batch, length].
    """
    net = Layers("llama", seed, shape, "input_ids", "int64")
    x = net.op("take", net.table((vocabulary, width)), net.input, axis=0)
    cosines, sines = _rotations(shape[1], width // heads)
    for _ in range(depth):
        y = net.rms_norm(x)
        query = _rotated(net, split_heads(net, net.dense(y, width, bias=False), heads), cosines, sines)
        narrow = width // heads * key_heads
        key = _rotated(net, split_heads(net, net.dense(y, narrow, bias=False), key_heads), cosines, sines)
        value = split_heads(net, net.dense(y, narrow, bias=False), key_heads)
        key, value = (_repeated(net, part, heads // key_heads) for part in (key, value))
        mixed = attend(net, query, key, value, causal_mask(shape[1]))
        x = net.add(x, net.dense(join_heads(net, mixed), width, bias=False))
        y = net.rms_norm(x)
        gate = net.op("nn.silu", net.dense(y, hidden, bias=False))
        x = net.add(x, net.dense(net.op("multiply", gate, net.dense(y, hidden, bias=False)), width, bias=False))
    return net.build(net.dense(net.rms_norm(x), vocabulary, bias=False))


def _rotations(length: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [length, width] of the angles by which each pair of features turns (Su et al. 2021)."""
    steps = 10000.0 ** -(np.arange(0, width, 2) / width)
    angles = np.tile(np.arange(length)[:, None] * steps[None, :], (1, 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotated(net: Layers, x: Value, cosines: np.ndarray, sines: np.ndarray) -> Value:
    """Each feature of the first half turned with its partner in the second one."""
    first, second = net.split(x, 2, axis=-1)
    turned = net.op("concatenate", net.op("negative", second), first, axis=-1)
    return net.add(net.op("multiply", x, cosines), net.op("multiply", turned, sines))


def _repeated(net: Layers, x: Value, times: int) -> Value:
    """Each head of [batch, heads, sequence, width] so many times."""
    batch, heads, length, width = (extent(d) for d in x.shape)
    copies = net.op("broadcast_to", net.op("expand_dims", x, axis=2), shape=(batch, heads, times, length, width))
    return net.op("reshape", copies, newshape=(batch, heads * times, length, width))
