"""Reductions. Floats are summed in float64; integers wrap in their own dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

from .table import axes_of, operator, wide


def _sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    dtype = np.float64 if is_floating(x.dtype) else x.dtype
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=dtype))


def _count(x: np.ndarray, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


def _quotient(total: np.ndarray, count: int, dtype: Any) -> np.ndarray:
    if is_floating(total.dtype):
        return np.asarray(total / count).astype(dtype)
    divisor = np.asarray(count).astype(dtype)
    return np.asarray((total - np.fmod(total, divisor)) // divisor)


@operator("sum")
def sum_(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return _sum(x, axes_of(axis, x.ndim), keepdims).astype(x.dtype)


@operator("prod")
def prod(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    dtype = np.float64 if is_floating(x.dtype) else x.dtype
    product = np.prod(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, dtype=dtype)
    return np.asarray(product).astype(x.dtype)


def _lowest(dtype: np.dtype[Any], largest: bool) -> Any:
    """Return the initial value of a maximum or minimum."""
    if is_floating(dtype):
        return -np.inf if largest else np.inf
    if dtype.kind == "b":
        return not largest
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


@operator("max")
def max_(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    start = _lowest(x.dtype, True)
    return np.asarray(np.max(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, initial=start), x.dtype)


@operator("min")
def min_(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    start = _lowest(x.dtype, False)
    return np.asarray(np.min(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, initial=start), x.dtype)


@operator("all")
def all_(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.asarray(np.all(x, axis=axes_of(axis, x.ndim), keepdims=keepdims))


@operator("any")
def any_(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.asarray(np.any(x, axis=axes_of(axis, x.ndim), keepdims=keepdims))


@operator("mean")
def mean(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """Return the mean; for integers, rounded toward zero. Narrow integers are summed in int32."""
    axes = axes_of(axis, x.ndim)
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize < 4
    total = _sum(x.astype(np.int32) if narrow else x, axes, keepdims)
    return _quotient(total, _count(x, axes), total.dtype if narrow else x.dtype).astype(x.dtype)


@operator("variance")
def variance(x: np.ndarray, axis: Any, keepdims: bool, unbiased: bool) -> np.ndarray:
    axes = axes_of(axis, x.ndim)
    count = _count(x, axes)
    centre = _quotient(_sum(x, axes, True), count, np.float64 if is_floating(x.dtype) else x.dtype)
    squares = np.square(wide(x) - centre)
    return _quotient(_sum(squares, axes, keepdims), max(count - 1, 0) if unbiased else count, x.dtype)


@operator("l1")
def l1(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return _sum(np.abs(x), axes_of(axis, x.ndim), keepdims).astype(x.dtype)


@operator("sum_square")
def sum_square(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return _sum(np.square(wide(x)), axes_of(axis, x.ndim), keepdims).astype(x.dtype)


@operator("l2")
def l2(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """Return the root of the sum of squares; for integers, rounded toward zero."""
    total = _sum(np.square(wide(x)), axes_of(axis, x.ndim), keepdims)
    return np.sqrt(total.astype(np.float64)).astype(x.dtype)


@operator("log_sum")
def log_sum(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.log(_sum(x, axes_of(axis, x.ndim), keepdims)).astype(x.dtype)


@operator("logsumexp")
def logsumexp(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """Return the logarithm of a sum of exponentials; if they overflow float64, the largest exponent is factored out."""
    axes = axes_of(axis, x.ndim)
    v = wide(x)
    largest = np.max(v, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.sum(np.exp(v - shift), axis=axes, keepdims=True)) + shift
    return (total if keepdims else np.squeeze(total, axes)).astype(x.dtype)


def _arg(x: np.ndarray, axis: Any, keepdims: bool, last: bool, dtype: str, largest: bool) -> np.ndarray:
    axes = axes_of(axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.transpose(x, [*kept, *axes]).reshape([x.shape[a] for a in kept] + [math.prod(x.shape[a] for a in axes)])
    shape = [1 if a in axes else d for a, d in enumerate(x.shape)]
    if 0 in shape:  # nothing is searched
        return np.zeros(shape if keepdims else [x.shape[a] for a in kept], dtype)
    search = np.argmax if largest else np.argmin
    places = rows.shape[-1] - 1 - search(rows[..., ::-1], axis=-1) if last else search(rows, axis=-1)
    return np.asarray(places).reshape(shape if keepdims else [x.shape[a] for a in kept]).astype(dtype)


@operator("argmax")
def argmax(x: np.ndarray, axis: Any, keepdims: bool, select_last_index: bool, dtype: str) -> np.ndarray:
    return _arg(x, axis, keepdims, select_last_index, dtype, True)


@operator("argmin")
def argmin(x: np.ndarray, axis: Any, keepdims: bool, select_last_index: bool, dtype: str) -> np.ndarray:
    return _arg(x, axis, keepdims, select_last_index, dtype, False)


def _running(x: np.ndarray, axis: int, exclusive: bool, reverse: bool, product: bool) -> np.ndarray:
    line = np.flip(x, axis) if reverse else x
    dtype = np.float64 if is_floating(x.dtype) else x.dtype
    running = (np.cumprod if product else np.cumsum)(line, axis, dtype=dtype)
    if exclusive and x.shape[axis]:
        front = np.full_like(np.take(running, [0], axis), 1 if product else 0)
        running = np.concatenate([front, np.take(running, np.arange(x.shape[axis] - 1), axis)], axis)
    return (np.flip(running, axis) if reverse else running).astype(x.dtype)


@operator("cummax")
def cummax(x: np.ndarray, axis: int) -> np.ndarray:
    return np.maximum.accumulate(x, axis)


@operator("cummin")
def cummin(x: np.ndarray, axis: int) -> np.ndarray:
    return np.minimum.accumulate(x, axis)


@operator("cumsum")
def cumsum(x: np.ndarray, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
    return _running(x, axis, exclusive, reverse, product=False)


@operator("cumprod")
def cumprod(x: np.ndarray, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
    return _running(x, axis, exclusive, reverse, product=True)
