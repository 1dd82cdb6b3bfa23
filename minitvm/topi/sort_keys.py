"""Keys: integers in the order of elements, so that sorts compare integers, whatever is sorted.

Elements that are equal have equal keys: 0.0 and -0.0, all NaN. NaN has the greatest key. For a descending order each
key is replaced by its complement.
"""

from __future__ import annotations

from .. import te, tir
from ..expr import DType, Expr, as_expr, const
from .indices import nearest
from .shapes import Dim

_INFINITY = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}  # bits of infinity; those of NaN are greater


def key_dtype(dtype: str) -> str:
    """The dtype of keys: int64 for elements of 64 bits, else int32."""
    return "int64" if DType(dtype).bits == 64 else "int32"


def key_of(value: Expr, ascending: bool) -> Expr:
    """A signed integer: smaller for elements that come earlier, equal for equal ones."""
    kind = key_dtype(value.dtype)
    if value.dtype.is_float:
        key = _key_of_float(value if kind == "int64" else value.astype("float32"), kind)
    elif value.dtype.kind == "uint" and value.dtype.bits == DType(kind).bits:
        key = tir.reinterpret(kind, value) ^ tir.min_value(kind)
    else:
        key = value.astype(kind)
    return key if ascending else ~key


def _key_of_float(value: Expr, kind: str) -> Expr:
    """Bits of positive floats are in the floats' order; those of negative floats, without the sign, in reverse."""
    bits = tir.reinterpret(kind, value)
    magnitude = bits & const(DType(kind).max, kind)
    key = te.select(bits < const(0, kind), -magnitude, bits)
    return te.select(magnitude > const(_INFINITY[str(value.dtype)], kind), tir.max_value(kind), key)


def key_bits(dtype: str) -> int:
    """How many low bits of `unsigned_key` decide."""
    kind = DType(dtype)
    return kind.bits if kind.is_int and kind.bits <= 16 else DType(key_dtype(dtype)).bits


def unsigned_key(value: Expr, ascending: bool) -> Expr:
    """Return a sort key: its lowest `key_bits` bits, read as an unsigned number, have the order of the elements."""
    kind = key_dtype(value.dtype)
    if key_bits(value.dtype) < DType(kind).bits:
        key = value.astype(kind) - const(value.dtype.min, kind)
        return key if ascending else ~key
    return key_of(value, ascending) ^ tir.min_value(kind)


def placed_key(value: Expr, place: Expr, ascending: bool) -> Expr:
    """Key and place in one int64, for elements of up to 32 bits: no two are equal, and equal elements are in order."""
    return (key_of(value, ascending).astype("int64") << 32) | as_expr(place).astype("int64")


def place_in(placed: Expr, extent: Dim) -> Expr:
    """The place that a `placed_key` holds: one of `extent` elements."""
    return nearest(placed & const(0xFFFFFFFF, "int64"), extent)
