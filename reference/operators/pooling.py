"""Pooling over windows of the spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

from .convolution import windows
from .reduction import max_, mean
from .table import before_after, operator, pair, reordered


def _ends(x: np.ndarray, size: Any, strides: Any, before: Any, after: Any, dilation: Any, ceil_mode: bool) -> list[int]:
    """Return how much padding to add at the end of each axis so that the last window fits."""
    ends = []
    for n, k, s, b, a, d in zip(x.shape[2:], size, strides, before, after, dilation, strict=True):
        room = n + b + a - (k - 1) * d - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode:  # windows that begin behind the data do not count
            count = min(count, -(-(n + b) // s))
        ends.append(max(0, (count - 1) * s + (k - 1) * d + 1 - n - b))
    return ends


def _seen(
    x: np.ndarray, fill: Any, size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> np.ndarray:
    rank = x.ndim - 2
    size, strides, dilation = pair(size, rank), pair(strides, rank), pair(dilation, rank)
    before, after = before_after(padding, rank)
    ends = _ends(x, size, strides, before, after, dilation, ceil_mode)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, ends, strict=True)], constant_values=fill)
    return windows(padded, size, strides, dilation)


@operator("nn.max_pool2d")
def max_pool2d(data: np.ndarray, *, layout: str = "NCHW", **attrs: Any) -> np.ndarray:
    return reordered(max_pool(reordered(data, layout, "NCHW"), **attrs), "NCHW", layout)


@operator("nn.avg_pool2d")
def avg_pool2d(data: np.ndarray, *, layout: str = "NCHW", **attrs: Any) -> np.ndarray:
    return reordered(avg_pool(reordered(data, layout, "NCHW"), **attrs), "NCHW", layout)


@operator("nn.max_pool1d", "nn.max_pool3d")
def max_pool(
    data: np.ndarray, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> np.ndarray:
    lowest = -np.inf if is_floating(data.dtype) else np.iinfo(data.dtype).min
    seen = _seen(data, np.asarray(lowest, data.dtype), pool_size, strides, padding, dilation, ceil_mode)
    return seen.max(axis=tuple(range(data.ndim, seen.ndim)))


@operator("nn.avg_pool1d", "nn.avg_pool3d")
def avg_pool(
    data: np.ndarray, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool,
) -> np.ndarray:  # fmt: skip
    """Divide the sum of each window by the number of elements that count; narrow integers are summed in int32."""
    rank = data.ndim - 2
    before, after = before_after(padding, rank)
    size, stride, spread = pair(pool_size, rank), pair(strides, rank), pair(dilation, rank)
    ends = _ends(data, size, stride, before, after, spread, ceil_mode)
    declared = [min(a, e) for a, e in zip(after, ends, strict=True)]
    around = [(0, 0), (0, 0), *zip(before, declared, strict=True)]
    width = data.dtype.itemsize
    dtype = np.float64 if is_floating(data.dtype) else np.int32 if width < 4 else data.dtype
    taps = tuple(range(data.ndim, 2 * rank + 2))
    # Declared padding is added first, so that ones at its place can be counted.
    padded = np.pad(data.astype(dtype), around)
    counted = np.pad(np.ones_like(data, dtype), around, constant_values=1 if count_include_pad else 0)
    more = [(0, 0), (0, 0), *((0, e - a) for e, a in zip(ends, declared, strict=True))]

    def total(values: np.ndarray) -> np.ndarray:
        seen = windows(np.pad(values, more), size, stride, spread)
        return seen.sum(axis=taps, dtype=dtype)

    sums, counts = total(padded), total(counted)
    if is_floating(data.dtype):
        return (sums / counts).astype(data.dtype)
    return np.asarray((sums - np.fmod(sums, counts)) // counts).astype(data.dtype)


@operator("nn.contrib_max_pool_rows")
def max_pool_rows(data: np.ndarray, *, lanes: int, tile: int, **attrs: Any) -> np.ndarray:
    return max_pool(data, **attrs)


@operator("nn.contrib_avg_pool_rows")
def avg_pool_rows(data: np.ndarray, *, lanes: int, tile: int, **attrs: Any) -> np.ndarray:
    return avg_pool(data, **attrs)


@operator("nn.global_max_pool")
def global_max_pool(data: np.ndarray) -> np.ndarray:
    return max_(data, tuple(range(2, data.ndim)), True)


@operator("nn.global_avg_pool")
def global_avg_pool(data: np.ndarray) -> np.ndarray:
    return mean(data, tuple(range(2, data.ndim)), True)
