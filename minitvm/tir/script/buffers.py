"""Buffers in TVMScript: `T.Buffer`, `T.alloc_buffer`, `T.decl_buffer`, `T.match_buffer`, `T.allocate_const`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError, TypeMismatch, nearest
from ...expr import DType, Expr, Range, Var, as_expr, const
from ...expr.conditions import is_const
from ..annotations import COMMON_SCOPES, SCOPES, is_scope
from ..nodes import Buffer as BufferNode
from ..nodes import BufferData, BufferLoad, BufferRegion
from ..strides import row_major_text, why_not_strides
from .descriptions import AllocSpec, BufferSpec, ConstSpec, DeclSpec, MatchSpec, TypeName, UnmatchedHandle


def _describe(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    device: str = "cpu",
) -> BufferSpec:
    del buffer_type  # TVM's option for broadcasting buffers, which do not exist here
    scope = scope or "global"  # as TVM reads scope=""
    if not is_scope(scope):
        hint = nearest(scope, SCOPES) if isinstance(scope, str) else f"one of {COMMON_SCOPES}"
        raise InputError(f"no scope of storage is called {scope!r}\n  try:    {hint}")
    fields: dict[str, Any] = {
        "dtype": DType(dtype.dtype if isinstance(dtype, TypeName) else dtype), "scope": scope, "device": device
    }  # fmt: skip
    if strides:
        fields["strides"] = tuple(map(_stride, strides))
    if elem_offset is not None:
        fields["elem_offset"] = as_expr(elem_offset)
    if align > 0:
        fields["align"] = align
    if axis_separators:
        fields["axis_separators"] = tuple(int(a) for a in axis_separators)
    dimensions = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if strides:
        _check_strides(dimensions, fields["strides"], fields.get("elem_offset", const(0)))
    return BufferSpec(dimensions, fields, int(offset_factor or 0), _storage(data))


def _stride(stride: Any) -> Any:
    """Convert a stride to an expression. A string becomes a variable; its value is the stride of the caller's array."""
    return Var(stride) if isinstance(stride, str) else as_expr(stride)


def _storage(data: Any) -> Any:
    """Return the object that `data=` refers to: a handle of the signature, or the buffer of an address. Raises
    `InputError` for anything else.
    """
    if data is None or isinstance(data, UnmatchedHandle | BufferNode):
        return data
    if isinstance(data, BufferData):
        return data.buffer
    raise InputError(f"data={data!r} is no storage of this function\n  wanted: a parameter T.handle, or A.data")


def _check_strides(shape: Sequence[Any], strides: Sequence[Expr], offset: Expr) -> None:
    dims = tuple(as_expr(d) for d in shape)
    wrong = why_not_strides(dims, strides, offset)
    if wrong:
        raise InputError(
            f"{wrong}\n"
            "  wanted: a stride for each dimension, with which every element has a place of its own\n"
            f"  found:  shape ({', '.join(map(str, dims))}), strides ({', '.join(map(str, strides))})\n"
            f"  try:    {row_major_text(dims)}"
        )


class _BufferMaker:
    """`T.Buffer((m, n), "float32")`, or `T.Buffer[(m, n), "float32"]` as it was written in 2022."""

    def __call__(self, shape: Any, dtype: Any = "float32", *args: Any, **more: Any) -> BufferSpec:
        return _describe(shape, dtype, *args, **more)

    def __getitem__(self, key: Any) -> BufferSpec:
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str):
            return _describe(key[0], key[1])
        return _describe(key)


Buffer = _BufferMaker()


def alloc_buffer(shape: Any, dtype: Any = "float32", *args: Any, **more: Any) -> AllocSpec:
    """Describe a buffer that the enclosing block allocates (`sblock_alloc_buffer` since v0.24)."""
    return AllocSpec(_describe(shape, dtype, *args, **more))


def decl_buffer(
    shape: Any, dtype: Any = "float32", *args: Any, annotations: Any = None, **more: Any
) -> DeclSpec | MatchSpec | BufferSpec:
    """Describe storage for the following statements (kernel level) or, with `data=`, the buffer at that address."""
    spec = _describe(shape, dtype, *args, **more)
    if isinstance(spec.data, UnmatchedHandle):
        return MatchSpec(spec.data, spec)
    return DeclSpec(spec, annotations or {}) if spec.data is None else spec


def allocate(
    shape: Any, dtype: Any = "float32", scope: str = "global", condition: Any = True, annotations: Any = None
) -> DeclSpec:
    """Like `decl_buffer`, in TVM's older notation."""
    if isinstance(condition, dict):
        condition, annotations = True, condition
    if condition is not True and not is_const(as_expr(condition), 1):
        raise InputError(f"T.allocate under a condition, found {condition}\n  try:    the allocation without it")
    return DeclSpec(_describe(shape, dtype, scope=scope), annotations or {})


_MOST_CONSTANTS = 4096


def allocate_const(data: Any, dtype: str, extents: Sequence[Any], annotations: Any = None) -> ConstSpec:
    """`B = T.allocate_const([1, 2, 3], "int32", [3])`: defines a buffer of constants.

    The parser turns it into a buffer that is filled by a block of the same name. Raises `InputError` if data and
    extents do not fit together, and for more than 4096 elements; pass larger constants as parameters.
    """
    del annotations
    spec = _describe(list(extents), dtype)
    shape = tuple(int(d) for d in extents)
    try:
        values = np.asarray(getattr(data, "numpy", lambda: data)())
    except ValueError as problem:
        raise InputError(f"T.allocate_const: {problem}") from None
    if values.size != np.prod(shape, dtype=np.int64):
        raise InputError(f"T.allocate_const: {values.size} values for the extents {list(shape)}")
    if values.size > _MOST_CONSTANTS:
        raise InputError(f"T.allocate_const of {values.size} values: at most {_MOST_CONSTANTS}\n  try:    a parameter")
    return ConstSpec(spec, values.reshape(shape))


def match_buffer(source: Any, shape: Any = None, dtype: Any = "float32", *args: Any, **more: Any) -> MatchSpec:
    """Describe the buffer of a parameter (if `source` is a handle) or a view of a region of a buffer (if `source` is a
    region).

    If no shape is given, the view has the shape of the region.
    """
    if shape is None:
        if isinstance(source, UnmatchedHandle):
            raise InputError("T.match_buffer of a handle needs a shape")
        shape = tuple(r.extent for r in as_region(source).region)
    return MatchSpec(source, _describe(shape, dtype, *args, **more))


def as_region(item: Any) -> BufferRegion:
    """Convert `A[i, 0:4]`, `A[i, j]` or `A` to a region; raise `TypeMismatch` for anything else."""
    if isinstance(item, BufferRegion):
        return item
    if isinstance(item, BufferLoad):
        return BufferRegion(item.buffer, tuple(Range(i, const(1, i.dtype)) for i in item.indices))
    if isinstance(item, BufferNode):
        return item.full_region()
    raise TypeMismatch(f"{item!r} is not a region of a buffer")


__all__ = ["Buffer", "alloc_buffer", "allocate", "allocate_const", "decl_buffer", "match_buffer"]
