"""Handle indices given by a tensor: widen their dtype, count negative ones from the end, and clamp them to the axis.

The wider dtype must hold both the indices and the extent. Otherwise the arithmetic would wrap, for example with int8
indices into an axis of 129 elements.
"""

from __future__ import annotations

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import DType, Expr, IntImm, as_expr, const
from ..te import Tensor
from .shapes import Dim


def check_index(op: str, indices: Tensor) -> None:
    """Raise `TypeMismatch` unless the indices are integers."""
    if not indices.dtype.is_int:
        raise TypeMismatch(f"{op}: indices are integers, found {indices}")


def widened(index: Expr, extent: Dim) -> Expr:
    """Return the index in int32 or int64, whichever also holds the extent. An index that is too large is clamped."""
    if index.dtype == "uint64":  # every extent fits into int64
        return te.minimum(index, const((1 << 63) - 1, "uint64")).astype("int64")
    needed = max(index.dtype.bits * (2 if index.dtype.kind == "uint" else 1), as_expr(extent).dtype.bits)
    return index.astype("int32" if needed <= 32 else "int64")


def from_front(index: Expr, extent: Dim) -> Expr:
    """Return a nonnegative index in a dtype that holds the extent. A negative index counts from the end."""
    wide = widened(index, extent)
    if index.dtype.kind == "uint":
        return wide
    return te.select(wide < const(0, wide.dtype), wide + as_expr(extent).astype(wide.dtype), wide)


def clamped(index: Expr, extent: Dim) -> Expr:
    """Return the index clamped to an axis of extent `extent`. A negative index counts from the end."""
    return nearest(from_front(index, extent), extent)


def nearest(place: Expr, extent: Dim) -> Expr:
    """Clamp the index `place` to an axis: a negative index becomes 0, and an index beyond the end becomes the last
    index.
    """
    end = as_expr(extent)
    wide = place.astype("int64") if end.dtype.bits > place.dtype.bits else place
    return te.maximum(te.minimum(wide, end.astype(wide.dtype) - 1), const(0, wide.dtype))


def check_counts(op: str, dtype: str, extent: Dim) -> None:
    """Raise `InputError` unless `dtype` can hold every index of an axis, or every int32 index if the axis is
    symbolic.
    """
    kind = DType(dtype)
    size = as_expr(extent)
    last = size.value - 1 if isinstance(size, IntImm) else 2**31 - 1
    if not kind.is_int or kind.max < last:
        raise InputError(
            f"{op}: indices of dtype {dtype} do not reach along an axis of {extent}\n"
            f"  wanted: a dtype that holds the index of every element\n"
            f"  try:    dtype='int64'"
        )
