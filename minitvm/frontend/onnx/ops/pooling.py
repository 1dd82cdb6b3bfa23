"""Pooling with windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import explicitly_padded, window_padding


@dataclass(frozen=True)
class _Windows:
    """The windows over the spatial axes of the data, as attributes of the operators of `topi.pool`."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[Dim, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @staticmethod
    def of(n: NodeContext) -> _Windows:
        x, kernel = n[0], n.attr("kernel_shape")
        rank = len(kernel)
        if rank not in (1, 2, 3) or x.ndim != rank + 2:
            n.refuse(f"a window of {rank} dimensions over {x} is not supported")
        strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
        padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
        ceil = bool(n.attr("ceil_mode", 0)) and n.attr("auto_pad", "NOTSET") in ("NOTSET", "")
        return _Windows(kernel, strides, padding, dilations, ceil)

    def pooled(self, n: NodeContext, reduction: str, x: Operand, fill: float | None = None, **attrs: Any) -> Operand:
        """The reduction of each window; open paddings become part of the data, where there is a `fill`."""
        x, padding = explicitly_padded(n, x, self.padding, fill)
        pooled: Operand = n.op(
            f"nn.{reduction}_pool{x.ndim - 2}d", x, **asdict(replace(self, padding=padding)), **attrs
        )
        return pooled


def _lowest(x: Operand) -> float:
    return -math.inf if x.dtype.is_float else int(x.dtype.min)


@converter("MaxPool")
def max_pool(n: NodeContext) -> Any:
    windows = _Windows.of(n)
    largest = windows.pooled(n, "max", n[0], _lowest(n[0]))
    if n.wants(1):
        return largest, _places(n, windows, n.sizes(largest, 2))
    n.ignore("storage_order")  # of the second output
    return largest


def _places(n: NodeContext, windows: _Windows, counts: Sequence[int]) -> Operand:
    """Where in the whole tensor the largest element of each window lies, the first of equal ones."""
    x = n[0]
    spatial = n.sizes(x, 2)
    padding = [p for p in windows.padding if isinstance(p, int)]  # of known sizes they are known
    rows = _taps(windows, padding, spatial, counts)
    size, many = math.prod(spatial), math.prod(n.sizes(x)[:2])
    flat = n.op("reshape", x, newshape=(many, size))
    # An element behind the others stands for those outside.
    padded = n.op("nn.pad", flat, pad_width=((0, 0), (0, 1)), pad_value=_lowest(x))
    first = n.cast(n.op("argmax", n.op("take", padded, rows, axis=1), axis=(2,)), "int64")
    places = np.arange(size + 1)
    if n.attr("storage_order", 0):
        places[:size] = places[:size].reshape(spatial[::-1]).transpose().reshape(-1)
    chosen = n.op("add", first, np.arange(len(rows))[None] * rows.shape[1])
    inside = n.op("take", places[rows].reshape(-1), chosen, axis=0)
    whole = n.op("add", inside, np.arange(many)[:, None] * size)
    return n.reshape(whole, (*x.shape[:2], *counts))


def _taps(windows: _Windows, padding: Sequence[int], spatial: Sequence[int], counts: Sequence[int]) -> np.ndarray:
    """For each window the places of its elements in the picture, in order; the picture's end for those outside."""
    size = math.prod(spatial)
    place, outside = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool)
    for a, (extent, count) in enumerate(zip(spatial, counts, strict=True)):
        starts = np.arange(count) * windows.strides[a] - padding[a]
        along = starts[:, None] + np.arange(windows.pool_size[a]) * windows.dilation[a]
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
    """Where paddings are open and not counted, the mean with zeros is divided by the share of elements inside."""
    x, counted, windows = n[0], bool(n.attr("count_include_pad", 0)), _Windows.of(n)
    if counted or all(isinstance(p, int) for p in windows.padding):
        return windows.pooled(n, "avg", x, 0.0 if counted else None, count_include_pad=counted)
    ones = n.op("full", shape=(1, 1, *x.shape[2:]), fill_value=1.0, dtype=str(x.dtype))
    means = [windows.pooled(n, "avg", part, 0.0, count_include_pad=True) for part in (x, ones)]
    return n.op("divide", *means)


@converter("LpPool")
def lp_pool(n: NodeContext) -> Any:
    """The p-norm of each window: a sum of powers is the mean times the size of the window, padding counted."""
    p = n.attr("p", 2)
    x, windows = n[0], _Windows.of(n)
    if windows.ceil_mode:
        n.refuse_attribute("ceil_mode")
    size_of = n.op("abs", x)
    powers = size_of if p == 1 else n.op("multiply", x, x) if p == 2 else n.op("power", size_of, float(p))
    mean = windows.pooled(n, "avg", powers, count_include_pad=True)
    total = n.op("multiply", mean, float(math.prod(windows.pool_size)))
    if p <= 2:
        return total if p == 1 else n.op("sqrt", total)
    return n.op("power", total, 1.0 / p)
