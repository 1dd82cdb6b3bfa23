"""Between floats and small integers."""

from __future__ import annotations

import numpy as np

from .table import operator


def _along(parameter: np.ndarray, axis: int, data: np.ndarray, block_size: int) -> np.ndarray:
    """A parameter so that it broadcasts to the data; blocks are spelled out."""
    if block_size and parameter.ndim:
        return np.repeat(parameter, block_size, axis).take(range(data.shape[axis]), axis)
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * data.ndim
    shape[axis] = -1
    return parameter.reshape(shape)


@operator("qnn.quantize")
def quantize(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    *,
    axis: int,
    block_size: int,
    out_dtype: str,
) -> np.ndarray:
    """The quotient is taken in the dtype of the data: a rounding of it can decide which integer is nearest.

    NaN becomes the least integer.
    """
    steps = np.rint(data / _along(scale, axis, data, block_size).astype(data.dtype)).astype(np.float64)
    if zero_point is not None:
        steps = steps + _along(zero_point, axis, data, block_size)
    limits = np.iinfo(out_dtype)
    return np.where(np.isnan(steps), limits.min, np.clip(steps, limits.min, limits.max)).astype(out_dtype)


@operator("qnn.dequantize")
def dequantize(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    *,
    axis: int,
    block_size: int,
    out_dtype: str,
) -> np.ndarray:
    steps = data.astype(np.int64)
    if zero_point is not None:
        steps = steps - _along(zero_point, axis, data, block_size).astype(np.int64)
    return steps.astype(out_dtype) * _along(scale, axis, data, block_size).astype(out_dtype)
