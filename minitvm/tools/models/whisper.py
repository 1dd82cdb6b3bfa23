"""Whisper's encoder (Radford et al. 2022): two convolutions over a spectrogram, then a transformer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...graph import Graph
from .layers import Layers, extent
from .transformer import attention, feed_forward


def whisper_encoder(
    seed: int = 0, shape: Sequence[int] = (1, 80, 3000), depth: int = 4, width: int = 384, heads: int = 6
) -> Graph:
    """The encoder of Whisper tiny: 80 mel bands of 30 s, four layers on 1500 tokens; 17 GMAC."""
    net = Layers("whisper_encoder", seed, shape, "mel")
    x = net.gelu(net.conv1d(net.input, width, 3, padding=1))
    x = net.gelu(net.conv1d(x, width, 3, stride=2, padding=1))
    x = net.op("transpose", x, axes=(0, 2, 1))
    x = net.add(x, _sinusoids(extent(x.shape[1]), width))
    for _ in range(depth):
        x = net.add(x, attention(net, net.layer_norm(x), heads, key_bias=False))
        x = net.add(x, feed_forward(net, net.layer_norm(x), 4 * width))
    return net.build(net.layer_norm(x))


def _sinusoids(length: int, channels: int) -> np.ndarray:
    """Positions as sines and cosines of wavelengths from 2 pi to 20000 pi."""
    steps = np.exp(-math.log(10000) / (channels // 2 - 1) * np.arange(channels // 2))
    angles = np.arange(length)[:, None] * steps[None, :]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
