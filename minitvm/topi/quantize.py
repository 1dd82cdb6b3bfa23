"""Between floats and small integers: quantize and dequantize, with one scale, or one per channel."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import DType, Expr, as_expr, const
from ..te import Tensor
from .shapes import axis_of, dims, is_one


def _parameter(tensor: Tensor, indices: tuple[Any, ...], axis: int, block_size: int) -> Expr:
    if tensor.ndim == 0:
        return tensor[()]
    if block_size and tensor.ndim == len(indices):
        place = axis_of(axis, len(indices))
        return tensor[(*indices[:place], indices[place] // block_size, *indices[place + 1 :])]
    if block_size or tensor.ndim != 1:
        rank = f"{len(indices)} dimensions in blocks of {block_size}" if block_size else "at most one dimension"
        raise TypeMismatch(f"a scale or zero point has {rank}, found {tensor}")
    return tensor[as_expr(0) if is_one(dims(tensor)[0]) else indices[axis_of(axis, len(indices))]]


def quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    out_dtype: str = "uint8"
) -> Tensor:  # fmt: skip
    """saturate(round(data / scale) + zero_point), halves to even; a scale of one dimension runs along `axis`.

    With a `block_size`, that many places along `axis` share one element of the scale, which has the data's rank.
    Infinities saturate too; NaN becomes the least integer, as from ONNX Runtime's vector code.
    """
    # Half floats do not hold the limits of 16-bit integers.
    wide = "float32" if data.dtype.is_half else data.dtype
    low, high = const(DType(out_dtype).min, wide), const(DType(out_dtype).max, wide)

    def element(*i: Any) -> Expr:
        rounded = te.nearbyint(data[i] / _parameter(scale, i, axis, block_size).astype(data.dtype)).astype(wide)
        if zero_point is not None:
            rounded = rounded + _parameter(zero_point, i, axis, block_size).astype(wide)
        # Not `maximum`, which keeps a NaN: no integer represents it.
        return te.minimum(te.select(rounded > low, rounded, low), high).astype(out_dtype)

    return te.compute(data.shape, element, name="T_quantize")


def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    out_dtype: str = "float32"
) -> Tensor:  # fmt: skip
    """(data - zero_point) * scale; parameters as in `quantize`. The product is one of floats of 32 bits or more."""
    wide = out_dtype if DType(out_dtype).bytes > 4 else "float32"

    def element(*i: Any) -> Expr:
        value = data[i].astype("int32")
        if zero_point is not None:
            value = value - _parameter(zero_point, i, axis, block_size).astype("int32")
        return (value.astype(wide) * _parameter(scale, i, axis, block_size).astype(wide)).astype(out_dtype)

    return te.compute(data.shape, element, name="T_dequantize")


def lookup(data: Tensor, table: Tensor) -> Tensor:
    """table[data] for bytes: a function of a byte, by its 256 values. Of int8 the place is that of its bits in uint8.

    `data` is uint8 or int8, of any shape; `table` has the shape (256,), and the result its dtype.
    """
    if data.dtype not in ("uint8", "int8") or dims(table) != (256,):
        raise TypeMismatch(f"lookup: wanted uint8 or int8 and a table of shape (256,), found {data} and {table}")
    return te.compute(data.shape, lambda *i: table[data[i].astype("uint8").astype("int32")], name="T_lookup")
