"""Products and convolutions of quantised tensors, in integers: data and weights minus their zero points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.byte_windows import sums_of_rows, sums_of_windows
from ...topi.shapes import paddings
from .conversion import Conversion
from .operand import Operand


def _shifted(n: Conversion, x: Operand, zero: Operand | None, columns: bool = False) -> Operand:
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


def integer_product(n: Conversion, a: Operand, a_zero: Operand | None, b: Operand, b_zero: Operand | None) -> Operand:
    """Return the matrix product of two quantised tensors minus their zero points, summed in int32."""
    columns = Bytes.of(b, b_zero, column=1)
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


def _product_of_bytes(n: Conversion, a: Operand, zero: Operand | None, columns: Bytes) -> Operand:
    """Return the product with constant columns. The contribution of a computed zero point is subtracted afterwards."""
    zero_point = 0 if zero is None else None if zero.data is None else int(zero.data)
    total: Operand = n.op("qnn.dense", a, np.ascontiguousarray(columns.stored.T), zero_point=zero_point or 0)
    if columns.offset is not None:
        sums = sums_of_rows(n.op, a, zero_point or 0, columns.stored.shape[0])
        total = n.op("add", total, n.op("multiply", sums, columns.offset.reshape(-1)))
    if zero is not None and zero_point is None:
        total = n.op("subtract", total, n.op("multiply", n.cast(zero, "int32"), columns.sums(axis=0)))
    return total


def _is_bytes(x: Operand) -> bool:
    return x.dtype in ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Bytes:
    """Constant bytes minus their zero points: `stored` plus an `offset` (None: 0), which is one number, or one per
    column.
    """

    stored: np.ndarray
    offset: np.ndarray | None

    @staticmethod
    def of(x: Operand, zero: Operand | None, column: int) -> Bytes | None:
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
            return Bytes(shifted.astype(np.int8), None)
        middle = 128 if x.dtype == "uint8" else 0
        points = np.broadcast_to(point, np.broadcast_shapes(np.shape(point), (1,) * x.ndim))
        if any(extent != 1 for axis, extent in enumerate(points.shape) if axis != column):
            return None
        return Bytes((x.data.astype(np.int32) - middle).astype(np.int8), (middle - points).astype(np.int32))

    def joined(self) -> Bytes:
        """Return the same without an offset, as int16 if there was one."""
        if self.offset is None:
            return self
        return Bytes((self.stored + self.offset).astype(np.int16), None)

    def sums(self, axis: int | tuple[int, ...]) -> np.ndarray:
        """Return the sums along all axes except the columns, including the offset."""
        whole = self.stored.astype(np.int32) + (0 if self.offset is None else self.offset)
        return np.asarray(whole.sum(axis=axis, dtype=np.int32))


def integer_convolution(
    n: Conversion, x: Operand, x_zero: Operand | None, w: Operand, w_zero: Operand | None, attrs: dict[str, Any]
) -> Operand:
    """Return the convolution of quantised data and filters minus their zero points, in int32. Padding is the zero
    point.

    The data have one zero point. The filters have one in all, or one per filter, as [o, 1, ...]. `attrs` holds strides,
    padding, dilation and groups.
    """
    filters, groups = Bytes.of(w, w_zero, column=0), attrs["groups"]
    one_zero = x_zero is None or x_zero.ndim == 0
    alone = groups == x.shape[1] == w.shape[0]
    if filters is not None and x.ndim == 4 and one_zero and _is_bytes(x) and (groups == 1 or alone):
        return _convolution_of_bytes(n, x, x_zero, filters if groups == 1 else filters.joined(), attrs)
    factors = [_shifted(n, x, x_zero, columns=True), _shifted(n, w, w_zero, columns=True)]
    total: Operand = n.op(f"nn.conv{x.ndim - 2}d", *factors, **attrs, out_dtype="int32")
    return total


def _convolution_of_bytes(
    n: Conversion, x: Operand, zero: Operand | None, filters: Bytes, attrs: dict[str, Any]
) -> Operand:
    """Return the convolution with constant filters.

    A computed zero point pads the image, and its contribution to each sum is subtracted afterwards. An offset of the
    filters is multiplied by the sums of the windows.
    """
    zero_point = 0 if zero is None else None if zero.data is None else int(zero.data)
    if zero is not None and zero_point is None:
        before, after = paddings(attrs["padding"], 2)
        if any((*before, *after)):
            widths = ((0, 0), (0, 0), *zip(before, after, strict=True))
            x, attrs = n.op("nn.pad", x, zero, pad_width=widths), {**attrs, "padding": 0}
    total: Operand = n.op("qnn.conv2d", x, filters.stored, zero_point=zero_point or 0, **attrs)
    if filters.offset is not None:
        depth, *kernel = filters.stored.shape[1:]
        windows = sums_of_windows(n.op, x, zero_point or 0, depth, kernel, attrs)
        total = n.op("add", total, n.op("multiply", windows, filters.offset.reshape(1, -1, 1, 1)))
    if zero is not None and zero_point is None:
        sums = filters.sums(axis=(1, 2, 3)).reshape(1, -1, 1, 1)
        total = n.op("subtract", total, n.op("multiply", n.cast(zero, "int32"), sums))
    return total
