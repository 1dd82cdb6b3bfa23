"""Convert ONNX Runtime's operators on quantised tensors (domain com.microsoft).

QLinearX applies X to dequantised inputs and quantises the result; products stay integers. As specified in
`ContribOperators.md` of ONNX Runtime, each quantised tensor is followed by its scale and its zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....topi.shapes import axis_of
from ...common.byte_products import integer_product
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .quantization import flat, requantized

DOMAIN = "com.microsoft"


def _dequantized(n: NodeContext, x: Operand, scale: Operand, zero: Operand | None) -> Operand:
    """Return a tensor with one scale as floats."""
    parameters = [n.one(p, "a scale or zero point") for p in (scale, zero) if p is not None]
    result: Operand = n.op("qnn.dequantize", x, *parameters, axis=0, out_dtype="float32")
    return result


def _quantized(n: NodeContext, x: Operand, scale: Operand, zero: Operand | None, like: Operand) -> Operand:
    """Return floats quantised to the dtype of the zero point, or to that of `like`."""
    parameters = [n.one(p, "a scale or zero point") for p in (scale, zero) if p is not None]
    dtype = like.dtype if zero is None else zero.dtype
    result: Operand = n.op("qnn.quantize", x, *parameters, axis=0, out_dtype=str(dtype))
    return result


def _input(n: NodeContext, position: int) -> Operand:
    """Return the input at a position, dequantised by the scale and the zero point that follow it."""
    return _dequantized(n, n[position], n[position + 1], n.optional(position + 2))


def _result(n: NodeContext, value: Operand, position: int, like: Operand) -> Operand:
    """Return the result, quantised by the scale at a position and the zero point that follows it."""
    return _quantized(n, value, n[position], n.optional(position + 1), like)


@converter("QLinearAdd", domain=DOMAIN)
@converter("QLinearMul", domain=DOMAIN)
def binary(n: NodeContext) -> Any:
    name = n.proto.op_type.removeprefix("QLinear")
    return _result(n, n.converted_as(name, _input(n, 0), _input(n, 3)), 6, n[0])


@converter("QLinearLeakyRelu", domain=DOMAIN)
@converter("QLinearSigmoid", domain=DOMAIN)
@converter("QLinearReduceMean", domain=DOMAIN)
def unary(n: NodeContext) -> Any:
    name = n.proto.op_type.removeprefix("QLinear")
    return _result(n, n.converted_as(name, _input(n, 0)), 3, n[0])


@converter("QLinearSoftmax", domain=DOMAIN)
def softmax(n: NodeContext) -> Any:
    """Return the softmax of the given `opset`: along one axis since 13, and before that over all axes from `axis`
    on.
    """
    opset, axis = n.attr("opset"), n.attr("axis", -1)
    x = _input(n, 0)
    if opset < 13 and axis_of(axis, x.ndim) != x.ndim - 1:
        n.refuse(f"a softmax of opset {opset} over several axes is not supported")
    return _result(n, n.op("nn.softmax", x, axis=axis), 3, n[0])


@converter("QLinearGlobalAveragePool", domain=DOMAIN)
@converter("QLinearAveragePool", domain=DOMAIN)
def pool(n: NodeContext) -> Any:
    last = bool(n.attr("channels_last", 0))
    x = _input(n, 0)
    order = (0, x.ndim - 1, *range(1, x.ndim - 1))
    value = n.converted_as(n.proto.op_type.removeprefix("QLinear"), n.op("transpose", x, axes=order) if last else x)
    value = n.op("transpose", value, axes=(0, *range(2, x.ndim), 1)) if last else value
    return _result(n, value, 3, n[0])


@converter("QLinearConcat", domain=DOMAIN)
def concat(n: NodeContext) -> Any:
    parts = [_input(n, k) for k in range(2, len(n.inputs), 3)]
    return _result(n, n.converted_as("Concat", *parts), 0, n[2])


@converter("QLinearWhere", domain=DOMAIN)
def where(n: NodeContext) -> Any:
    return _result(n, n.converted_as("Where", n[0], _input(n, 1), _input(n, 4)), 7, n[1])


@converter("QGemm", domain=DOMAIN)
def gemm(n: NodeContext) -> Any:
    """Return alpha * A' B' + C in integers, quantised if the result has a scale."""
    a, b = (_transposed(n, n[0], "transA"), _transposed(n, n[3], "transB"))
    total = integer_product(n, a, flat(n, n[2]), b, flat(n, n[5]))
    bias = n.optional(6)
    total = total if bias is None else n.onto("add", total, bias)
    scale = n.op("multiply", flat(n, n[1]), flat(n, n[4]))
    alpha = n.attr("alpha", 1.0)
    scale = scale if alpha == 1 else n.op("multiply", scale, alpha)
    if n.optional(7) is None:
        return n.onto("multiply", n.cast(total, "float32"), scale)
    return requantized(n, total, n.op("divide", scale, flat(n, n[7])), flat(n, n[8]))


def _transposed(n: NodeContext, x: Operand, attribute: str) -> Operand:
    if x.ndim != 2:
        n.refuse(f"A and B have two dimensions, found {x}")
    return n.op("transpose", x, axes=(1, 0)) if n.attr(attribute, 0) else x


@converter("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(n: NodeContext) -> Any:
    a_zero, b_zero, bias = (n.optional(k) for k in (4, 5, 6))
    zeros = [None if zero is None else flat(n, zero) for zero in (a_zero, b_zero)]
    return _to_float(n, integer_product(n, n[0], zeros[0], n[1], zeros[1]), (n[2], n[3]), bias)


@converter("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(n: NodeContext) -> Any:
    a, scale, zero = n.converted_as("DynamicQuantizeLinear", n[0])
    b_zero = n.optional(3)
    total = integer_product(n, a, zero, n[1], None if b_zero is None else flat(n, b_zero))
    return _to_float(n, total, (scale, n[2]), n.optional(4))


def _to_float(n: NodeContext, total: Operand, scales: Sequence[Operand], bias: Operand | None) -> Operand:
    scale = n.op("multiply", flat(n, scales[0]), flat(n, scales[1]))
    value = n.onto("multiply", n.cast(total, "float32"), scale)
    return value if bias is None else n.onto("add", value, bias)
