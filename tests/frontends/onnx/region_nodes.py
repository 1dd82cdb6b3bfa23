"""Random nodes that read or write at places that data tells, and what the standard says of them, element by element."""

from __future__ import annotations

import itertools
import math

import numpy as np

from .one_node import Drawing, Node, int_array
from .window_nodes import window


def _between(picture: np.ndarray, y: float, x: float) -> np.ndarray:
    """The elements (channels,) at a place between four, which are zero outside."""
    total = np.zeros(len(picture))
    for row, column in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= row < picture.shape[1] and 0 <= column < picture.shape[2]:
            total += picture[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def roi_align(d: Drawing) -> Node:
    x = d.data([d.int(1, 2), d.int(1, 2), d.int(1, 5), d.int(1, 5)])
    count = d.int(1, 3)
    corners = np.array([[d.int(-3, 10) / 2 for _ in range(4)] for _ in range(count)], np.float32)
    images = int_array(*(d.int(0, len(x) - 1) for _ in range(count)))
    attrs = {
        "output_height": d.int(1, 3), "output_width": d.int(1, 3), "sampling_ratio": d.int(0, 3),
        "spatial_scale": d.one(1.0, 0.5), "coordinate_transformation_mode": d.one("half_pixel", "output_half_pixel"),
    }  # fmt: skip

    def definition() -> list[np.ndarray]:
        half = attrs["coordinate_transformation_mode"] == "half_pixel"
        ratio, bins = attrs["sampling_ratio"], (attrs["output_height"], attrs["output_width"])
        y = np.zeros((count, x.shape[1], *bins))
        for r, region in enumerate(corners):
            left, top, right, bottom = region * attrs["spatial_scale"] - (0.5 if half else 0.0)
            sizes = [bottom - top, right - left]
            sizes = sizes if half else [max(s, 1.0) for s in sizes]
            samples = [ratio or max(math.ceil(size / number), 0) for size, number in zip(sizes, bins)]
            for row, column in itertools.product(*map(range, bins)):
                parts = []
                for taps in itertools.product(*map(range, samples)):
                    place = [
                        start + (index + (k + 0.5) / of) * size / number
                        for start, index, k, of, size, number in zip(
                            (top, left), (row, column), taps, samples, sizes, bins
                        )
                    ]
                    inside = all(-1 <= p <= extent for p, extent in zip(place, x.shape[2:]))
                    place = [min(max(p, 0.0), extent - 1.0) for p, extent in zip(place, x.shape[2:])]
                    parts.append(_between(x[images[r]], *place) if inside else np.zeros(x.shape[1]))
                y[r, :, row, column] = np.mean(parts, 0) if parts else 0.0
        return [y.astype(np.float32)]

    return d.node("RoiAlign", {"x": x, "rois": corners, "images": images}, attrs, opset=16, definition=definition)


def deform_conv(d: Drawing) -> Node:
    groups, moved, each = d.int(1, 2), d.int(1, 2), d.int(1, 2)
    channels, filters = groups * moved * each, groups * d.int(1, 2)
    extents = [d.int(3, 5), d.int(3, 5)]
    kernel, attrs = window(d, extents)
    while "auto_pad" in attrs:
        kernel, attrs = window(d, extents)
    pads = attrs.setdefault("pads", [0, 0, 0, 0])
    steps, spread = attrs["strides"], attrs["dilations"]
    out = [(n + pads[a] + pads[2 + a] - (kernel[a] - 1) * spread[a] - 1) // steps[a] + 1 for a, n in enumerate(extents)]
    batch, taps = d.int(1, 2), kernel[0] * kernel[1]
    x, w = d.data([batch, channels, *extents]), d.data([filters, channels // groups, *kernel])
    offset = d.data([batch, moved * taps * 2, *out]) / np.float32(4)
    b = d.data([filters]) if d.flag() else None
    mask = d.data([batch, moved * taps, *out]) if d.flag() else None

    def definition() -> list[np.ndarray]:
        y = np.zeros((batch, filters, *out))
        of_group, of_moved, of_filter = channels // groups, channels // moved, filters // groups
        for n, c, tap, i, j in itertools.product(range(batch), range(channels), range(taps), *map(range, out)):
            k, places = divmod(tap, kernel[1]), []
            for a, index in enumerate((i, j)):
                shift = offset[n, (c // of_moved * taps + tap) * 2 + a, i, j]
                places.append(index * steps[a] - pads[a] + k[a] * spread[a] + float(shift))
            value = _between(x[n, c : c + 1], *places)[0]
            value *= 1.0 if mask is None else mask[n, c // of_moved * taps + tap, i, j]
            g = c // of_group
            for f in range(g * of_filter, (g + 1) * of_filter):
                y[n, f, i, j] += value * w[f, c % of_group, k[0], k[1]]
        return [(y if b is None else y + b[:, None, None]).astype(np.float32)]

    attrs |= {"group": groups, "offset_group": moved}
    inputs = {"x": x, "w": w, "offset": offset, "b": b, "mask": mask}
    return d.node("DeformConv", inputs, attrs, opset=19, definition=definition)


def max_pool_with_places(d: Drawing) -> Node:
    extents = [d.int(3, 6) for _ in range(d.one(1, 2, 2))]
    kernel, attrs = window(d, extents)
    while "auto_pad" in attrs:
        kernel, attrs = window(d, extents)
    rank = len(extents)
    pads = attrs.setdefault("pads", [0] * (2 * rank))
    by_columns = d.int(0, 1)
    shape = [d.int(1, 2), d.int(1, 2), *extents]
    x = d.data(shape)
    out = [
        (n + pads[a] + pads[rank + a] - (kernel[a] - 1) * attrs["dilations"][a] - 1) // attrs["strides"][a] + 1
        for a, n in enumerate(extents)
    ]

    def definition() -> list[np.ndarray]:
        values, places = np.full((*shape[:2], *out), -np.inf), np.zeros((*shape[:2], *out), np.int64)
        for point in np.ndindex(*shape[:2], *out):
            for tap in np.ndindex(*kernel):
                at = [
                    p * s - pads[a] + t * e
                    for a, (p, t, s, e) in enumerate(zip(point[2:], tap, attrs["strides"], attrs["dilations"]))
                ]
                if all(0 <= p < n for p, n in zip(at, extents)) and x[(*point[:2], *at)] > values[point]:
                    values[point] = x[(*point[:2], *at)]
                    flat = np.ravel_multi_index(at, extents, order="F" if by_columns else "C")
                    image = point[0] * shape[1] + point[1]
                    places[point] = image * math.prod(extents) + flat
        return [values.astype(np.float32), places]

    attrs |= {"kernel_shape": kernel, "storage_order": by_columns}
    return d.node("MaxPool", {"x": x}, attrs, outputs=2, opset=12, definition=definition)


def max_unpool(d: Drawing) -> Node:
    extents, kernel = [d.int(1, 3), d.int(1, 3)], [d.int(1, 3), d.int(1, 3)]
    shape = [d.int(1, 2), d.int(1, 2), *extents]
    whole = [*shape[:2], *((n - 1) * k + k for n, k in zip(extents, kernel))]
    x = d.data(shape)
    places = np.array(d.permuted(range(math.prod(whole)))[: x.size], np.int64).reshape(shape)
    more = [*whole[:2], *(n + d.int(0, 2) for n in whole[2:])] if d.flag() else None
    attrs = {"kernel_shape": kernel, "strides": kernel}

    def definition() -> list[np.ndarray]:
        y = np.zeros(math.prod(whole), np.float32)
        y[places.reshape(-1)] = x.reshape(-1)
        grown = [(0, n - own) for n, own in zip(more or whole, whole)]
        return [np.pad(y.reshape(whole), grown)]

    inputs = {"x": x, "places": places, "shape": None if more is None else int_array(*more)}
    return d.node("MaxUnpool", inputs, attrs, known=("shape",), opset=11, definition=definition)


def det(d: Drawing) -> Node:
    size = d.int(1, 5)
    x = d.data([*([d.int(1, 3)] if d.flag() else []), size, size])
    return d.node(
        "Det", {"x": x}, {}, opset=11, definition=lambda: [np.asarray(np.linalg.det(x.astype(float)), np.float32)]
    )


def stft(d: Drawing) -> Node:
    length, step = d.int(2, 6), d.int(1, 3)
    samples, onesided = length + d.int(0, 6), d.int(0, 1)
    x = d.data([d.int(1, 2), samples, 1 if onesided else d.int(1, 2)])
    window = d.data([length]) if d.flag() else None
    inputs = {"x": x, "step": np.array(step), "window": window, "length": np.array(length)}

    def definition() -> list[np.ndarray]:
        signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        frames = np.stack([signal[:, k : k + length] for k in range(0, samples - length + 1, step)], 1)
        y = np.fft.fft(frames * (1 if window is None else window))
        y = y[..., : length // 2 + 1] if onesided else y
        return [np.stack([y.real, y.imag], -1).astype(np.float32)]

    return d.node("STFT", inputs, {"onesided": onesided}, known=("step", "length"), opset=17, definition=definition)
