"""Convert pooling with windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .... import te
from ....graph.nodes import Dim
from ....topi.shapes import product, simple
from ...common.operand import Operand
from ...common.windows import explicitly_padded, without_second_window
from ..context import NodeContext
from ..registry import converter
from .convolution import window_padding


@dataclass(frozen=True)
class _PooledWindows:
    """The windows over the spatial axes of the data, as attributes of the operators of `topi.pool`."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[Dim, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @staticmethod
    def of(n: NodeContext) -> _PooledWindows:
        x, kernel = n[0], n.attr("kernel_shape")
        rank = len(kernel)
        if rank not in (1, 2, 3) or x.ndim != rank + 2:
            n.refuse(f"a window of {rank} dimensions over {x} is not supported")
        strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
        padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
        if any(isinstance(p, int) and p >= k for p, k in zip(padding, (*kernel, *kernel), strict=True)):
            n.refuse(f"pads {list(padding)} hold a whole window of {list(kernel)}")
        strides = without_second_window(strides, x.shape[2:], padding)
        ceil = bool(n.attr("ceil_mode", 0)) and n.attr("auto_pad", "NOTSET") in ("NOTSET", "")
        return _PooledWindows(kernel, strides, padding, dilations, ceil)

    def pooled(self, n: NodeContext, reduction: str, x: Operand, fill: float | None = None, **attrs: Any) -> Operand:
        """Return the reduction of each window. With a `fill`, symbolic paddings are added to the data first."""
        x, padding = explicitly_padded(n, x, self.padding, fill)
        pooled: Operand = n.op(
            f"nn.{reduction}_pool{x.ndim - 2}d", x, **asdict(replace(self, padding=padding)), **attrs
        )
        return pooled

    def with_last_filled(self, counts: Sequence[Dim], extents: Sequence[Dim]) -> _PooledWindows:
        """Return windows with padding up to the end of the last one. `counts` holds the number of windows, which stays
        the same.
        """
        rank = len(counts)
        after: list[Dim] = []
        for a, (count, extent) in enumerate(zip(counts, extents, strict=True)):
            reach = (count - 1) * self.strides[a] + (self.pool_size[a] - 1) * self.dilation[a] + 1
            more, declared = simple(reach - extent - self.padding[a]), self.padding[rank + a]
            both = isinstance(more, int) and isinstance(declared, int)
            after.append(max(more, declared) if both else simple(te.maximum(more, declared)))
        return replace(self, padding=(*self.padding[:rank], *after), ceil_mode=False)


def _lowest(x: Operand) -> float:
    return -math.inf if x.dtype.is_float else int(x.dtype.min)


@converter("MaxPool")
def max_pool(n: NodeContext) -> Any:
    windows = _PooledWindows.of(n)
    largest = windows.pooled(n, "max", n[0], _lowest(n[0]))
    if n.wants(1):
        return largest, _places(n, windows, largest.shape[2:])
    n.ignore("storage_order")  # of the second output
    return largest


def _places(n: NodeContext, windows: _PooledWindows, counts: Sequence[Dim]) -> Operand:
    """Return the index, in the whole tensor, of the largest element of each window (the first of equal ones).

    A tap outside of the picture counts as the nearest one inside, with its value and its index.
    """
    x, rank, kernel = n[0], len(counts), windows.pool_size
    spatial, ndim = x.shape[2:], 2 * len(counts)
    many, size = product(x.shape[:2]), product(spatial)
    by_rows = [product(spatial[a + 1 :]) for a in range(rank)]
    axes = [_PooledAxis(n, windows, a, counts[a], spatial[a]) for a in range(rank)]
    elements = _sum(
        n, [axis.places(a, ndim, n.numbers(kernel[a], rank + a, ndim)) for a, axis in enumerate(axes)], by_rows
    )
    read = n.op("take", n.reshape(x, (many, size)), n.reshape(elements, (product(counts), math.prod(kernel))), axis=1)
    first = n.reshape(n.cast(n.op("argmax", read, axis=(2,)), "int64"), (many, *counts))
    chosen = []
    for a, axis in enumerate(axes):
        tap = n.op("floor_mod", n.op("floor_divide", first, math.prod(kernel[a + 1 :])), kernel[a])
        chosen.append(axis.places(1 + a, rank + 1, tap))
    strides = [product(spatial[:a]) for a in range(rank)] if n.attr("storage_order", 0) else by_rows
    whole = _sum(n, [n.numbers(many, 0, rank + 1), *chosen], [size, *strides])
    return n.reshape(whole, (*x.shape[:2], *counts))


@dataclass(frozen=True)
class _PooledAxis:
    """The windows along one spatial axis: `count` windows over `extent` elements."""

    n: NodeContext
    windows: _PooledWindows
    axis: int
    count: Dim
    extent: Dim

    def places(self, at: int, ndim: int, tap: Operand) -> Operand:
        """Return the elements that taps read. The windows are numbered along axis `at` of `ndim` axes."""
        n, step = self.n, self.windows.dilation[self.axis]
        number = n.op("multiply", n.numbers(self.count, at, ndim), self.windows.strides[self.axis])
        start = n.op("subtract", number, n.number(self.windows.padding[self.axis]))
        last = n.op("subtract", n.number(self.extent), 1)
        least = n.op("floor_divide", n.op("subtract", step - 1, start), step)
        most = n.op("floor_divide", n.op("subtract", last, start), step)
        inside = n.op("maximum", n.op("minimum", tap, most), least)
        place = n.op("add", start, n.op("multiply", inside, step))
        # A window without a tap inside reads the nearest element.
        read: Operand = n.op("maximum", n.op("minimum", place, last), 0)
        return read


def _sum(n: NodeContext, terms: Sequence[Operand], factors: Sequence[Dim]) -> Operand:
    scaled = [n.op("multiply", term, n.number(f)) for term, f in zip(terms, factors, strict=True)]
    return functools.reduce(lambda a, b: n.op("add", a, b), scaled)


@converter("MaxUnpool", since=9)
def max_unpool(n: NodeContext) -> Any:
    """Put each element at the place of the maximum that it was, with zeros elsewhere."""
    x, places, wanted = n[0], n[1], n.optional(2)
    kernel = n.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = n.attr("strides", (1,) * rank), n.attr("pads", (0,) * (2 * rank))
    if x.ndim != rank + 2:
        n.refuse(f"a window of {rank} dimensions over {x} is not supported")
    shape: list[Dim] = list(x.shape[:2])
    for a, extent in enumerate(x.shape[2:]):
        shape.append(simple((extent - 1) * strides[a] + (kernel[a] - pads[a] - pads[rank + a])))
    zeros = n.op("full", shape=(product(shape),), fill_value=0, dtype=str(x.dtype))
    flat = [n.reshape(one, (product(one.shape),)) for one in (places, x)]
    result = n.reshape(n.op("scatter_elements", zeros, *flat, axis=0), shape)
    if wanted is None:
        return result
    sizes = n.dims(wanted, "the shape of the result")
    if any(isinstance(more := simple(size - own), int) and more < 0 for size, own in zip(sizes, shape, strict=True)):
        n.refuse(f"output_shape {sizes} is smaller than {tuple(shape)}")
    return n.op("nn.pad", result, pad_width=[(0, simple(size - own)) for size, own in zip(sizes, shape, strict=True)])


@converter("AveragePool")
def average_pool(n: NodeContext) -> Any:
    """Return the mean of windows. If symbolic paddings are not counted, the mean with zeros is divided by the share of
    elements inside.
    """
    x, counted, windows = n[0], bool(n.attr("count_include_pad", 0)), _PooledWindows.of(n)
    if counted or all(isinstance(p, int) for p in windows.padding):
        return windows.pooled(n, "avg", x, 0.0 if counted else None, count_include_pad=counted)
    ones = n.op("full", shape=(1, 1, *x.shape[2:]), fill_value=1.0, dtype=str(x.dtype))
    means = [windows.pooled(n, "avg", part, 0.0, count_include_pad=True) for part in (x, ones)]
    return n.op("divide", *means)


@converter("LpPool")
def lp_pool(n: NodeContext) -> Any:
    """Return the p-norm of each window. The sum of powers is the mean times the size of the window, including
    padding.
    """
    p = n.attr("p", 2)
    if p < 1:
        n.refuse_attribute("p")
    x, windows = n[0], _PooledWindows.of(n)
    if windows.ceil_mode:
        windows = windows.with_last_filled(windows.pooled(n, "max", x, 0.0).shape[2:], x.shape[2:])
    size_of = n.op("abs", x)
    powers = size_of if p == 1 else n.op("multiply", x, x) if p == 2 else n.op("power", size_of, float(p))
    mean = windows.pooled(n, "avg", powers, 0.0, count_include_pad=True)
    total = n.op("multiply", mean, float(math.prod(windows.pool_size)))
    if p <= 2:
        return total if p == 1 else n.op("sqrt", total)
    return n.op("power", total, 1.0 / p)
