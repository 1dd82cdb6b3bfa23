"""Convert slices, gathers, scatters and pads, which move data to other places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import Expr, as_expr
from ....graph.nodes import Dim
from ....te import maximum, minimum
from ....topi.shapes import axis_of, larger, may_exceed, simple
from ...common.lengths import reversed_sequences
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .counted import shortened, slice_at_data
from .data_axes import spread


@converter("Slice")
def slice_by_attributes(n: NodeContext) -> Any:
    starts, ends = n.attr("starts"), n.attr("ends")
    axes = n.attr("axes", tuple(range(len(starts))))
    return n.op("strided_slice", n[0], begin=starts, end=ends, strides=(1,) * len(starts), axes=axes)


@converter("Slice", since=10)
def slice_(n: NodeContext) -> Any:
    x = n[0]
    given_axes, given_steps = n.optional(3), n.optional(4)
    if not all(given is None or given.is_known for given in (n[1], n[2], given_axes, given_steps)):
        return slice_at_data(n, given_axes, given_steps)
    starts, ends = n.dims(n[1], "the starts"), n.dims(n[2], "the ends")
    axes = tuple(range(len(starts))) if given_axes is None else n.ints(given_axes, "the axes")
    steps = (1,) * len(starts) if given_steps is None else tuple(map(shortened, n.ints(given_steps, "the steps")))
    extents = [x.shape[axis] for axis in axes]
    begin = [_first(*each) for each in zip(starts, steps, extents, strict=True)]
    return n.op("strided_slice", x, begin=begin, end=ends, strides=steps, axes=axes)


def _first(start: Dim, step: int, extent: Dim) -> Dim:
    """Return the start of a slice. In ONNX, a backward slice that starts before its axis begins with entry 0."""
    if step > 0 or not isinstance(start, int) or start >= 0:
        return start
    if isinstance(extent, int):
        return max(extent + start, 0)
    return simple(maximum(as_expr(extent) + start, 0)) if start > -(2**31) else 0  # an axis is shorter than that


@converter("Gather")
def gather(n: NodeContext) -> Any:
    data, indices = n[0], n[1]
    axis = axis_of(n.attr("axis", 0), data.ndim)
    if data.is_known and indices.is_known:
        return _gathered(n, data, indices, axis)
    return n.op("take", n.reachable(data, indices, axis), indices, axis=axis)


def _gathered(n: NodeContext, data: Operand, indices: Operand, axis: int) -> Operand:
    return Operand.known(np.take(n.array(data, "the data"), n.static(indices, "the indices"), axis), data.dtype)


@converter("GatherElements", since=11)
def gather_elements(n: NodeContext) -> Any:
    axis = axis_of(n.attr("axis", 0), n[0].ndim)
    return n.op("gather", n.reachable(n[0], n[1], axis), n[1], axis=axis)


@converter("GatherND", since=11)
def gather_nd(n: NodeContext) -> Any:
    data, indices, batch = n[0], n[1], n.attr("batch_dims", 0)
    return n.op("gather_nd", _with_points(n, data, indices, batch), indices, batch_dims=batch)


def _with_points(n: NodeContext, data: Operand, indices: Operand, batch: int) -> Operand:
    """Return the data after checking that they have the points in `indices`, if these are known."""
    points = indices.data
    if points is not None and points.ndim and 0 <= batch <= data.ndim - points.shape[-1]:
        for k in range(points.shape[-1]):
            data = n.reachable(data, Operand.known(points[..., k], indices.dtype), batch + k)
    return data


@converter("ScatterElements", since=11)
def scatter_elements(n: NodeContext) -> Any:
    reduction = n.attr("reduction", "none")
    axis = axis_of(n.attr("axis", 0), n[0].ndim)
    return n.op("scatter_elements", n.reachable(n[0], n[1], axis), n[1], n[2], axis=axis, reduction=reduction)


@converter("Scatter", since=9)
def scatter(n: NodeContext) -> Any:
    return scatter_elements(n)


@converter("ScatterND", since=11)
def scatter_nd(n: NodeContext) -> Any:
    data = _with_points(n, n[0], n[1], 0)
    return n.op("scatter_nd", data, n[1], n[2], reduction=n.attr("reduction", "none"))


@converter("Pad", since=2)
def pad_by_attributes(n: NodeContext) -> Any:
    pads = n.attr("pads")
    return _pad(n, n[0], pads, tuple(range(n[0].ndim)), Operand.known(np.array(n.attr("value", 0.0), n[0].dtype.numpy)))


@converter("Pad", since=11)
@converter("Pad", domain="com.microsoft")
def pad(n: NodeContext) -> Any:
    x, pads, listed = n[0], n[1], n.optional(3)
    if listed is not None and not listed.is_known:
        count = listed.shape[0]
        halves = (n.part(pads, 0, 0, count), n.part(pads, 0, count, simple(2 * count)))
        pads = n.op("concatenate", *(spread(n, listed, half, x.ndim, 0) for half in halves), axis=0)
        listed = None
    axes = tuple(range(x.ndim)) if listed is None else tuple(axis_of(a, x.ndim) for a in n.ints(listed, "the axes"))
    if pads.is_known:
        return _pad(n, x, n.dims(pads, "the pads"), axes, n.optional(2))
    x, sizes = _cropped_by_data(n, x, pads, axes)
    return _pad(n, x, sizes, axes, n.optional(2))


def _cropped_by_data(n: NodeContext, x: Operand, pads: Operand, axes: Sequence[int]) -> tuple[Operand, tuple[Dim, ...]]:
    """Return x without the parts that negative pads remove, and the remaining pads. A run finds which pads are
    negative.
    """
    pads = n.fit(pads, (2 * len(axes),), "the pads")
    if n.builder.at_least(pads, 0):
        return x, n.dims(pads, "the pads")
    known = n.builder.elements(pads)
    for k, axis in enumerate(axes):
        extent = x.shape[axis]
        ends = [known[k + side * len(axes)] for side in (0, 1)]
        if all(end is not None and not may_exceed(0, end) for end in ends):
            continue
        cuts = n.op("negative", n.op("minimum", n.op("stack", *(
            n.reshape(n.part(pads, 0, at, at + 1), ()) for at in (k, k + len(axes))
        ), axis=0), 0))  # fmt: skip
        before, after = n.dims(cuts, "what negative pads cut off", most=extent)
        x = n.part(x, axis, before, larger(simple(extent - after), before))
    return x, n.dims(n.op("maximum", pads, 0), "the pads")


def _pad(n: NodeContext, x: Operand, pads: tuple[Dim, ...], axes: tuple[int, ...], fill: Operand | None) -> Any:
    widths: list[tuple[Dim, Dim]] = [(0, 0)] * x.ndim
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{n.where}: wanted {2 * len(axes)} pads, found {len(pads)}")
    for k, a in enumerate(axes):
        widths[a] = (pads[k], pads[len(axes) + k])
    mode = n.attr("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        n.refuse_attribute("mode")
    if mode != "constant":
        x, widths = _cropped(n, x, widths)
    if mode != "constant" or fill is None:
        return n.op("nn.pad", x, pad_width=widths, pad_mode=mode)
    if fill.is_known:
        return n.op("nn.pad", x, pad_width=widths, pad_value=n.scalar(fill, "the value"))
    return n.op("nn.pad", x, fill, pad_width=widths)


def _cropped(n: NodeContext, x: Operand, widths: Sequence[tuple[Dim, Dim]]) -> tuple[Operand, list[tuple[Dim, Dim]]]:
    """Return x without the parts that negative pads remove, and the remaining pads. Removed parts are not repeated."""
    left: list[tuple[Dim, Dim]] = []
    for axis, (before, after) in enumerate(widths):
        cut, end = (max(-width, 0) if isinstance(width, int) else 0 for width in (before, after))
        if cut or end:
            x = n.part(x, axis, cut, larger(simple(x.shape[axis] - end), cut))
        left.append((before + cut, after + end))
    return x, left


@converter("ReverseSequence", since=10)
def reverse_sequence(n: NodeContext) -> Any:
    x, lengths = n[0], n[1]
    batch, time = n.attr("batch_axis", 1), n.attr("time_axis", 0)
    batch, time = axis_of(batch, x.ndim), axis_of(time, x.ndim)
    if batch == time:
        n.refuse(f"the batch axis and the time axis are both {time}")
    return reversed_sequences(n, x, lengths, batch, time)


@converter("CenterCropPad", since=18)
def center_crop_pad(n: NodeContext) -> Any:
    """Cut or zero-pad each axis to a size, evenly on both sides."""
    x = n[0]
    axes = [axis_of(a, x.ndim) for a in n.attr("axes", tuple(range(x.ndim)))]
    for axis, size in zip(axes, n.dims(n[1], "the shape"), strict=True):
        extent = x.shape[axis]
        kept = simple(minimum(extent, size))
        first, before = simple((extent - kept) // 2), simple((size - kept) // 2)
        x = n.part(x, axis, first, simple(first + kept))
        widths: list[tuple[Dim, Dim]] = [(0, 0)] * x.ndim
        widths[axis] = (before, simple(size - kept - before))
        x = n.op("nn.pad", x, pad_width=widths) if widths[axis] != (0, 0) else x
        x = n.assume(x, (x.shape[axis], size)) if isinstance(x.shape[axis], Expr) else x
    return n.op("copy", x) if x is n[0] else x
