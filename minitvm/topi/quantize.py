"""Conversion between floats and small integers: quantize and dequantize, with one scale or one per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import te
from ..errors import TypeMismatch
from ..expr import DType, Expr, as_expr, const
from ..te import Tensor
from .registry import Pattern, register
from .shapes import agree, axis_of, broadcast_index, differ, dims, is_one, require_repeats, same, simple


def _parameter(data: Tensor, tensor: Tensor, axis: int, block_size: int) -> Callable[..., Expr]:
    """Return a function that maps a point of the data to the element of `tensor`, a scale or zero point, that applies
    at this point.
    """
    if tensor.ndim == 0:
        return lambda *_: tensor[()]
    place = axis_of(axis, data.ndim)
    if block_size < 0 or (block_size and tensor.ndim != data.ndim) or (not block_size and tensor.ndim != 1):
        rank = f"{data.ndim} dimensions in blocks of {block_size}" if block_size else "at most one dimension"
        raise TypeMismatch(f"wanted a scale or zero point of {rank}, found {tensor}")
    if block_size:
        wanted = list(dims(data))
        wanted[place] = simple((wanted[place] + (block_size - 1)) // block_size)
        if not all(agree(a, b) for a, b in zip(dims(tensor), wanted, strict=True)):
            raise TypeMismatch(f"wanted one scale or zero point for each block of {block_size}, found {tensor}")
        return lambda *i: tensor[(*i[:place], i[place] // block_size, *i[place + 1 :])]
    count, channels = dims(tensor)[0], dims(data)[place]
    if is_one(count):
        return lambda *_: tensor[as_expr(0)]
    if differ(count, 1) or same(count, channels):
        if not agree(count, channels):
            raise TypeMismatch(f"wanted 1 or {channels} scales or zero points along axis {place}, found {count}")
        return lambda *i: tensor[i[place]]
    # Only at run time is it known whether all channels share one scale, which is then also the last one.
    require_repeats(count, channels, f"scales or zero points along axis {place}")
    return lambda *i: tensor[broadcast_index(tensor, (i[place],), (channels,))]


def _parameters(
    data: Tensor, scale: Tensor, zero_point: Tensor | None, axis: int, block_size: int
) -> tuple[Callable[..., Expr], Callable[..., Expr] | None]:
    zero_of = None if zero_point is None else _parameter(data, zero_point, axis, block_size)
    return _parameter(data, scale, axis, block_size), zero_of


@register("qnn.quantize", pattern=Pattern.BROADCAST)
def quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    out_dtype: str = ""
) -> Tensor:  # fmt: skip
    """Return saturate(round(data / scale) + zero_point), with ties to even.

    The dtype of the result is that of the zero point, as in ONNX; without one, it is `out_dtype` ("": uint8). Raises
    `TypeMismatch` if the two differ.

    A scale with one dimension has one element per index of `axis`. With a `block_size`, that many indices along `axis`
    share one element of the scale, which has the data's rank. Infinities saturate too. NaN becomes the smallest
    integer, as in ONNX Runtime's vector code.
    """
    if zero_point is not None and out_dtype not in ("", str(zero_point.dtype)):
        raise TypeMismatch(f"quantize: wanted a zero point of {out_dtype}, found {zero_point}")
    out_dtype = out_dtype or ("uint8" if zero_point is None else str(zero_point.dtype))
    # Half floats cannot represent the limits of 16-bit integers.
    wide = "float32" if data.dtype.is_half else data.dtype
    low, high = const(DType(out_dtype).min, wide), const(DType(out_dtype).max, wide)
    scale_of, zero_of = _parameters(data, scale, zero_point, axis, block_size)

    def element(*i: Any) -> Expr:
        rounded = te.nearbyint(data[i] / scale_of(*i).astype(data.dtype)).astype(wide)
        if zero_of is not None:
            rounded = rounded + zero_of(*i).astype(wide)
        # Not `maximum`, which keeps a NaN: no integer represents it.
        return te.minimum(te.select(rounded > low, rounded, low), high).astype(out_dtype)

    return te.compute(data.shape, element, name="T_quantize")


def _fold_dequantize(
    x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, axis: int, block_size: int, out_dtype: str
) -> np.ndarray:
    def spread(parameter: np.ndarray) -> np.ndarray:
        if block_size and parameter.ndim:
            return np.repeat(parameter, block_size, axis).take(np.arange(x.shape[axis]), axis)
        return parameter.reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)] if parameter.ndim else ())

    steps = x.astype(np.int32) if zero is None else x.astype(np.int32) - spread(zero).astype(np.int32)
    wide = np.result_type(DType(out_dtype).numpy, np.float32) if DType(out_dtype).bytes > 4 else np.float32
    result: np.ndarray = (steps.astype(wide) * spread(scale).astype(wide)).astype(DType(out_dtype).numpy)
    return result


@register("qnn.dequantize", pattern=Pattern.BROADCAST, fold=_fold_dequantize, sought=True)
def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    out_dtype: str = "float32"
) -> Tensor:  # fmt: skip
    """Return (data - zero_point) * scale, with parameters as in `quantize`. The product is computed in float32 or
    wider.
    """
    wide = out_dtype if DType(out_dtype).bytes > 4 else "float32"
    scale_of, zero_of = _parameters(data, scale, zero_point, axis, block_size)

    def element(*i: Any) -> Expr:
        value = data[i].astype("int32")
        if zero_of is not None:
            value = value - zero_of(*i).astype("int32")
        return (value.astype(wide) * scale_of(*i).astype(wide)).astype(out_dtype)

    return te.compute(data.shape, element, name="T_dequantize")


@register("qnn.lookup", pattern=Pattern.ELEMENTWISE)
def lookup(data: Tensor, table: Tensor) -> Tensor:
    """Return table[data] for bytes: a function of a byte, given by its 256 values.

    `data` is uint8 or int8, of any shape; `table` has the shape (256,), and the result has the table's dtype. An int8
    is used as the uint8 with the same bits.
    """
    if data.dtype not in ("uint8", "int8") or dims(table) != (256,):
        raise TypeMismatch(f"lookup: wanted uint8 or int8 and a table of shape (256,), found {data} and {table}")
    return te.compute(data.shape, lambda *i: table[data[i].astype("uint8").astype("int32")], name="T_lookup")
