"""Convert operators that read a picture between its elements at data-dependent places: RoiAlign and DeformConv."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ....topi.shapes import product, simple
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import window_padding

_MOST_SAMPLES = 1 << 16  # along an axis of a region


@converter("RoiAlign", since=16)
def roi_align(n: NodeContext) -> Any:
    return _roi_align(n, n.attr("coordinate_transformation_mode", "half_pixel"))


@converter("RoiAlign", since=10)
def roi_align_10(n: NodeContext) -> Any:
    return _roi_align(n, "output_half_pixel")


@dataclass(frozen=True)
class _Regions:
    """Regions of pictures: their starts and lengths along each axis [regions], and their samples."""

    count: Dim
    pixels: Operand  # [n, height, width, channels]
    images: Operand  # [regions], which picture each lies in
    starts: tuple[Operand, Operand]
    lengths: tuple[Operand, Operand]
    bins: tuple[int, int]
    largest: bool  # a bin is the maximum of its samples, not their mean

    def places(self, n: NodeContext, axis: int, shares: Operand | np.ndarray) -> Operand:
        """Return positions along an axis inside of each region, at the given `shares` [.., samples] of its length."""
        start, length = (n.reshape(x[axis], (self.count, 1)) for x in (self.starts, self.lengths))
        places: Operand = n.op("add", n.op("multiply", length, shares), start)
        return places

    def sampled(self, n: NodeContext, rows: Operand, columns: Operand) -> Operand:
        """Return the values at the positions [regions, a] by [regions, b], between four elements: [regions, a, b,
        channels].

        With a maximum, the value is the maximum of the four weighted elements, as in ONNX Runtime.
        """
        shape = (self.count, rows.shape[1], columns.shape[1], 1)

        def spread(part: Operand, *own: Dim) -> Operand:
            narrow = n.reshape(part, (self.count, *own, 1))
            wide: Operand = n.op("broadcast_to", narrow, shape=shape)
            return wide

        image = spread(self.images, 1, 1)
        rows_read = [[spread(part, shape[1], 1) for part in tap] for tap in _two_taps(n, rows, self.pixels.shape[1])]
        columns_read = [
            [spread(part, 1, shape[2]) for part in tap] for tap in _two_taps(n, columns, self.pixels.shape[2])
        ]
        terms = []
        for row, down in rows_read:
            for column, along in columns_read:
                value = n.op("gather_nd", self.pixels, n.op("concatenate", image, row, column, axis=3), batch_dims=0)
                terms.append(n.op("multiply", value, n.op("multiply", down, along)))
        total: Operand = functools.reduce(lambda a, b: n.op("maximum" if self.largest else "add", a, b), terms)
        return total


def _roi_align(n: NodeContext, mode: str) -> Any:
    """Return each region's bins, from samples between elements (He et al., Mask R-CNN, 2017)."""
    x, rois, images = n[0], n.cast(n[1], n[0].dtype), n.cast(n[2], "int64")
    reduction, samples = n.attr("mode", "avg"), n.attr("sampling_ratio", 0)
    if mode not in ("half_pixel", "output_half_pixel"):
        n.refuse_attribute("coordinate_transformation_mode")
    if reduction not in ("avg", "max"):
        n.refuse_attribute("mode")
    rois = n.fit(rois, (None, 4), "the regions")
    x = n.reachable(x, images, 0)
    images = n.fit(images, (rois.shape[0],), "the numbers of pictures")
    bins = (n.attr("output_height", 1), n.attr("output_width", 1))
    if min(bins) < 1:
        n.refuse(f"{bins[0]} by {bins[1]} bins: wanted at least one")
    if samples < 0 or max(bins) * max(samples, 1) > _MOST_SAMPLES:
        n.refuse(f"{bins[0]} by {bins[1]} bins with sampling_ratio={samples}: wanted at most {_MOST_SAMPLES} samples")
    scale = n.attr("spatial_scale", 1.0)
    starts, lengths = [], []
    for first in (1, 0):
        start, end = (
            n.op("subtract", n.op("multiply", n.part(rois, 1, k, k + 1), scale), 0.5 if mode == "half_pixel" else 0.0)
            for k in (first, first + 2)
        )
        size = n.op("subtract", end, start)
        starts.append(start)
        lengths.append(n.op("maximum", size, 1.0) if mode == "output_half_pixel" else size)
    regions = _Regions(
        count=rois.shape[0],
        pixels=n.op("transpose", x, axes=(0, 2, 3, 1)),
        images=images,
        starts=(starts[0], starts[1]),
        lengths=(lengths[0], lengths[1]),
        bins=bins,
        largest=reduction == "max",
    )
    result = _of_samples(n, regions, samples) if samples > 0 else _of_each_its_samples(n, regions)
    return n.op("transpose", result, axes=(0, 3, 1, 2))


def _of_samples(n: NodeContext, regions: _Regions, samples: int) -> Operand:
    """Return the bins [regions, a, b, channels] from `samples` samples along each axis."""
    rows, columns = (
        regions.places(n, axis, ((np.arange(count * samples) + 0.5) / (count * samples)).astype(_numpy(regions))[None])
        for axis, count in enumerate(regions.bins)
    )
    total = regions.sampled(n, rows, columns)
    (a, b), channels = regions.bins, total.shape[3]
    split = n.reshape(total, (regions.count, a, samples, b, samples, channels))
    result: Operand = n.op("max" if regions.largest else "mean", split, axis=(2, 4))
    return result


def _of_each_its_samples(n: NodeContext, regions: _Regions) -> Operand:
    """Return the bins of regions that have one sample per element of a bin, rounded up.

    This is a loop over the samples of a bin. A region with fewer samples than another ignores the surplus iterations. A
    region without extent has no samples, and its bins are zero.
    """
    dtype = str(regions.pixels.dtype)
    counts = [
        n.op("maximum", n.op("ceil", n.op("divide", length, float(bins))), 0.0)
        for length, bins in zip(regions.lengths, regions.bins, strict=True)
    ]
    most = [n.op("maximum", n.cast(n.op("max", c, axis=(0, 1)), "int64"), 0) for c in counts]
    shape = (regions.count, *regions.bins, regions.pixels.shape[3])
    nothing = -np.inf if regions.largest else 0.0
    total = n.op("full", shape=shape, fill_value=nothing, dtype=dtype)

    def iteration(number: Operand, total: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        row = n.op("floor_divide", number, n.op("maximum", most[1], 1))
        column = n.op("subtract", number, n.op("multiply", row, most[1]))
        places, within = [], []
        for axis, (which, count, bins) in enumerate(zip((row, column), counts, regions.bins, strict=True)):
            position = n.op("add", n.reshape(n.cast(which, dtype), (1, 1)), 0.5)
            share = n.op("divide", position, n.op("maximum", count, 1.0))
            along = n.op("divide", n.op("add", share, np.arange(bins, dtype=_numpy(regions))[None]), float(bins))
            places.append(regions.places(n, axis, along))
            within.append(n.op("less", position, count))
        value = regions.sampled(n, *places)
        inside = n.reshape(n.op("logical_and", *within), (regions.count, 1, 1, 1))
        value = n.op("where", inside, value, np.full((1, 1, 1, 1), nothing, _numpy(regions)))
        return _true(), [n.op("maximum" if regions.largest else "add", total, value)], []

    _, total = n.builder.loop(iteration, [total], n.op("multiply", *most), _true(), None, n.where)
    each = n.reshape(n.op("multiply", *counts), (regions.count, 1, 1, 1))
    if regions.largest:
        return n.op("where", n.op("greater", each, 0.0), total, np.zeros((1, 1, 1, 1), _numpy(regions)))
    mean: Operand = n.op("divide", total, n.op("maximum", each, 1.0))
    return mean


def _true() -> Operand:
    return Operand.known(np.array(True))


def _numpy(regions: _Regions) -> Any:
    return regions.pixels.dtype.numpy


def _two_taps(n: NodeContext, places: Operand, extent: Dim) -> list[tuple[Operand, Operand]]:
    """Return (element, weight) on both sides of each position along an axis. More than one element outside, weights are
    0.
    """
    size = n.cast(n.number(extent), places.dtype)
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
    """Return a convolution whose taps are moved (Dai et al., 2017) and weighted (Zhu et al., 2019) by data.

    The moved taps are samples of the picture between its elements; the rest is a product of matrices.
    """
    x, weight, offset = n[0], n[1], n[2]
    bias, mask = n.optional(3), n.optional(4)
    if x.ndim != 4:
        n.refuse(f"{x} by {weight} is not supported: wanted pictures of two dimensions")
    batch = x.shape[0]
    channels, extents = n.size(x, 1), x.shape[2:]
    filters, of_group, *kernel = n.sizes(weight)
    groups, moved = n.attr("group", 1), n.attr("offset_group", 1)
    strides, dilations = n.attr("strides", (1, 1)), n.attr("dilations", (1, 1))
    if tuple(n.attr("kernel_shape", kernel)) != tuple(kernel):
        n.refuse_attribute("kernel_shape")
    for count, what in ((groups * moved, "channels"), (groups, "filters")):
        if (channels if what == "channels" else filters) % count or count < 1:
            n.refuse(f"{channels} {what} do not divide into {groups} groups and {moved} groups of offsets")
    if of_group * groups != channels:
        n.refuse(f"{groups} groups of {of_group} channels do not fit {channels}")
    padding = window_padding(n, extents, kernel, strides, dilations)
    height, width = offset.shape[2:]
    taps = kernel[0] * kernel[1]
    pads = padding
    outs = [
        simple((extent + pads[a] + pads[a + 2] - (kernel[a] - 1) * dilations[a] - 1) // strides[a] + 1)
        for a, extent in enumerate(extents)
    ]
    offset = n.fit(offset, (batch, moved * taps * 2, *outs), "the offsets")
    if mask is not None:
        mask = n.fit(mask, (batch, moved * taps, *outs), "the mask")
    shifts = n.reshape(offset, (batch * moved, taps, 2, height, width))
    grid = []
    for axis in (1, 0):
        tap = np.arange(taps) // kernel[1] if axis == 0 else np.arange(taps) % kernel[1]
        start = n.op("multiply", n.numbers((height, width)[axis], 1 + axis, 3), strides[axis])
        place = n.op("add", n.op("subtract", start, n.number(padding[axis])), tap[:, None, None] * dilations[axis])
        grid.append(n.op("add", n.entry(shifts, axis, 2), n.cast(place, str(x.dtype))))
    rows = product((taps, height))
    points = n.reshape(n.op("stack", *grid, axis=4), (batch * moved, rows, width, 2))
    picture = n.reshape(x, (batch * moved, channels // moved, *extents))
    read = n.op("image.grid_sample", picture, points, method="linear", padding_mode="zeros", in_elements=True)
    if mask is not None:
        read = n.op("multiply", read, n.reshape(mask, (batch * moved, 1, rows, width)))
    columns = n.reshape(read, (batch, groups, of_group * taps, product((height, width))))
    matrix = n.reshape(weight, (1, groups, filters // groups, of_group * taps))
    result = n.reshape(n.op("nn.matmul", matrix, columns), (batch, filters, height, width))
    return result if bias is None else n.op("add", result, n.reshape(bias, (filters, 1, 1)))
