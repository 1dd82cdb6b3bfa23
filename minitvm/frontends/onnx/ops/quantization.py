"""Convert quantised tensors: ordinary small integers with scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....graph.byte_windows import sums_of_rows, sums_of_windows
from ....topi.shapes import axis_of, paddings
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


def _shifted(n: NodeContext, x: Operand, zero: Operand | None, columns: bool = False) -> Operand:
    """Return x minus its zero point, in the narrowest dtype that fits. A vector of zero points is along the rows, or
    `columns`.

    If the zero point is 0, as in symmetric quantisation, the tensor stays as it is.
    """
    if zero is None or (zero.data is not None and not zero.data.any()):
        return x
    dtype = "int16" if x.dtype.bits == 8 else "int32"
    wide, shift = n.cast(x, dtype), n.cast(zero, dtype)
    if shift.ndim == 1 and not columns and x.ndim > 1:
        shift = n.op("expand_dims", shift, axis=(1,))
    return n.onto("subtract", wide, shift)


@converter("MatMulInteger", since=10)
def matmul_integer(n: NodeContext) -> Any:
    return integer_product(n, n[0], n.optional(2), n[1], n.optional(3))


def integer_product(n: NodeContext, a: Operand, a_zero: Operand | None, b: Operand, b_zero: Operand | None) -> Operand:
    """Return the matrix product of two quantised tensors minus their zero points, summed in int32."""
    columns = _Bytes.of(b, b_zero, column=1)
    if (
        columns is not None
        and columns.stored.ndim == 2
        and a.ndim > 1
        and _is_bytes(a)
        and (a_zero is None or a_zero.ndim == 0)
    ):
        return _product_of_bytes(n, a, a_zero, columns)
    shifted = [_shifted(n, a, a_zero), _shifted(n, b, b_zero, columns=True)]
    product: Operand = n.op("nn.matmul", *shifted, out_dtype="int32")
    return product


def _product_of_bytes(n: NodeContext, a: Operand, zero: Operand | None, columns: _Bytes) -> Operand:
    """Return the product with constant columns. The contribution of a computed zero point is subtracted afterwards."""
    known = 0 if zero is None else None if zero.data is None else int(zero.data)
    total: Operand = n.op("qnn.dense", a, np.ascontiguousarray(columns.stored.T), zero_point=known or 0)
    if columns.offset is not None:
        sums = sums_of_rows(n.op, a, known or 0, columns.stored.shape[0])
        total = n.op("add", total, n.op("multiply", sums, columns.offset.reshape(-1)))
    if zero is not None and known is None:
        total = n.op("subtract", total, n.op("multiply", n.cast(zero, "int32"), columns.sums(axis=0)))
    return total


def _is_bytes(x: Operand) -> bool:
    return x.dtype in ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Constant bytes minus their zero points: `stored` plus an `offset` (None: 0), which is one number, or one per
    column.
    """

    stored: np.ndarray
    offset: np.ndarray | None

    @staticmethod
    def of(x: Operand, zero: Operand | None, column: int) -> _Bytes | None:
        """Return a matrix product's operand as bytes, or None if its zero points are computed or vary along axes other
        than `column`.
        """
        if x.data is None or not _is_bytes(x) or not x.data.size or (zero is not None and zero.data is None):
            return None
        point = np.zeros((), np.int32) if zero is None or zero.data is None else zero.data.astype(np.int32)
        if any(own not in (1, extent) for own, extent in zip(point.shape[::-1], x.data.shape[::-1], strict=False)):
            return None  # refused by the operators that compute with them
        shifted = x.data.astype(np.int32) - point
        if shifted.min() >= -128 and shifted.max() <= 127:
            return _Bytes(shifted.astype(np.int8), None)
        middle = 128 if x.dtype == "uint8" else 0
        points = np.broadcast_to(point, np.broadcast_shapes(np.shape(point), (1,) * x.ndim))
        if any(extent != 1 for axis, extent in enumerate(points.shape) if axis != column):
            return None
        return _Bytes((x.data.astype(np.int32) - middle).astype(np.int8), (middle - points).astype(np.int32))

    def joined(self) -> _Bytes:
        """Return the same without an offset, as int16 if there was one."""
        if self.offset is None:
            return self
        return _Bytes((self.stored + self.offset).astype(np.int16), None)

    def sums(self, axis: int | tuple[int, ...]) -> np.ndarray:
        """Return the sums along all axes except the columns, including the offset."""
        whole = self.stored.astype(np.int32) + (0 if self.offset is None else self.offset)
        return np.asarray(whole.sum(axis=axis, dtype=np.int32))


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
    filters, groups = _Bytes.of(w, w_zero, column=0), n.attr("group", 1)
    one_zero = x_zero is None or x_zero.ndim == 0
    alone = groups == x.shape[1] == w.shape[0]
    if filters is not None and rank == 2 and one_zero and _is_bytes(x) and (groups == 1 or alone):
        attrs = {"strides": strides, "padding": padding, "dilation": dilations, "groups": groups}
        return _convolution_of_bytes(n, x, x_zero, filters if groups == 1 else filters.joined(), attrs)
    shifted = [_shifted(n, x, x_zero, columns=True), _shifted(n, w, w_zero, columns=True)]
    total: Operand = n.op(
        f"nn.conv{rank}d", *shifted, strides=strides, padding=padding, dilation=dilations, groups=groups,
        out_dtype="int32",
    )  # fmt: skip
    return total


def _convolution_of_bytes(
    n: NodeContext, x: Operand, zero: Operand | None, filters: _Bytes, attrs: dict[str, Any]
) -> Operand:
    """Return the convolution with constant filters.

    A computed zero point pads the image, and its contribution to each sum is subtracted afterwards. An offset of the
    filters is multiplied by the sums of the windows.
    """
    known = 0 if zero is None else None if zero.data is None else int(zero.data)
    if zero is not None and known is None:
        before, after = paddings(attrs["padding"], 2)
        if any((*before, *after)):
            widths = ((0, 0), (0, 0), *zip(before, after, strict=True))
            x, attrs = n.op("nn.pad", x, zero, pad_width=widths), {**attrs, "padding": 0}
    total: Operand = n.op("qnn.conv2d", x, filters.stored, zero_point=known or 0, **attrs)
    if filters.offset is not None:
        depth, *kernel = filters.stored.shape[1:]
        windows = sums_of_windows(n.op, x, known or 0, depth, kernel, attrs)
        total = n.op("add", total, n.op("multiply", windows, filters.offset.reshape(1, -1, 1, 1)))
    if zero is not None and known is None:
        sums = filters.sums(axis=(1, 2, 3)).reshape(1, -1, 1, 1)
        total = n.op("subtract", total, n.op("multiply", n.cast(zero, "int32"), sums))
    return total


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
