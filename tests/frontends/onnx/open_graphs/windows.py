"""Moves over images and signals: convolutions, pools, resizes, blocks of pixels."""

from __future__ import annotations

from typing import Any

from .growing import ONE, OpenGraph, Shape, Unfit, each, known, move, same


def _window(dims: Shape, kernel: list[int], stride: int, dilation: int, low: list[int], high: list[int]) -> Shape:
    """The extents of the result; raises `Unfit` for a window larger than the padded data, which ONNX leaves open."""
    result = []
    for dim, k, a, b in zip(dims, kernel, low, high, strict=True):
        reach = dilation * (k - 1)
        if min(dim) + a + b <= reach:
            raise Unfit
        result.append(each(lambda v, a=a, b=b, reach=reach: (v + a + b - reach - 1) // stride + 1, dim))
    return tuple(result)


@move
def conv(g: OpenGraph) -> None:
    """In one or two dimensions, grouped or depthwise, strided, dilated, padded evenly or in front only."""
    x = g.value(lambda s: len(s) in (3, 4) and known(s[1]) and s[1][0] <= 64)
    batch, dim, *spatial = g.values[x]
    channels = dim[0]
    groups = g.d.one(1, 1, channels, *([2] if channels % 2 == 0 else []))
    filters = groups * g.d.one(1, 2, 4) if groups > 1 else g.d.one(1, 4, 8, 16, 5)
    kernel = g.d.one([1, 1], [3, 3], [1, 3], [2, 2], [5, 1])[: len(spatial)]
    stride, dilation = g.d.one(1, 1, 2), g.d.one(1, 1, 2)
    reach = [dilation * (k - 1) for k in kernel]
    low, high = g.d.one((reach, [0] * len(reach)), ([r // 2 for r in reach], [r - r // 2 for r in reach]))
    shape = (batch, same(filters), *_window(tuple(spatial), kernel, stride, dilation, low, high))
    inputs = [x, g.weight(filters, channels // groups, *kernel), *([g.weight(filters)] if g.d.flag() else [])]
    attrs: dict[str, Any] = {"strides": [stride] * len(kernel), "dilations": [dilation] * len(kernel)}
    y = g.node("Conv", inputs, shape, group=groups, kernel_shape=kernel, pads=[*low, *high], **attrs)
    if g.d.flag():
        g.node(g.d.one("Relu", "Sigmoid"), [y], shape)


@move
def volume_conv(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 4 and known(s[0]) and s[0][0] <= 8)
    shape, filters = g.values[x], g.d.one(1, 3)
    image = g.hidden("Unsqueeze", [x, g.integers(0)])
    weight = g.weight(filters, shape[0][0], 3, 3, 3)
    g.node("Conv", [image, weight], (ONE, same(filters), *shape[1:]), kernel_shape=[3] * 3, pads=[1] * 6)


@move
def transposed_conv(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) in (3, 4) and known(s[1]) and s[1][0] <= 64)
    batch, channels, *spatial = g.values[x]
    rank, filters, kernel, stride, pad = len(spatial), g.d.one(1, 4, 8), g.d.int(2, 4), g.d.int(1, 2), g.d.int(0, 1)
    grown = [each(lambda v: (v - 1) * stride + kernel - 2 * pad, dim) for dim in spatial]
    if any(min(dim) < 1 for dim in grown):
        raise Unfit
    weight = g.weight(channels[0], filters, *[kernel] * rank)
    attrs = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank}
    g.node("ConvTranspose", [x, weight], (batch, same(filters), *grown), **attrs)


@move
def pool(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) in (3, 4))
    batch, channels, *spatial = g.values[x]
    rank, op = len(spatial), g.d.one("MaxPool", "AveragePool")
    if op == "MaxPool" and g.d.flag() and all(min(dim) >= 2 for dim in spatial):
        up = tuple(each(lambda v: -(-(v - 2) // 2) + 1, dim) for dim in spatial)
        g.node(op, [x], (batch, channels, *up), kernel_shape=[2] * rank, strides=[2] * rank, ceil_mode=1)
        return
    kernel, stride = g.d.int(2, 3), g.d.int(1, 2)
    pads = [kernel // 2] * rank
    shape = (batch, channels, *_window(tuple(spatial), [kernel] * rank, stride, 1, pads, pads))
    attrs = {"count_include_pad": g.d.int(0, 1)} if op == "AveragePool" else {}
    g.node(op, [x], shape, kernel_shape=[kernel] * rank, strides=[stride] * rank, pads=pads * 2, **attrs)


@move
def global_pool(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 4)
    g.node(g.d.one("GlobalAveragePool", "GlobalMaxPool"), [x], (*g.values[x][:2], ONE, ONE))


@move
def doubled(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 4)
    shape = (*g.values[x][:2], *(each(lambda v: 2 * v, dim) for dim in g.values[x][2:]))
    attrs = g.d.one(
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "linear"}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, {"mode": "cubic"},
    )  # fmt: skip
    g.node("Resize", [x, "", g.constant([1, 1, 2, 2], "float32")], shape, **attrs)


@move
def as_large_as(g: OpenGraph) -> None:
    """Resized to the size of another image, as in feature pyramids."""
    x, other = g.value(lambda s: len(s) == 4), g.value(lambda s: len(s) == 4)
    shape = (*g.values[x][:2], *g.values[other][2:])
    sizes = g.joined(g.extent(x, 0), g.extent(x, 1), g.extent(other, 2), g.extent(other, 3))
    mode, places = g.d.one("nearest", "linear"), g.d.one("half_pixel", "asymmetric")
    g.node("Resize", [x, "", "", sizes], shape, mode=mode, coordinate_transformation_mode=places)


@move
def space_of_depth(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 4 and known(s[1]) and s[1][0] % 4 == 0)
    batch, channels, *spatial = g.values[x]
    shape = (batch, each(lambda v: v // 4, channels), *(each(lambda v: 2 * v, dim) for dim in spatial))
    g.node("DepthToSpace", [x], shape, blocksize=2, mode=g.d.one("DCR", "CRD"))


@move
def depth_of_space(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 4 and all(v % 2 == 0 for dim in s[2:] for v in dim))
    batch, channels, *spatial = g.values[x]
    shape = (batch, each(lambda v: 4 * v, channels), *(each(lambda v: v // 2, dim) for dim in spatial))
    g.node("SpaceToDepth", [x], shape, blocksize=2)


@move
def windows_of_pixels(g: OpenGraph) -> None:
    """An image in windows of two by two, padded to a multiple, as in Swin: the pads are arithmetic on the sizes."""
    x = g.value(lambda s: len(s) == 4)
    batch, channels, *spatial = g.values[x]
    two = g.integers(2)
    missing = [g.hidden("Mod", [g.hidden("Neg", [g.extent(x, a)]), two]) for a in (2, 3)]
    amounts = g.joined(g.integers(0, 0, 0, 0, 0, 0), *missing)
    even = [each(lambda v: -(-v // 2) * 2, dim) for dim in spatial]
    padded = g.node("Pad", [x, amounts, g.constant(0.5, "float32")], (batch, channels, *even))
    rows = [g.hidden("Div", [g.extent(padded, a), two]) for a in (2, 3)]
    parts = g.joined(g.integers(-1), g.extent(x, 1), rows[0], two, rows[1], two)
    split = g.hidden("Transpose", [g.hidden("Reshape", [padded, parts])], perm=[0, 2, 4, 3, 5, 1])
    shape = (each(lambda b, h, w: b * h * w // 4, batch, *even), same(4), channels)
    g.node("Reshape", [split, g.joined(g.integers(-1, 4), g.extent(x, 1))], shape)
