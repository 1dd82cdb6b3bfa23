"""Quantised tensors: ordinary small integers with scales and zero points."""

from __future__ import annotations

from typing import Any

from ..context import NodeContext
from ..operand import Operand
from ..registry import converter


def _per_tensor_or_axis(n: NodeContext, scale: Operand) -> None:
    if n.attr("block_size", 0):
        n.refuse_attribute("block_size")
    if scale.ndim > 1:
        n.refuse(f"a scale of the shape {scale.shape} is not supported")


@converter("QuantizeLinear", since=10)
def quantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    _per_tensor_or_axis(n, scale)
    n.ignore("saturate", "precision")
    out = n.dtype_attr("output_dtype") if n.attr("output_dtype", 0) else None
    dtype = zero.dtype if zero is not None else out or "uint8"
    wide = n.cast(x, "float32") if not x.dtype.is_float else x
    inputs = [wide, n.cast(scale, wide.dtype)] + ([] if zero is None else [zero])
    return n.op("qnn.quantize", *inputs, axis=n.attr("axis", 1) if scale.ndim else 0, out_dtype=str(dtype))


@converter("DequantizeLinear", since=10)
def dequantize(n: NodeContext) -> Any:
    x, scale, zero = n[0], n[1], n.optional(2)
    _per_tensor_or_axis(n, scale)
    out = n.dtype_attr("output_dtype") if n.attr("output_dtype", 0) else None
    inputs = [x, scale] + ([] if zero is None else [zero])
    return n.op(
        "qnn.dequantize", *inputs, axis=n.attr("axis", 1) if scale.ndim else 0, out_dtype=str(out or scale.dtype)
    )


def _shifted(n: NodeContext, x: Operand, zero: Operand | None, columns: bool = False) -> Operand:
    """x - zero point, as int32; a vector of zero points runs along the rows, or columns, of a matrix."""
    wide = n.cast(x, "int32")
    if zero is None:
        return wide
    shift = n.cast(zero, "int32")
    if shift.ndim == 1 and not columns and x.ndim > 1:
        shift = n.op("expand_dims", shift, axis=(1,))
    made: Operand = n.op("subtract", wide, shift)
    return made


@converter("MatMulInteger", since=10)
def matmul_integer(n: NodeContext) -> Any:
    return n.op("nn.matmul", _shifted(n, n[0], n.optional(2)), _shifted(n, n[1], n.optional(3), columns=True))


@converter("ConvInteger", since=10)
def conv_integer(n: NodeContext) -> Any:
    from .convolution import static_kernel, window_padding

    x, w, x_zero, w_zero = n[0], n[1], n.optional(2), n.optional(3)
    rank = x.ndim - 2
    kernel = n.attr("kernel_shape", None) or static_kernel(n, w.shape[2:])
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
    if w_zero is not None and w_zero.ndim == 1 and w_zero.shape != (1,):
        w_zero = n.op("reshape", w_zero, newshape=(-1, *(1,) * (w.ndim - 1)))
    if x_zero is not None:
        x_zero = n.op("reshape", x_zero, newshape=())
    shifted = [_shifted(n, x, x_zero, columns=True), _shifted(n, w, w_zero, columns=True)]
    return n.op(
        f"nn.conv{rank}d", *shifted, strides=strides, padding=padding, dilation=dilations, groups=n.attr("group", 1)
    )  # fmt: skip


@converter("QLinearMatMul", since=10)
def qlinear_matmul(n: NodeContext) -> Any:
    """Dequantised, multiplied, quantised: exact in the integers between."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n[k] for k in range(8))
    product = n.op("nn.matmul", _shifted(n, a, _flat(n, a_zero)), _shifted(n, b, _flat(n, b_zero), columns=True))
    scale = n.op("multiply", n.cast(_flat(n, a_scale), "float32"), n.cast(_flat(n, b_scale), "float32"))
    scale = n.op("divide", scale, n.cast(_flat(n, y_scale), "float32"))
    return _requantized(n, product, scale, _flat(n, y_zero))


def _flat(n: NodeContext, x: Operand) -> Operand:
    """A parameter of one element as a scalar."""
    return n.op("reshape", x, newshape=()) if x.shape == (1,) else x


def _requantized(n: NodeContext, total: Operand, factor: Operand, zero: Operand) -> Operand:
    low, high = zero.dtype.min, zero.dtype.max
    scaled = n.op("round", n.op("multiply", n.cast(total, "float32"), factor))
    moved = n.op("add", scaled, n.cast(zero, "float32"))
    return n.cast(n.op("clip", moved, a_min=float(low), a_max=float(high)), zero.dtype)


@converter("QLinearConv", since=10)
def qlinear_conv(n: NodeContext) -> Any:
    from .convolution import static_kernel, window_padding

    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (n[k] for k in range(8))
    rank = x.ndim - 2
    kernel = n.attr("kernel_shape", None) or static_kernel(n, w.shape[2:])
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)

    def filters(v: Operand) -> Operand:
        flat = _flat(n, v)
        return n.op("reshape", flat, newshape=(-1, *(1,) * (w.ndim - 1))) if flat.ndim else flat

    def channels(v: Operand) -> Operand:
        flat = _flat(n, v)
        return n.op("reshape", flat, newshape=(-1, *(1,) * rank)) if flat.ndim else flat

    shifted = [_shifted(n, x, _flat(n, x_zero), columns=True), _shifted(n, w, filters(w_zero), columns=True)]
    total = n.op(
        f"nn.conv{rank}d", *shifted, strides=strides, padding=padding, dilation=dilations, groups=n.attr("group", 1)
    )  # fmt: skip
    bias = n.optional(8)
    total = total if bias is None else n.op("nn.bias_add", total, bias)
    scale = n.op("divide", n.op("multiply", _flat(n, x_scale), channels(w_scale)), _flat(n, y_scale))
    return _requantized(n, total, scale, _flat(n, y_zero))


@converter("DynamicQuantizeLinear", since=11)
def dynamic_quantize(n: NodeContext) -> Any:
    """uint8 with the scale that just covers the data and 0."""
    x = n[0]
    low = n.op("minimum", n.op("min", x), 0.0)
    high = n.op("maximum", n.op("max", x), 0.0)
    scale = n.op("divide", n.op("subtract", high, low), 255.0)
    steps = n.op("round", n.op("divide", n.op("negative", low), scale))
    zero_point = n.cast(n.op("clip", steps, a_min=0.0, a_max=255.0), "uint8")
    return [n.op("qnn.quantize", x, scale, zero_point, axis=0, out_dtype="uint8"), scale, zero_point]
