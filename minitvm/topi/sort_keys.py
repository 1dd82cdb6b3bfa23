"""Sort keys: integers in the same order as the elements, so that sorts compare only integers, whatever the dtype of the
elements.

Equal elements have equal keys, for example 0.0 and -0.0, and all NaN. NaN has the largest key. For a descending order
each key is replaced by its complement.
"""

from __future__ import annotations

from .. import te, tir
from ..expr import DType, Expr, as_expr, const
from .indices import nearest
from .shapes import Dim

_INFINITY = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}  # bits of infinity; those of NaN are greater


def key_dtype(dtype: str) -> str:
    """Return the dtype of sort keys: int64 for elements of 64 bits, and int32 for all others."""
    return "int64" if DType(dtype).bits == 64 else "int32"


def key_of(value: Expr, ascending: bool) -> Expr:
    """Return a sort key as a signed integer. Earlier elements have smaller keys, and equal elements have equal keys."""
    kind = key_dtype(value.dtype)
    if value.dtype.is_float:
        key = _key_of_float(value if kind == "int64" else value.astype("float32"), kind)
    elif value.dtype.kind == "uint" and value.dtype.bits == DType(kind).bits:
        key = tir.reinterpret(kind, value) ^ tir.min_value(kind)
    else:
        key = value.astype(kind)
    return key if ascending else ~key


def _key_of_float(value: Expr, kind: str) -> Expr:
    """Return the sort key of a float.

    The bits of positive floats are in the same order as the floats, and the bits of negative floats are in reverse
    order.
    """
    bits = tir.reinterpret(kind, value)
    magnitude = bits & const(DType(kind).max, kind)
    key = te.select(bits < const(0, kind), -magnitude, bits)
    return te.select(magnitude > const(_INFINITY[str(value.dtype)], kind), tir.max_value(kind), key)


def key_bits(dtype: str) -> int:
    """Return how many of the low bits of `unsigned_key` decide the order."""
    kind = DType(dtype)
    return kind.bits if kind.is_int and kind.bits <= 16 else DType(key_dtype(dtype)).bits


def unsigned_key(value: Expr, ascending: bool) -> Expr:
    """Return a sort key. Its lowest `key_bits` bits, read as an unsigned number, are in the same order as the
    elements.
    """
    kind = key_dtype(value.dtype)
    if key_bits(value.dtype) < DType(kind).bits:
        key = value.astype(kind) - const(value.dtype.min, kind)
        return key if ascending else ~key
    return key_of(value, ascending) ^ tir.min_value(kind)


def placed_key(value: Expr, place: Expr, ascending: bool) -> Expr:
    """Pack a sort key and a position into one int64, for elements of up to 32 bits.

    All packed keys differ, and equal elements keep their order.
    """
    return (key_of(value, ascending).astype("int64") << 32) | as_expr(place).astype("int64")


def place_in(placed: Expr, extent: Dim) -> Expr:
    """Return the position in a `placed_key`, as an index of one of `extent` elements."""
    return nearest(placed & const(0xFFFFFFFF, "int64"), extent)
