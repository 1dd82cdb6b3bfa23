"""Operators that read a picture between its elements, at places that data tells: RoiAlign and DeformConv."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import window_padding


@converter("RoiAlign", since=16)
def roi_align(n: NodeContext) -> Any:
    return _roi_align(n, n.attr("coordinate_transformation_mode", "half_pixel"))


@converter("RoiAlign", since=10)
def roi_align_10(n: NodeContext) -> Any:
    return _roi_align(n, "output_half_pixel")


def _roi_align(n: NodeContext, mode: str) -> Any:
    """Each region's bins, from samples between elements (He et al., Mask R-CNN, 2017)."""
    x, rois, images = n[0], n.cast(n[1], n[0].dtype), n.cast(n[2], "int64")
    reduction, samples = n.attr("mode", "avg"), n.attr("sampling_ratio", 0)
    if mode not in ("half_pixel", "output_half_pixel"):
        n.refuse_attribute("coordinate_transformation_mode")
    if reduction not in ("avg", "max"):
        n.refuse_attribute("mode")
    if samples < 1:
        n.refuse("sampling_ratio=0 is not supported: the size of a region decides how many samples there are")
    extents = x.shape[2:]
    bins = (n.attr("output_height", 1), n.attr("output_width", 1))
    scale, regions = n.attr("spatial_scale", 1.0), rois.shape[0]
    axes = []
    for first, extent, count in zip((1, 0), extents, bins, strict=True):
        start, end = (
            n.op("subtract", n.op("multiply", n.part(rois, 1, k, k + 1), scale), 0.5 if mode == "half_pixel" else 0.0)
            for k in (first, first + 2)
        )
        size = n.op("subtract", end, start)
        size = n.op("maximum", size, 1.0) if mode == "output_half_pixel" else size
        steps = (np.arange(count * samples) + 0.5) / (count * samples)
        places = n.op("add", n.op("multiply", size, steps.astype(x.dtype.numpy)[None]), start)
        axes.append(_two_taps(n, places, extent))
    pixels = n.op("transpose", x, axes=(0, 2, 3, 1))
    shape = (regions, bins[0] * samples, bins[1] * samples, 1)

    def spread(part: Operand, newshape: tuple[Dim, ...]) -> Operand:
        wide: Operand = n.op("broadcast_to", n.op("reshape", part, newshape=newshape), shape=shape)
        return wide

    image = spread(images, (regions, 1, 1, 1))
    rows = [[spread(part, (regions, shape[1], 1, 1)) for part in tap] for tap in axes[0]]
    columns = [[spread(part, (regions, 1, shape[2], 1)) for part in tap] for tap in axes[1]]
    terms = []
    for row, down in rows:
        for column, along in columns:
            value = n.op("gather_nd", pixels, n.op("concatenate", image, row, column, axis=3), batch_dims=0)
            terms.append(n.op("multiply", value, n.op("multiply", down, along)))
    combine, over = ("add", "mean") if reduction == "avg" else ("maximum", "max")
    total = terms[0]
    for term in terms[1:]:
        total = n.op(combine, total, term)
    split = n.op("reshape", total, newshape=(regions, bins[0], samples, bins[1], samples, x.shape[1]))
    return n.op("transpose", n.op(over, split, axis=(2, 4)), axes=(0, 3, 1, 2))


def _two_taps(n: NodeContext, places: Operand, extent: Dim) -> list[tuple[Operand, Operand]]:
    """(element, weight) on both sides of each place along an axis; beyond one element outside nothing weighs."""
    size = n.cast(Operand.known(np.array([extent, None], object)[:1], "int64"), places.dtype)
    last = n.op("subtract", size, 1.0)
    inside = n.op("logical_and", n.op("greater_equal", places, -1.0), n.op("less_equal", places, size))
    within = n.op("minimum", n.op("maximum", places, 0.0), last)
    low = n.op("floor", within)
    rest = n.op("subtract", within, low)
    weighs = n.cast(inside, places.dtype)
    above = n.op("minimum", n.op("add", low, 1.0), last)
    return [
        (n.cast(low, "int64"), n.op("multiply", n.op("subtract", _ones(rest), rest), weighs)),
        (n.cast(above, "int64"), n.op("multiply", rest, weighs)),
    ]


def _ones(like: Operand) -> Operand:
    return Operand.known(np.ones((1,) * like.ndim, like.dtype.numpy))


@converter("DeformConv", since=19)
def deform_conv(n: NodeContext) -> Any:
    """A convolution each of whose taps is moved (Dai et al., 2017) and weighed (Zhu et al., 2019) by data.

    The moved taps are samples of the picture between its elements; the rest is a product of matrices.
    """
    x, weight, offset = n[0], n[1], n[2]
    bias, mask = n.optional(3), n.optional(4)
    if x.ndim != 4:
        n.refuse(f"{x} by {weight} is not supported: wanted pictures of two dimensions")
    batch = x.shape[0]
    channels, *extents = n.sizes(x, 1)
    filters, of_group, *kernel = n.sizes(weight)
    groups, moved = n.attr("group", 1), n.attr("offset_group", 1)
    strides, dilations = n.attr("strides", (1, 1)), n.attr("dilations", (1, 1))
    n.ignore("kernel_shape")
    padding = [int(p) for p in window_padding(n, extents, kernel, strides, dilations)]  # type: ignore[arg-type]
    height, width = n.sizes(offset, 2)
    taps = kernel[0] * kernel[1]
    shifts = n.op("reshape", offset, newshape=(batch * moved, taps, 2, height, width))
    grid = []
    for axis in (1, 0):
        tap = np.arange(taps) // kernel[1] if axis == 0 else np.arange(taps) % kernel[1]
        place = np.arange((height, width)[axis]) * strides[axis] - padding[axis]
        fixed = tap[:, None, None] * dilations[axis] + (place[:, None] if axis == 0 else place[None])[None]
        whole = np.broadcast_to(fixed, (taps, height, width)).astype(x.dtype.numpy)
        grid.append(n.op("add", n.entry(shifts, axis, 2), whole))
    points = n.op("reshape", n.op("stack", *grid, axis=4), newshape=(batch * moved, taps * height, width, 2))
    picture = n.op("reshape", x, newshape=(batch * moved, channels // moved, *extents))
    read = n.op("image.grid_sample", picture, points, method="linear", padding_mode="zeros", in_elements=True)
    if mask is not None:
        read = n.op("multiply", read, n.op("reshape", mask, newshape=(batch * moved, 1, taps * height, width)))
    columns = n.op("reshape", read, newshape=(batch, groups, of_group * taps, height * width))
    matrix = n.op("reshape", weight, newshape=(1, groups, filters // groups, of_group * taps))
    result = n.op("reshape", n.op("nn.matmul", matrix, columns), newshape=(batch, filters, height, width))
    return result if bias is None else n.op("add", result, n.op("reshape", bias, newshape=(filters, 1, 1)))
