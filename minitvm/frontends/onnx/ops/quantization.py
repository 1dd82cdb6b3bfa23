"""Convert quantised tensors: ordinary small integers with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....topi.shapes import axis_of
from ...common.byte_products import integer_convolution, integer_product
from ...common.operand import Operand
from ...common.windows import explicitly_padded
from ..context import NodeContext
from ..dtypes import narrow_type, stored_dtype
from ..registry import converter
from .elementwise import narrowed

_ONE = np.array(1.0, "float32")


def _granularity(n: NodeContext, scale: Operand) -> dict[str, int]:
    """Return the attributes that decide which elements share a scale: all, those at one index of an axis, or a
    block.
    """
    block_size, axis = n.attr("block_size", 0), n.attr("axis", 1)  # one scale for all has no axis, whatever it says
    if scale.ndim > 1 and not block_size:
        n.refuse(f"a scale of the shape {scale.shape} without a block_size is not supported")
    return {"axis": axis if scale.ndim else 0, "block_size": block_size}


def _beside(n: NodeContext, x: Operand, scale: Operand, shared: dict[str, int]) -> tuple[Operand, Operand]:
    """Return x, and the scale of each of its elements in a shape that broadcasts, both as floats of at least 32
    bits.
    """
    wide = "float64" if "float64" in (x.dtype, scale.dtype) else "float32"
    x, scale = n.cast(x, wide), n.cast(scale, wide)
    if not scale.ndim:
        return x, scale
    axis, block_size = axis_of(shared["axis"], x.ndim), shared["block_size"]
    if not block_size:
        return x, n.reshape(scale, (*(1,) * axis, scale.shape[0], *(1,) * (x.ndim - axis - 1)))
    whole = n.op("repeat", scale, repeats=block_size, axis=axis)
    return x, n.fit(n.part(whole, axis, 0, x.shape[axis]), x.shape, "the scale of each element")


@converter("QuantizeLinear", since=10)
def quantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    shared = _granularity(n, scale)
    n.ignore("precision")
    code = n.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else stored_dtype(code, n.where) if code else "uint8"
    narrow = zero.narrow if zero is not None else narrow_type(code)
    if narrow is not None and narrow.bits is None:
        return narrowed(n, n.op("divide", *_beside(n, x, scale, shared)), narrow)
    n.ignore("saturate")  # of floats
    wide = n.cast(x, "float32") if not x.dtype.is_float else x
    inputs = [wide, n.cast(scale, wide.dtype)] + ([] if zero is None else [zero])
    quantized = n.op("qnn.quantize", *inputs, **shared, out_dtype=str(dtype))
    if narrow is None or narrow.bits is None:
        return quantized
    bits = narrow.bits
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype == "int8" else (0, (1 << bits) - 1)
    quantized = n.op("clip", quantized, a_min=low, a_max=high)
    quantized.narrow = narrow
    return quantized


@converter("DequantizeLinear", since=10)
def dequantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    shared = _granularity(n, scale)
    out = n.dtype_attr("output_dtype") if n.attr("output_dtype", 0) else None
    if x.dtype.is_float:  # few bits, and no zero point
        number, factor = (n.cast(o, "float32") for o in _beside(n, x, scale, shared))
        return n.cast(n.op("multiply", number, factor), str(out or scale.dtype))
    inputs = [x, scale] + ([] if zero is None else [zero])
    return n.op("qnn.dequantize", *inputs, **shared, out_dtype=str(out or scale.dtype))


@converter("MatMulInteger", since=10)
def matmul_integer(n: NodeContext) -> Any:
    return integer_product(n, n[0], n.optional(2), n[1], n.optional(3))


@converter("ConvInteger", since=10)
def conv_integer(n: NodeContext) -> Any:
    return _convolution(n, n[0], n.optional(2), n[1], n.optional(3))


def _convolution(n: NodeContext, x: Operand, x_zero: Operand | None, w: Operand, w_zero: Operand | None) -> Operand:
    """Return the convolution of quantised data and filters minus their zero points, in int32. Padding is the zero
    point.

    The data have one zero point. The filters have one in all, or one per filter.
    """
    from .convolution import window_padding, with_kernel

    rank = x.ndim - 2
    w, kernel = with_kernel(n, w)
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    x, padding = explicitly_padded(n, x, window_padding(n, x.shape[2:], kernel, strides, dilations), None)
    x_zero = None if x_zero is None else flat(n, x_zero)
    w_zero = None if w_zero is None else _along_first(n, w_zero, w.ndim)
    attrs = {"strides": strides, "padding": padding, "dilation": dilations, "groups": n.attr("group", 1)}
    return integer_convolution(n, x, x_zero, w, w_zero, attrs)


def _along_first(n: NodeContext, x: Operand, rank: int) -> Operand:
    """Return a single parameter as a scalar, or one parameter per index of the first of `rank` axes."""
    parameters = flat(n, x)
    column: Operand = n.reshape(parameters, (-1, *(1,) * (rank - 1))) if parameters.ndim else parameters
    return column


@converter("QLinearMatMul", since=10)
def qlinear_matmul(n: NodeContext) -> Any:
    """Dequantise, multiply and quantise. The product is computed exactly, in integers.

    A vector of parameters is along the rows of the left operand, or along the columns of the right one.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n[k] for k in range(8))
    y_scale, y_zero = n.one(y_scale, "the result's scale"), n.one(y_zero, "the result's zero point")
    product = integer_product(n, a, flat(n, a_zero), b, flat(n, b_zero))
    by_row = flat(n, a_scale)
    if by_row.ndim == 1 and product.ndim > 1:
        by_row = n.op("expand_dims", by_row, axis=(1,))
    scale = n.op("multiply", n.cast(by_row, "float32"), n.cast(flat(n, b_scale), "float32"))
    scale = n.op("divide", scale, n.cast(flat(n, y_scale), "float32"))
    return requantized(n, product, scale, flat(n, y_zero))


def flat(n: NodeContext, x: Operand) -> Operand:
    """Return a parameter with one element as a scalar."""
    return n.reshape(x, ()) if x.shape == (1,) else x


def requantized(n: NodeContext, total: Operand, factor: Operand, zero: Operand) -> Operand:
    """Return saturate(round(total * factor) + zero)."""
    scaled = n.onto("multiply", n.cast(total, "float32"), factor)
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
    return list(dynamically_quantized(n, n[0]))


def dynamically_quantized(n: NodeContext, x: Operand) -> tuple[Operand, Operand, Operand]:
    """Return the data as uint8, with the smallest scale that covers them and 0; the scale; and the zero point."""
    low = n.op("minimum", n.op("min", x), 0.0)
    high = n.op("maximum", n.op("max", x), 0.0)
    span = n.op("subtract", high, low)
    span = n.op("where", n.op("equal", span, 0.0), _ONE, span)  # zeros only: any scale will do
    scale = n.op("divide", span, 255.0)
    steps = n.op("divide", n.op("negative", low), scale)
    zero_point = n.op("qnn.quantize", steps, _ONE, axis=0, out_dtype="uint8")
    return n.op("qnn.quantize", x, scale, zero_point, axis=0, out_dtype="uint8"), scale, zero_point
