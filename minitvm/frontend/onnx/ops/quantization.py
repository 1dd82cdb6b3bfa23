"""Quantised tensors: ordinary small integers with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operand import Operand
from ..context import NodeContext
from ..dtypes import narrow_bits, stored_dtype
from ..registry import converter

_ONE = np.array(1.0, "float32")


def _granularity(n: NodeContext, scale: Operand) -> dict[str, int]:
    """The attributes that decide which elements share a scale: all, those at a place along an axis, or a block."""
    block_size, axis = n.attr("block_size", 0), n.attr("axis", 1)  # one scale for all has no axis, whatever it says
    if scale.ndim > 1 and not block_size:
        n.refuse(f"a scale of the shape {scale.shape} without a block_size is not supported")
    return {"axis": axis if scale.ndim else 0, "block_size": block_size}


@converter("QuantizeLinear", since=10)
def quantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    shared = _granularity(n, scale)
    n.ignore("saturate", "precision")
    code = n.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else stored_dtype(code, n.where) if code else "uint8"
    bits = zero.bits if zero is not None else narrow_bits(code)
    wide = n.cast(x, "float32") if not x.dtype.is_float else x
    inputs = [wide, n.cast(scale, wide.dtype)] + ([] if zero is None else [zero])
    quantized = n.op("qnn.quantize", *inputs, **shared, out_dtype=str(dtype))
    if bits is None:
        return quantized
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype == "int8" else (0, (1 << bits) - 1)
    quantized = n.op("clip", quantized, a_min=low, a_max=high)
    quantized.bits = bits
    return quantized


@converter("DequantizeLinear", since=10)
def dequantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    shared = _granularity(n, scale)
    out = n.dtype_attr("output_dtype") if n.attr("output_dtype", 0) else None
    inputs = [x, scale] + ([] if zero is None else [zero])
    return n.op("qnn.dequantize", *inputs, **shared, out_dtype=str(out or scale.dtype))


def _shifted(n: NodeContext, x: Operand, zero: Operand | None, columns: bool = False) -> Operand:
    """x - zero point in the narrowest dtype that holds it; a vector of zero points runs along the rows, or columns.

    The zero point of symmetric quantisation costs nothing: the tensor stays as it is.
    """
    if zero is None or (zero.data is not None and not zero.data.any()):
        return x
    dtype = "int16" if x.dtype.bits == 8 else "int32"
    wide, shift = n.cast(x, dtype), n.cast(zero, dtype)
    if shift.ndim == 1 and not columns and x.ndim > 1:
        shift = n.op("expand_dims", shift, axis=(1,))
    shifted: Operand = n.op("subtract", wide, shift)
    return shifted


@converter("MatMulInteger", since=10)
def matmul_integer(n: NodeContext) -> Any:
    return integer_product(n, n[0], n.optional(2), n[1], n.optional(3))


def integer_product(n: NodeContext, a: Operand, a_zero: Operand | None, b: Operand, b_zero: Operand | None) -> Operand:
    """The matrix product of two quantised tensors less their zero points, summed in int32."""
    columns = _bytes_less(b, b_zero)
    if (
        columns is not None
        and columns.ndim == 2
        and a.ndim > 1
        and _is_bytes(a)
        and (a_zero is None or a_zero.ndim == 0)
    ):
        return _product_of_bytes(n, a, a_zero, columns)
    shifted = [_shifted(n, a, a_zero), _shifted(n, b, b_zero, columns=True)]
    product: Operand = n.op("nn.matmul", *shifted, out_dtype="int32")
    return product


def _product_of_bytes(n: NodeContext, a: Operand, zero: Operand | None, columns: np.ndarray) -> Operand:
    """The product with constant int8 columns; what a zero point that is computed adds to each is subtracted behind."""
    known = 0 if zero is None else None if zero.data is None else int(zero.data)
    total: Operand = n.op("qnn.dense", a, np.ascontiguousarray(columns.T), zero_point=known or 0)
    if zero is not None and known is None:
        sums = columns.sum(axis=0, dtype=np.int32)
        total = n.op("subtract", total, n.op("multiply", n.cast(zero, "int32"), sums))
    return total


def _is_bytes(x: Operand) -> bool:
    return x.dtype in ("int8", "uint8")


def _bytes_less(x: Operand, zero: Operand | None) -> np.ndarray | None:
    """Constant bytes less their zero points, as int8; None where they are no such bytes.

    A vector of zero points runs along the columns of a matrix; one of filters has its shape already.
    """
    if x.data is None or not _is_bytes(x) or (zero is not None and zero.data is None):
        return None
    shifted = x.data.astype(np.int32) - (0 if zero is None or zero.data is None else zero.data.astype(np.int32))
    fits = shifted.size > 0 and shifted.min() >= -128 and shifted.max() <= 127
    return shifted.astype(np.int8) if fits else None


@converter("ConvInteger", since=10)
def conv_integer(n: NodeContext) -> Any:
    return _convolution(n, n[0], n.optional(2), n[1], n.optional(3))


def _convolution(n: NodeContext, x: Operand, x_zero: Operand | None, w: Operand, w_zero: Operand | None) -> Operand:
    """The convolution of quantised data and filters less their zero points, summed in int32; padding is the zero point.

    The data have one zero point; the filters have one, or one per filter.
    """
    from .convolution import explicitly_padded, static_kernel, window_padding

    rank = x.ndim - 2
    kernel = n.attr("kernel_shape", None) or static_kernel(n, w.shape[2:])
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    x, padding = explicitly_padded(n, x, window_padding(n, x.shape[2:], kernel, strides, dilations), None)
    x_zero = None if x_zero is None else flat(n, x_zero)
    w_zero = None if w_zero is None else _along_first(n, w_zero, w.ndim)
    filters, groups = _bytes_less(w, w_zero), n.attr("group", 1)
    known = x_zero is None or (x_zero.data is not None and x_zero.ndim == 0)
    if filters is not None and rank == 2 and groups == 1 and known and _is_bytes(x):
        zero_point = 0 if x_zero is None or x_zero.data is None else int(x_zero.data)
        total: Operand = n.op(
            "qnn.conv2d", x, filters, zero_point=zero_point, strides=strides, padding=padding, dilation=dilations
        )
        return total
    shifted = [_shifted(n, x, x_zero, columns=True), _shifted(n, w, w_zero, columns=True)]
    total = n.op(
        f"nn.conv{rank}d", *shifted, strides=strides, padding=padding, dilation=dilations, groups=groups,
        out_dtype="int32",
    )  # fmt: skip
    return total


def _along_first(n: NodeContext, x: Operand, rank: int) -> Operand:
    """A single parameter as a scalar, or one parameter per place along the first of `rank` axes."""
    parameters = flat(n, x)
    column: Operand = n.op("reshape", parameters, newshape=(-1, *(1,) * (rank - 1))) if parameters.ndim else parameters
    return column


@converter("QLinearMatMul", since=10)
def qlinear_matmul(n: NodeContext) -> Any:
    """Dequantised, multiplied, quantised: exact in the integers between.

    A vector of parameters runs along the rows of the left operand, or along the columns of the right one.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n[k] for k in range(8))
    if flat(n, y_scale).ndim or flat(n, y_zero).ndim:
        n.refuse(f"the result has one scale and one zero point, found {y_scale} and {y_zero}")
    product = integer_product(n, a, flat(n, a_zero), b, flat(n, b_zero))
    by_row = flat(n, a_scale)
    if by_row.ndim == 1 and product.ndim > 1:
        by_row = n.op("expand_dims", by_row, axis=(1,))
    scale = n.op("multiply", n.cast(by_row, "float32"), n.cast(flat(n, b_scale), "float32"))
    scale = n.op("divide", scale, n.cast(flat(n, y_scale), "float32"))
    return requantized(n, product, scale, flat(n, y_zero))


def flat(n: NodeContext, x: Operand) -> Operand:
    """A parameter of one element as a scalar."""
    return n.op("reshape", x, newshape=()) if x.shape == (1,) else x


def requantized(n: NodeContext, total: Operand, factor: Operand, zero: Operand) -> Operand:
    """saturate(round(total * factor) + zero)."""
    scaled = n.op("multiply", n.cast(total, "float32"), factor)
    quantized: Operand = n.op("qnn.quantize", scaled, _ONE, zero, axis=0, out_dtype=str(zero.dtype))
    return quantized


@converter("QLinearConv", since=10)
def qlinear_conv(n: NodeContext) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (n[k] for k in range(8))
    total = _convolution(n, x, x_zero, w, w_zero)
    bias = n.optional(8)
    total = total if bias is None else n.op("nn.bias_add", total, bias)
    scale = n.op("multiply", flat(n, x_scale), _along_first(n, w_scale, w.ndim - 1))
    return requantized(n, total, n.op("divide", scale, flat(n, y_scale)), flat(n, y_zero))


@converter("DynamicQuantizeLinear", since=11)
def dynamic_quantize(n: NodeContext) -> Any:
    """uint8 with the scale that just covers the data and 0."""
    x = n[0]
    low = n.op("minimum", n.op("min", x), 0.0)
    high = n.op("maximum", n.op("max", x), 0.0)
    span = n.op("subtract", high, low)
    span = n.op("where", n.op("equal", span, 0.0), _ONE, span)  # zeros only: any scale will do
    scale = n.op("divide", span, 255.0)
    steps = n.op("divide", n.op("negative", low), scale)
    zero_point = n.op("qnn.quantize", steps, _ONE, axis=0, out_dtype="uint8")
    return [n.op("qnn.quantize", x, scale, zero_point, axis=0, out_dtype="uint8"), scale, zero_point]
