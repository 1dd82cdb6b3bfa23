"""Between floats and small integers: quantize and dequantize, with one scale, or one a channel."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import DType, Expr, as_expr, const
from ..te import Tensor
from .shapes import axis_of, dims, is_one


def _parameter(tensor: Tensor, indices: tuple[Any, ...], axis: int) -> Expr:
    if tensor.ndim == 0:
        return tensor[()]
    if tensor.ndim == 1:
        return tensor[as_expr(0) if is_one(dims(tensor)[0]) else indices[axis_of(axis, len(indices))]]
    raise TypeMismatch(f"a scale or zero point has at most one dimension, found {tensor}")


def quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, out_dtype: str = "uint8"
) -> Tensor:  # fmt: skip
    """saturate(round(data / scale) + zero_point), halves to even; a scale of one dimension runs along `axis`."""
    low, high = const(DType(out_dtype).min, data.dtype), const(DType(out_dtype).max, data.dtype)

    def element(*i: Any) -> Expr:
        rounded = te.nearbyint(data[i] / _parameter(scale, i, axis).astype(data.dtype))
        if zero_point is not None:
            rounded = rounded + _parameter(zero_point, i, axis).astype(data.dtype)
        return te.minimum(te.maximum(rounded, low), high).astype(out_dtype)

    return te.compute(data.shape, element, name="T_quantize")


def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, out_dtype: str = "float32"
) -> Tensor:  # fmt: skip
    """(data - zero_point) * scale."""

    def element(*i: Any) -> Expr:
        value = data[i].astype("int32")
        if zero_point is not None:
            value = value - _parameter(zero_point, i, axis).astype("int32")
        return value.astype(out_dtype) * _parameter(scale, i, axis).astype(out_dtype)

    return te.compute(data.shape, element, name="T_dequantize")
