"""RetinaFace (Deng et al. 2019) on MobileNet: faces in a picture, from the pixels to the boxes that remain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...graph import Graph, Value
from .detection import remaining
from .layers import Layers, extent

STRIDES = (8, 16, 32)
SIZES = ((16, 32), (64, 128), (256, 512))  # sides of the priors at each place of a level, in pixels
VARIANCES = (0.1, 0.2)  # how far a unit of the network's answer moves a centre, and stretches a side
LANDMARKS = 5


def retinaface(
    seed: int = 0, shape: Sequence[int] = (1, 3, 320, 320), width: int = 8, pyramid: int = 64, most: int = 100,
    iou: float = 0.4, score: float = 0.6,
) -> Graph:  # fmt: skip
    """MobileNet of a quarter of the width, a pyramid of three levels, SSH heads, and what remains of 4200 boxes.

    The outputs are boxes [n, 4] as corners (x, y, x, y) in pixels, scores [n], and landmarks [n, 5, 2]: n, at most
    `most`, depends on the picture. The sides of the picture are multiples of 32. 0.25 GMAC.
    """
    batch, _, height, breadth = shape
    if batch != 1 or height % STRIDES[-1] or breadth % STRIDES[-1]:
        raise ModelError(f"retinaface: wanted one picture with sides that are multiples of 32, found {tuple(shape)}")
    net = Layers("retinaface", seed, shape)
    levels = _pyramid(net, _backbone(net, width), pyramid)
    heads = [_context(net, level, pyramid) for level in levels]
    rows = {
        name: net.op("concatenate", *(_answers(net, x, numbers, gain) for x in heads), axis=0)
        for name, numbers, gain in (("class", 2, 0.5), ("box", 4, 0.25), ("landmark", 2 * LANDMARKS, 0.25))
    }
    priors = prior_boxes(height, breadth)
    pixels = np.array([breadth, height], np.float32)
    boxes = _boxes(net, rows["box"], priors, pixels)
    landmarks = _landmarks(net, rows["landmark"], priors, pixels)
    scores = _second(net, net.op("nn.softmax", rows["class"], axis=-1))
    return net.build(
        remaining(net.builder, boxes, scores, [landmarks], iou=iou, score=score, most=min(most, len(priors)))
    )


def prior_boxes(height: int, breadth: int) -> np.ndarray:
    """(centre x, centre y, width, height) of every prior, relative to the picture; level by level, row by row."""
    rows = []
    for stride, sides in zip(STRIDES, SIZES, strict=True):
        y, x, side = np.meshgrid(
            np.arange(height // stride), np.arange(breadth // stride), np.array(sides, np.float32), indexing="ij"
        )
        columns = ((x + 0.5) * stride / breadth, (y + 0.5) * stride / height, side / breadth, side / height)
        rows.append(np.stack(columns, -1).reshape(-1, 4))
    return np.concatenate(rows).astype(np.float32)


def _backbone(net: Layers, width: int) -> list[Value]:
    """The pictures of a MobileNet at a part of 1/8, 1/16 and 1/32 of the sides."""
    x = _leaky(net, net.conv_norm(net.input, width, 3, 2, 1))
    stages = []
    rows = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)]
    for position, (factor, stride) in enumerate(rows):
        channels = extent(x.shape[1])
        x = _leaky(net, net.conv_norm(x, channels, 3, stride, 1, groups=channels, gain=0.75))
        x = _leaky(net, net.conv_norm(x, factor * width, 1))
        if position + 1 == len(rows) or (rows[position + 1][1] == 2 and factor >= 8):
            stages.append(x)
    return stages


def _pyramid(net: Layers, stages: Sequence[Value], channels: int) -> list[Value]:
    """Each stage with what the coarser ones saw (Lin et al. 2017)."""
    levels = [_leaky(net, net.conv_norm(x, channels, 1)) for x in stages]
    for finer in (1, 0):
        seen = net.add(levels[finer], _doubled(net, levels[finer + 1]))
        levels[finer] = _leaky(net, net.conv_norm(seen, channels, 3, padding=1))
    return levels


def _doubled(net: Layers, x: Value) -> Value:
    """Each pixel as four."""
    n, c, h, w = map(extent, x.shape)
    wide = net.op("broadcast_to", net.op("reshape", x, newshape=(n, c, h, 1, w, 1)), shape=(n, c, h, 2, w, 2))
    return net.op("reshape", wide, newshape=(n, c, 2 * h, 2 * w))


def _context(net: Layers, x: Value, channels: int) -> Value:
    """Windows of 3, 5 and 7 pixels side by side (Najibi et al. 2017)."""
    near = net.conv_norm(x, channels // 2, 3, padding=1)
    shared = _leaky(net, net.conv_norm(x, channels // 4, 3, padding=1))
    wide = net.conv_norm(shared, channels // 4, 3, padding=1)
    widest = _leaky(net, net.conv_norm(shared, channels // 4, 3, padding=1))
    return net.relu(net.concat([near, wide, net.conv_norm(widest, channels // 4, 3, padding=1)]))


def _answers(net: Layers, x: Value, numbers: int, gain: float) -> Value:
    """`numbers` values for each prior of a level: [places * priors, numbers]."""
    y = net.to_channels_last(net.conv(x, len(SIZES[0]) * numbers, 1, bias=True))
    _, height, width, channels = map(extent, y.shape)
    rows = net.op("reshape", y, newshape=(height * width * channels // numbers, numbers))
    return net.op("multiply", rows, gain)


def _boxes(net: Layers, answers: Value, priors: np.ndarray, pixels: np.ndarray) -> Value:
    """Corners in pixels."""
    shift, stretch = net.split(answers, 2, axis=1)
    centre = net.op("add", net.op("multiply", shift, priors[:, 2:] * np.float32(VARIANCES[0])), priors[:, :2])
    half = net.op("multiply", net.op("exp", net.op("multiply", stretch, VARIANCES[1])), priors[:, 2:] * np.float32(0.5))
    corners = net.op("concatenate", net.op("subtract", centre, half), net.op("add", centre, half), axis=1)
    return net.op("multiply", corners, np.tile(pixels, 2), name="boxes")


def _landmarks(net: Layers, answers: Value, priors: np.ndarray, pixels: np.ndarray) -> Value:
    """Points in pixels: [priors, 5, 2]."""
    points = net.op("reshape", answers, newshape=(len(priors), LANDMARKS, 2))
    sides, centres = priors[:, None, 2:] * np.float32(VARIANCES[0]), priors[:, None, :2]
    return net.op("multiply", net.op("add", net.op("multiply", points, sides), centres), pixels, name="landmarks")


def _second(net: Layers, x: Value) -> Value:
    """The second column."""
    column = net.op("strided_slice", x, begin=(1,), end=(2,), axes=(1,))
    return net.op("squeeze", column, axis=(1,), name="scores")


def _leaky(net: Layers, x: Value) -> Value:
    return net.op("nn.leaky_relu", x, alpha=0.1)
