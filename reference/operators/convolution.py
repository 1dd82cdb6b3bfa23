"""Convolutions as matrix products: the windows of the padded data times the filters."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minitvm.expr.dtypes import is_floating

from ..meaning.intrinsics import round_tf32
from .table import before_after, operator, pair, reordered


def windows(x: np.ndarray, size: Any, strides: Any, dilation: Any) -> np.ndarray:
    """Return the windows of the spatial axes as a view [n, c, outs..., taps...]."""
    rank = x.ndim - 2
    reach = tuple((k - 1) * d + 1 for k, d in zip(size, dilation, strict=True))
    if any(n < r for n, r in zip(x.shape[2:], reach, strict=True)):  # of which NumPy has no windows
        counts = [max((n - r) // s + 1, 0) for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
        return np.zeros((*x.shape[:2], *counts, *size), x.dtype)
    seen = sliding_window_view(x, reach, axis=tuple(range(2, rank + 2)))
    outs = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilation)
    return seen[(slice(None), slice(None), *outs, *taps)]


def _summed(dtype: str) -> Any:
    return np.float32 if is_floating(dtype) and np.dtype(dtype).itemsize == 2 else np.dtype(dtype)


def convolve(
    x: np.ndarray, w: np.ndarray, strides: Any, padding: Any, dilation: Any, groups: int, out_dtype: str
) -> np.ndarray:
    """Convolve data [n, c, ...] with filters [o, c / groups, ...]."""
    rank = x.ndim - 2
    dtype = out_dtype or str(x.dtype)
    if dtype == "tfloat32":  # see `linear.product`
        x, w, dtype = round_tf32(x), round_tf32(w), "float32"
    before, after = before_after(padding, rank)
    padded = np.pad(x.astype(_summed(dtype), copy=False), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    filters = w.astype(_summed(dtype), copy=False)
    seen = windows(padded, w.shape[2:], pair(strides, rank), pair(dilation, rank))
    result = _depthwise(seen, filters, groups) if groups > 1 and w.shape[1] == 1 else _grouped(seen, filters, groups)
    return np.ascontiguousarray(result).astype(dtype, copy=False)


def _grouped(seen: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    rank = w.ndim - 2
    channels, filters = w.shape[1], w.shape[0] // groups
    summed = [1, *range(2 + rank, 2 + 2 * rank)]
    parts = []
    for g in range(groups):
        part = np.tensordot(
            seen[:, g * channels : (g + 1) * channels],
            w[g * filters : (g + 1) * filters],
            (summed, list(range(1, rank + 2))),
        )
        parts.append(np.moveaxis(part, -1, 1))
    return parts[0] if groups == 1 else np.concatenate(parts, 1)


def _depthwise(seen: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    rank = w.ndim - 2
    repeated = np.repeat(np.arange(groups), w.shape[0] // groups)
    total: Any = 0
    for tap in itertools.product(*map(range, w.shape[2:])):
        at: Any = (*(slice(None),) * (rank + 2), *tap)
        of_tap: Any = (slice(None), 0, *tap)
        total = total + seen[at][:, repeated] * w[of_tap].reshape(-1, *(1,) * rank)
    return np.asarray(total)


@operator("nn.conv1d", "nn.conv3d")
def conv(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, groups: int, out_dtype: str
) -> np.ndarray:
    return convolve(data, weight, strides, padding, dilation, groups, out_dtype)


@operator("nn.conv2d")
def conv2d(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, groups: int, out_dtype: str,
    data_layout: str = "NCHW", kernel_layout: str = "OIHW",
) -> np.ndarray:  # fmt: skip
    x, w = reordered(data, data_layout, "NCHW"), reordered(weight, kernel_layout, "OIHW")
    return reordered(convolve(x, w, strides, padding, dilation, groups, out_dtype), "NCHW", data_layout)


@operator("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def conv_transpose(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    """Convolve transposed: every element of the data adds its multiple of the filters; padding is cut off at the
    end.
    """
    rank = data.ndim - 2
    stride, spread = pair(strides, rank), pair(dilation, rank)
    before, after = before_after(padding, rank)
    extra = pair(output_padding, rank)
    x, w = (v.astype(_summed(str(data.dtype)), copy=False) for v in (data, weight))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], spread, strict=True)]
    whole = [(n - 1) * s + r + e for n, s, r, e in zip(x.shape[2:], stride, reach, extra, strict=True)]
    filters = w.shape[1]
    result = np.zeros((x.shape[0], filters * groups, *whole), x.dtype)
    channels = x.shape[1] // groups
    for g, tap in itertools.product(range(groups), itertools.product(*map(range, w.shape[2:]))):
        group = slice(g * channels, (g + 1) * channels)
        of_tap: Any = (group, slice(None), *tap)
        part = np.moveaxis(np.tensordot(x[:, group], w[of_tap], ([1], [0])), -1, 1)
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, spread, x.shape[2:], stride, strict=True)
        )
        result[(slice(None), slice(g * filters, (g + 1) * filters), *at)] += part
    # Negative padding adds rows of zeros instead.
    result = np.pad(result, [(0, 0), (0, 0), *((max(-b, 0), max(-a, 0)) for b, a in zip(before, after, strict=True))])
    cut = tuple(
        slice(max(b, 0), result.shape[k + 2] - max(a, 0)) for k, (b, a) in enumerate(zip(before, after, strict=True))
    )
    return result[(slice(None), slice(None), *cut)].astype(data.dtype, copy=False)
