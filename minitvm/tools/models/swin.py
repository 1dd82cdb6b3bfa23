"""Swin (Liu et al. 2021): attention inside windows, which are shifted in every second block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...graph import Graph, Value
from .layers import PICTURE, Layers, extent
from .transformer import attend, feed_forward, join_heads, split_heads

WINDOW = 7
HIDDEN = -100.0  # added to the score of a point that was not a neighbour before the shift


def swin_t(seed: int = 0, shape: Sequence[int] = PICTURE, depths: Sequence[int] = (2, 2, 6, 2)) -> Graph:
    """Swin tiny: twelve blocks of attention in windows of 7 x 7 points; 4.5 GMAC."""
    whole = WINDOW * 4 << len(depths) - 1
    if any(size % whole for size in shape[2:]):
        raise ModelError(f"swin_t takes pictures of whole windows: multiples of {whole}, found {tuple(shape)}")
    net = Layers("swin_t", seed, shape)
    x = net.layer_norm(net.to_channels_last(net.conv(net.input, 96, 4, 4, bias=True)))
    for stage, depth in enumerate(depths):
        if stage:
            x = _merged(net, x)
        for index in range(depth):
            shift = WINDOW // 2 if index % 2 and extent(x.shape[1]) > WINDOW else 0
            x = net.add(x, _windowed(net, net.layer_norm(x), 3 << stage, shift))
            x = net.add(x, feed_forward(net, net.layer_norm(x), 4 * extent(x.shape[-1])))
    means = net.op("mean", net.layer_norm(x), axis=(1, 2))
    return net.build(net.dense(means, 1000))


def _merged(net: Layers, x: Value) -> Value:
    """Four neighbours' channels beside each other, mapped to twice as many channels as one has."""
    parts = [
        net.op("strided_slice", x, begin=(row, column), end=tuple(x.shape[1:3]), strides=(2, 2), axes=(1, 2))
        for column in (0, 1)
        for row in (0, 1)
    ]
    joined = net.layer_norm(net.op("concatenate", *parts, axis=-1))
    return net.dense(joined, 2 * extent(x.shape[-1]), bias=False)


def _windowed(net: Layers, x: Value, heads: int, shift: int) -> Value:
    """Attention of the points of each window, with a bias by their distance in the picture."""
    batch, height, width, channels = (extent(d) for d in x.shape)
    y = _windows(net, _rolled(net, x, shift))
    combined = net.split(net.dense(y, 3 * channels), 3, axis=-1)
    query, key, value = (split_heads(net, part, heads) for part in combined)
    distances = _distance_bias(net, heads)
    mask = distances[None]
    if shift:
        mask = mask + np.tile(_shift_mask(height, width, shift)[:, None], (batch, 1, 1, 1))
    y = net.dense(join_heads(net, attend(net, query, key, value, mask)), channels)
    return _rolled(net, _picture(net, y, (batch, height, width)), -shift)


def _rolled(net: Layers, x: Value, shift: int) -> Value:
    """The picture moved up and left, what leaves it coming in from the other side."""
    for axis in (1, 2) if shift else ():
        size = extent(x.shape[axis])
        cut = shift % size
        first = net.op("strided_slice", x, begin=(0,), end=(cut,), axes=(axis,))
        rest = net.op("strided_slice", x, begin=(cut,), end=(size,), axes=(axis,))
        x = net.op("concatenate", rest, first, axis=axis)
    return x


def _windows(net: Layers, x: Value) -> Value:
    """[batch, height, width, channels] as [windows, points, channels]."""
    batch, height, width, channels = (extent(d) for d in x.shape)
    tiles = net.op("reshape", x, newshape=(batch * height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels))
    tiles = net.op("transpose", tiles, axes=(0, 2, 1, 3, 4))
    return net.op("reshape", tiles, newshape=(batch * height * width // WINDOW**2, WINDOW**2, channels))


def _picture(net: Layers, x: Value, shape: tuple[int, int, int]) -> Value:
    """[windows, points, channels] as [batch, height, width, channels], `shape` being the first three of these."""
    (batch, height, width), channels = shape, extent(x.shape[-1])
    tiles = net.op("reshape", x, newshape=(batch * height // WINDOW, width // WINDOW, WINDOW, WINDOW, channels))
    tiles = net.op("transpose", tiles, axes=(0, 2, 1, 3, 4))
    return net.op("reshape", tiles, newshape=(batch, height, width, channels))


def _distance_bias(net: Layers, heads: int) -> np.ndarray:
    """[heads, points, points]: a weight a head for each distance in rows and columns."""
    table = net.table(((2 * WINDOW - 1) ** 2, heads))
    places = np.stack(np.meshgrid(np.arange(WINDOW), np.arange(WINDOW), indexing="ij")).reshape(2, -1)
    rows, columns = places[:, :, None] - places[:, None, :] + WINDOW - 1
    return np.ascontiguousarray(table[rows * (2 * WINDOW - 1) + columns].transpose(2, 0, 1))


def _shift_mask(height: int, width: int, shift: int) -> np.ndarray:
    """[windows, points, points]: HIDDEN for two points that are neighbours only since the picture was rolled."""
    region = np.zeros((height, width), np.int64)
    edges = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
    for number, (rows, columns) in enumerate((r, c) for r in edges for c in edges):
        region[rows, columns] = number
    tiles = region.reshape(height // WINDOW, WINDOW, width // WINDOW, WINDOW).transpose(0, 2, 1, 3)
    points = tiles.reshape(-1, WINDOW**2)
    return np.where(points[:, :, None] == points[:, None, :], 0, HIDDEN).astype(np.float32)
