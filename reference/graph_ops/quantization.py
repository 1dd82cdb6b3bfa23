"""Between floats and small integers."""

from __future__ import annotations

import numpy as np

from .table import operator


def _along(parameter: np.ndarray, axis: int, rank: int) -> np.ndarray:
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return parameter.reshape(shape)


@operator("qnn.quantize")
def quantize(
    data: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None, *, axis: int, out_dtype: str
) -> np.ndarray:
    """The quotient is taken in the dtype of the data: a rounding of it can decide which integer is nearest."""
    steps = np.rint(data / _along(scale, axis, data.ndim).astype(data.dtype)).astype(np.float64)
    if zero_point is not None:
        steps = steps + _along(zero_point, axis, data.ndim)
    limits = np.iinfo(out_dtype)
    return np.clip(steps, limits.min, limits.max).astype(out_dtype)


@operator("qnn.dequantize")
def dequantize(
    data: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None, *, axis: int, out_dtype: str
) -> np.ndarray:
    steps = data.astype(np.int64)
    if zero_point is not None:
        steps = steps - _along(zero_point, axis, data.ndim).astype(np.int64)
    return steps.astype(out_dtype) * _along(scale, axis, data.ndim).astype(out_dtype)
