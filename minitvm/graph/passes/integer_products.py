"""Compute products of dequantised tensors in integers.

    conv2d((x - z) * s, w * t)  ->  qnn.conv2d(x, w, zero_point=z) * (s * t)

A sum of products of bytes in int32 is exact if the weights are so small that it cannot overflow, which is checked
first. On many machines it is several times as fast as the sum in floats. The operators after it are element-wise and
fuse with the product. If the result is quantised again, the values between layers are bytes (`divided_scales`). The
weights minus their zero point are int8, or int8 plus an offset c, which is multiplied by the sums of windows:

    sum((x - z) * (w + c))  =  sum((x - z) * w) + c * sum(x - z)

This follows TVM's `FakeQuantizationToInteger` and ONNX Runtime's QDQ transformations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..byte_windows import sums_of_rows, sums_of_windows
from ..nodes import Graph, OpNode, Value
from ..pattern import Match, constant, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite

_LARGEST = 2**31 - 1  # the largest sum in int32


def integer_products(graph: Graph) -> Graph:
    """Use `qnn.conv2d` and `qnn.dense` for products of two dequantised bytes, the second of which is constant.

    before:
        x = b.input("x", (2, 8), "uint8")
        w = b.constant(np.ones((4, 8), "int8"))
        y = b.op("qnn.dequantize", x, np.float32(0.5), np.uint8(3))
        v = b.op("qnn.dequantize", w, np.float32(0.25), np.int8(0))
        return b.op("nn.dense", y, v)
    after:
        def main(x: uint8[2, 8]):
            dequantize_1_bytes = constant(int8[4, 8])
            scale = constant(float32[])  # 0.125
            dense: int32[2, 4] = qnn.dense(x, dequantize_1_bytes, zero_point=3)
            cast: float32[2, 4] = cast(dense, dtype='float32')
            dense_1: float32[2, 4] = multiply(cast, scale)
            return dense_1
    """
    return rewrite(graph, RULES)


# Both factors are dequantised. The parameters of the data are constants, and the weights are too.
PRODUCT = op(
    ("nn.conv2d", "nn.dense", "nn.matmul"),
    op("qnn.dequantize", value("bytes"), others=constant(), name="data"),
    op("qnn.dequantize", others=constant(), name="weight"),
)


def _in_integers(b: Rewriter, match: Match) -> Value | None:
    item, product = match.root, bytes_product(match, offsets=True)
    if product is None:
        return None
    weight = b.constant(product.weight, f"{item.inputs[1].name}_bytes")
    total = b.op(product.op, product.data, weight, zero_point=product.zero_point, **product.attrs)
    if product.offset.any():
        _, depth, *kernel = product.weight.shape
        what = (b.op, product.data, product.zero_point, depth)
        sums = sums_of_windows(*what, kernel, product.attrs) if kernel else sums_of_rows(*what)
        total = b.op("add", total, b.op("multiply", sums, product.offset))
    scale = b.constant(product.scale.astype(np.float32), "scale")
    floats: Value = b.op("multiply", b.op("cast", total, dtype="float32"), scale, name=item.output.name)
    return floats


RULES = [RewriteRule(PRODUCT, _in_integers)]


_NO_OFFSET = np.zeros((), np.int32)


@dataclass(frozen=True, slots=True)
class BytesProduct:
    """A product `op` of the bytes `data` and constant bytes. Multiplying its result by `scale` gives the product of the
    floats.

    The weights are these bytes plus `offset`, which broadcasts to the result.
    """

    op: str
    data: Value
    zero_point: int
    weight: np.ndarray
    scale: np.ndarray
    attrs: dict[str, Any]
    offset: np.ndarray = field(default_factory=_NO_OFFSET.copy)


def bytes_product(match: Match, *, grouped: bool = False, offsets: bool = False) -> BytesProduct | None:
    """Return the product that a match of `PRODUCT` computes, or None if it is not a product of bytes.

    A convolution must have one group, or one for each channel; with `grouped` it may have any number. With `offsets`
    the weights may have any zero points, one for each column; the weights of a depthwise convolution are then int16.
    """
    item, arrays, data, weight = match.root, match.facts.arrays, match.node("data"), match.node("weight")
    if item.output.dtype != "float32" or item.attrs.get("transpose_a"):
        return None
    if data.inputs[0].dtype not in ("int8", "uint8"):
        return None
    scale, zero = _parameters(data, arrays)
    if scale.size != 1 or zero.size != 1:
        return None
    attrs = dict(item.attrs)
    attrs.pop("out_dtype", None)
    if item.op == "nn.conv2d":
        if attrs.pop("data_layout") != "NCHW" or attrs.pop("kernel_layout") != "OIHW":
            return None
        depthwise = attrs["groups"] == item.inputs[0].shape[1] == item.output.shape[1]
        if attrs["groups"] != 1 and not depthwise and not grouped:
            return None
        shifted, weight_scale, offset = _weight(weight, arrays, offsets)
        if attrs["groups"] != 1 and shifted is not None and offset.any():
            over = offset.reshape(-1, 1, 1, 1) if offset.size > 1 else offset
            shifted, offset = (shifted + over).astype(np.int16), _NO_OFFSET
        columns = _along(weight_scale, weight, 0)
        shape: tuple[int, ...] = (1, -1, 1, 1)
    else:
        turned = item.op == "nn.dense" or bool(attrs.pop("transpose_b"))
        attrs.pop("transpose_a", None)
        if item.inputs[0].ndim < 2:
            return None
        shifted, columns, offset = _columns(weight, arrays, turned, offsets) or (None, None, _NO_OFFSET)
        shape = (-1,)
    if shifted is None or columns is None:
        return None
    across = offset.reshape(-1, *[1] * (shifted.ndim - 1)) if offset.size > 1 else offset
    if _largest_sum(shifted + across, data.inputs[0].dtype, int(zero.reshape(()))) > _LARGEST:
        return None
    op = "qnn.conv2d" if item.op == "nn.conv2d" else "qnn.dense"
    factor = (columns.astype(np.float64) * float(scale.reshape(()))).reshape(shape if columns.size > 1 else ())
    offset = offset.reshape(shape) if offset.size > 1 else offset
    return BytesProduct(op, data.inputs[0], int(zero.reshape(())), shifted, factor, attrs, offset)


def _largest_sum(weight: np.ndarray, dtype: str, zero: int) -> int:
    """Return the largest magnitude of any sum of products with the filters or columns `weight`."""
    limits = np.iinfo(dtype)
    weights = np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1)
    return int(weights.max(initial=0)) * max(int(limits.max) - zero, zero - int(limits.min))


def _parameters(item: OpNode, arrays: Mapping[Value, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    scale, *zero = (arrays[v] for v in item.inputs[1:])
    return scale, zero[0] if zero else np.zeros((), np.int64)


def _weight(
    item: OpNode, arrays: Mapping[Value, np.ndarray], offsets: bool = False
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Return the weights minus their zero points as int8 (None if they do not fit), their scales, and an offset.

    With `offsets`, the weights are these int8 plus the offset, which is a scalar or has one element for each index
    along the axis.
    """
    stored, (scale, zero) = arrays[item.inputs[0]], _parameters(item, arrays)
    if stored.dtype not in (np.int8, np.uint8) or item.attrs["block_size"] or not stored.size:
        return None, scale, _NO_OFFSET
    axis = item.attrs["axis"] % max(stored.ndim, 1)
    along = [-1 if a == axis else 1 for a in range(stored.ndim)]
    points = zero.astype(np.int32).reshape(along if zero.size > 1 else ())
    shifted = stored.astype(np.int32) - points
    if shifted.min() >= -128 and shifted.max() <= 127:
        return shifted.astype(np.int8), scale, _NO_OFFSET
    if not offsets or (zero.size > 1 and zero.size != scale.size):
        return None, scale, _NO_OFFSET
    middle = 128 if stored.dtype == np.uint8 else 0
    return (
        (stored.astype(np.int32) - middle).astype(np.int8),
        scale,
        middle - points.reshape(-1 if zero.size > 1 else ()),
    )


def columns_of_bytes(
    item: OpNode, arrays: Mapping[Value, np.ndarray], *, turned: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a dequantised constant matrix as int8 [columns, depth], and its scales: one per column, or one for all.

    `turned` says that the matrix is stored as [columns, depth]. Returns None if the constant is not a matrix of bytes,
    if it is empty or quantised in blocks, if its elements minus their zero points do not fit in int8, or if there is
    neither one scale per column nor one for all.
    """
    found = _columns(item, arrays, turned)
    return None if found is None else found[:2]


def _columns(
    item: OpNode, arrays: Mapping[Value, np.ndarray], turned: bool, offsets: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    shifted, scale, offset = _weight(item, arrays, offsets)
    if shifted is None or shifted.ndim != 2:
        return None
    columns = _along(scale, item, 0 if turned else 1)
    if columns is None:
        return None
    return (shifted if turned else np.ascontiguousarray(shifted.T)), columns, offset


def _along(step: np.ndarray, weight: OpNode, axis: int) -> np.ndarray | None:
    """Return one scale per index along `axis`, or one for all, or None if the scales are along another axis."""
    if step.size == 1:
        return step.reshape(-1)
    return step if weight.attrs["axis"] % weight.inputs[0].ndim == axis else None
