"""Pooling with windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import explicitly_padded, window_padding


def _windows(n: NodeContext, fill: float | None = None) -> tuple[Operand, dict[str, Any]]:
    """The data, and the attributes of the windows; open paddings are part of the data, where there is a `fill`."""
    x = n[0]
    kernel = n.attr("kernel_shape")
    rank = len(kernel)
    if rank not in (1, 2, 3) or x.ndim != rank + 2:
        n.refuse(f"a window of {rank} dimensions over {x} is not supported")
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    x, padding = explicitly_padded(n, x, window_padding(n, x.shape[2:], kernel, strides, dilations), fill)
    ceil = bool(n.attr("ceil_mode", 0)) and n.attr("auto_pad", "NOTSET") in ("NOTSET", "")
    attrs = {"pool_size": kernel, "strides": strides, "padding": padding, "dilation": dilations, "ceil_mode": ceil}
    return x, attrs


@converter("MaxPool")
def max_pool(n: NodeContext) -> Any:
    if n.wants(1):
        return _max_pool_with_places(n)
    n.ignore("storage_order")  # of the second output
    x, attrs = _windows(n, -math.inf if n[0].dtype.is_float else int(n[0].dtype.min))
    return n.op(f"nn.max_pool{x.ndim - 2}d", x, **attrs)


def _max_pool_with_places(n: NodeContext) -> Any:
    """The largest element of each window, the first of equal ones, and where in the whole tensor it lies."""
    x = n[0]
    spatial = n.sizes(x, 2)
    rows = _taps(n, spatial)
    size, many = math.prod(spatial), math.prod(n.sizes(x)[:2])
    lowest = -math.inf if x.dtype.is_float else int(x.dtype.min)
    flat = n.op("reshape", x, newshape=(many, size))
    # An element behind the others stands for those outside.
    padded = n.op("nn.pad", flat, pad_width=((0, 0), (0, 1)), pad_value=lowest)
    windows = n.op("take", padded, np.minimum(rows, size), axis=1)
    first = n.cast(n.op("argmax", windows, axis=(2,), keepdims=True), "int64")
    largest = n.op("squeeze", n.op("gather", windows, first, axis=2), axis=(2,))
    places = np.arange(size + 1)
    if n.attr("storage_order", 0):
        places[:size] = places[:size].reshape(spatial[::-1]).transpose().reshape(-1)
    chosen = n.op("add", n.op("squeeze", first, axis=(2,)), np.arange(len(rows))[None] * rows.shape[1])
    inside = n.op("take", places[np.minimum(rows, size)].reshape(-1), chosen, axis=0)
    whole = n.op("add", inside, np.arange(many)[:, None] * size)
    shape = (*x.shape[:2], *_outputs(n, spatial))
    return n.op("reshape", largest, newshape=shape), n.op("reshape", whole, newshape=shape)


def _outputs(n: NodeContext, spatial: Sequence[int]) -> list[int]:
    """How many windows there are along each axis."""
    kernel, strides, dilations, padding, ceil = _geometry(n, spatial)
    counts = []
    for a, extent in enumerate(spatial):
        room = extent + padding[a] + padding[len(spatial) + a] - (kernel[a] - 1) * dilations[a] - 1
        count = room // strides[a] + 1
        if ceil and room % strides[a] and count * strides[a] < extent + padding[a]:
            count += 1
        counts.append(count)
    return counts


def _geometry(n: NodeContext, spatial: Sequence[int]) -> tuple[Any, ...]:
    kernel = n.attr("kernel_shape")
    strides, dilations = n.attr("strides", (1,) * len(kernel)), n.attr("dilations", (1,) * len(kernel))
    ceil = bool(n.attr("ceil_mode", 0)) and n.attr("auto_pad", "NOTSET") in ("NOTSET", "")
    return kernel, strides, dilations, window_padding(n, list(spatial), kernel, strides, dilations), ceil


def _taps(n: NodeContext, spatial: Sequence[int]) -> np.ndarray:
    """For each window the places of its elements in the picture, in order; past its end for those outside, put last."""
    kernel, strides, dilations, padding, _ = _geometry(n, spatial)
    size = math.prod(spatial)
    place, outside = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool)
    for a, (extent, count) in enumerate(zip(spatial, _outputs(n, spatial), strict=True)):
        starts = np.arange(count) * strides[a] - padding[a]
        along = starts[:, None] + np.arange(kernel[a]) * dilations[a]
        place = (place[:, None, :, None] * extent + along[None, :, None, :]).reshape(len(place) * count, -1)
        beyond = (along < 0) | (along >= extent)
        outside = (outside[:, None, :, None] | beyond[None, :, None, :]).reshape(place.shape)
    return np.sort(np.where(outside, size, place), axis=1)


@converter("MaxUnpool", since=9)
def max_unpool(n: NodeContext) -> Any:
    """Each element at the place where the maximum lay, zeros elsewhere."""
    x, places, wanted = n[0], n[1], n.optional(2)
    kernel = n.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = n.attr("strides", (1,) * rank), n.attr("pads", (0,) * (2 * rank))
    if x.ndim != rank + 2:
        n.refuse(f"a window of {rank} dimensions over {x} is not supported")
    batch, channels, *extents = n.sizes(x)
    shape = [batch, channels]
    for a, extent in enumerate(extents):
        shape.append((extent - 1) * strides[a] + kernel[a] - pads[a] - pads[rank + a])
    zeros = np.zeros(math.prod(shape), x.dtype.numpy)
    flat = [n.op("reshape", one, newshape=(-1,)) for one in (places, x)]
    result = n.op("reshape", n.op("scatter_elements", Operand.known(zeros), *flat, axis=0), newshape=tuple(shape))
    if wanted is None:
        return result
    sizes = n.ints(wanted, "the shape of the result")
    if any(size < own for size, own in zip(sizes, shape, strict=True)):
        n.refuse(f"output_shape {sizes} is smaller than {tuple(shape)}")
    return n.op("nn.pad", result, pad_width=[(0, size - own) for size, own in zip(sizes, shape, strict=True)])


@converter("AveragePool")
def average_pool(n: NodeContext) -> Any:
    counted = bool(n.attr("count_include_pad", 0))
    x, attrs = _windows(n, 0.0 if counted else None)
    return n.op(f"nn.avg_pool{x.ndim - 2}d", x, count_include_pad=counted, **attrs)


@converter("LpPool")
def lp_pool(n: NodeContext) -> Any:
    """The p-norm of each window: a sum of powers is the mean times the size of the window, padding counted."""
    p = n.attr("p", 2)
    x, attrs = _windows(n)
    if attrs["ceil_mode"]:
        n.refuse_attribute("ceil_mode")
    size_of = n.op("abs", x)
    powers = size_of if p == 1 else n.op("multiply", x, x) if p == 2 else n.op("power", size_of, float(p))
    mean = n.op(f"nn.avg_pool{x.ndim - 2}d", powers, count_include_pad=True, **attrs)
    size = 1
    for k in attrs["pool_size"]:
        size *= k
    total = n.op("multiply", mean, float(size))
    if p <= 2:
        return total if p == 1 else n.op("sqrt", total)
    return n.op("power", total, 1.0 / p)
