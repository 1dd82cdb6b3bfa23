"""The addresses of buffers, in the form in which TVM programs pass them to foreign code."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..expr import Call, DType, Expr, IntImm, StringImm, as_expr, const
from ..expr.conditions import is_const
from .nodes import Buffer
from .strides import product_of

_ACCESS_MASKS = {"r": 1, "w": 2, "rw": 3, "wr": 3}  # TVM's numbers


def access_ptr(
    buffer: Buffer, access_mask: str | int, ptr_type: DType, content_lanes: int, offset: Expr, extent: Any
) -> Expr:
    """Return the call `tvm_access_ptr(type_annotation(dtype), data, start, extent, mask)`; see `Buffer.access_ptr`."""
    mask = _ACCESS_MASKS.get(access_mask, access_mask) if isinstance(access_mask, str) else access_mask
    if mask not in (1, 2, 3):
        raise InputError(f'access_ptr({access_mask!r}): wanted "r", "w" or "rw"')
    if extent is None:
        factors = (buffer.strides[0], buffer.shape[0]) if buffer.strides else buffer.shape
        extent = _difference(product_of(factors), offset)
    start = offset
    if not is_const(buffer.elem_offset, 0):
        start = buffer.elem_offset if is_const(offset, 0) else buffer.elem_offset + offset
    if content_lanes > 1:
        extent, start = as_expr(extent) // content_lanes, start // content_lanes
    element = Call(DType("handle"), "type_annotation", (StringImm(str(buffer.dtype.with_lanes(content_lanes))),))
    return Call(ptr_type, "tvm_access_ptr", (element, buffer.data, start, as_expr(extent), const(mask)))


def _difference(a: Expr, b: Expr) -> Expr:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const(a.value - b.value, a.dtype)
    return a if is_const(b, 0) else a - b
