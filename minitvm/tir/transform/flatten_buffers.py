"""Make buffers one-dimensional: strides and element offsets turn into index arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import Unsupported
from ...expr import Add, Broadcast, DType, Expr, IntImm, Mul, Ramp, Var, const, map_children, replace
from ...expr.visitor import accessed
from ..conditions import is_const
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, PrimFunc
from ..strides import product_of, row_major
from .affine import expr, linear


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Flatten buffers: `A[i, j]` of shape (m, n) -> `A[i*n + j]` of shape (m*n,), and `A[i, ramp(j, 1, 4)]` ->
    `A[ramp(i*n + j, 1, 4)]`.

    before:
        for i, j in T.grid(4, 8):
            B[j, i] = A[i, j]
    after:
        for i, j in T.grid(4, 8):
            B[j * 4 + i] = A[i * 8 + j]
    """
    flat: dict[Buffer, Buffer] = {}

    def flat_buffer(buffer: Buffer) -> Buffer:
        if buffer not in flat:
            if any(0 < axis < buffer.ndim for axis in buffer.axis_separators):
                raise Unsupported(
                    f"{buffer.name} has axis separators {list(buffer.axis_separators)}: memory of several dimensions\n"
                    "  wanted: a buffer for memory of one dimension, which is all that this target has\n"
                    "  try:    set_axis_separators(block, buffer, [])"
                )
            flat[buffer] = _flat_buffer(buffer)
        return flat[buffer]

    def go(node: Any) -> Any:
        if isinstance(node, Expr) and not accessed(node):
            return node
        new = map_children(node, go)
        if isinstance(new, BufferLoad):
            return BufferLoad(flat_buffer(new.buffer), (flat_index(new.buffer, new.indices),), new.predicate)
        if isinstance(new, BufferStore):
            return BufferStore(
                flat_buffer(new.buffer), new.value, (flat_index(new.buffer, new.indices),), new.predicate
            )
        if isinstance(new, Allocate):
            return replace(new, buffer=flat_buffer(new.buffer))
        return new

    params = tuple(flat_buffer(p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, go(func.body), func.attrs)


def flat_index(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Return the offset of an element from the start of the buffer's data, in elements.

    Vector indices give a vector of offsets, and ramps give a ramp.
    """
    # Legal: row-major strides, or those that a buffer declares, give each element its own place. All accesses of a
    # buffer use this one map, so two accesses touch the same element afterwards exactly if they did before.
    strides = list(buffer.strides) or row_major(buffer.shape)
    wide = any(e.dtype.scalar == "int64" for e in (*indices, *strides)) or _needs_int64(buffer)
    dtype = DType("int64" if wide else "int32")
    vectors = [(i, s) for i, s in zip(indices, strides, strict=True) if i.dtype.lanes > 1]
    ramps = all(isinstance(index, Ramp) for index, _ in vectors)
    bases = [_first(index, ramps) for index in indices]
    first = _scalar_index(buffer, bases, strides, dtype)
    if not vectors:
        return first
    lanes = vectors[0][0].dtype.lanes
    if ramps:
        steps = [i.stride.astype(dtype) * s.astype(dtype) for i, s in vectors]  # type: ignore[attr-defined]
        return Ramp(first, expr(linear(sum(steps[1:], steps[0])), dtype), lanes)
    offsets: Expr = Broadcast(first, lanes)
    for index, stride in vectors:
        offsets = Add(offsets, Mul(index.astype(dtype.with_lanes(lanes)), Broadcast(stride.astype(dtype), lanes)))
    return offsets


def _first(index: Expr, ramps: bool) -> Expr:
    """Return the part of an index that all lanes share: the base of a ramp if `ramps` is set, and 0 for any other
    vector.
    """
    if index.dtype.lanes == 1:
        return index
    return index.base if ramps and isinstance(index, Ramp) else const(0, index.dtype.scalar)


def _scalar_index(buffer: Buffer, indices: Sequence[Expr], strides: Sequence[Expr], dtype: DType) -> Expr:
    total: Expr | None = None if is_const(buffer.elem_offset, 0) else buffer.elem_offset.astype(dtype)
    for index, stride in zip(indices, strides, strict=True):
        step = index.astype(dtype) if is_const(stride, 1) else index.astype(dtype) * stride.astype(dtype)
        total = step if total is None else total + step
    return const(0, dtype) if total is None else expr(linear(total), dtype)


def _needs_int64(buffer: Buffer) -> bool:
    size = _size(buffer)
    return isinstance(size, IntImm) and size.value > 2**31 - 1


def _size(buffer: Buffer) -> Expr:
    if not buffer.strides:
        count = product_of(buffer.shape)
        offset = buffer.elem_offset
        return count if is_const(offset, 0) else offset.astype(count.dtype) + count
    # One past the greatest offset; a free stride variable makes this symbolic.
    last: Expr = buffer.elem_offset + 1
    for dim, stride in zip(buffer.shape, buffer.strides, strict=True):
        backwards = isinstance(stride, IntImm) and stride.value < 0  # the offset leaves room for it
        # A symbolic dimension may be 0, and a size must not be negative. So such a dimension gets room for one more
        # step.
        steps = dim - 1 if isinstance(dim, IntImm) else dim
        last = last if backwards else last + steps * stride
    return expr(linear(last), last.dtype)


def _flat_buffer(buffer: Buffer) -> Buffer:
    if (
        buffer.ndim == 1
        and not buffer.strides
        and isinstance(buffer.elem_offset, IntImm)
        and not buffer.elem_offset.value
    ):
        return buffer
    return replace(buffer, shape=(_size(buffer),), strides=(), elem_offset=IntImm(0), axis_separators=())


def symbolic_dimensions(params: Iterable[Buffer | Var]) -> list[Var]:
    """Return the free variables in the shapes of the parameters, in order of first use."""
    from ...expr import free_vars

    dims: dict[Var, None] = {}
    for param in params:
        for var in free_vars(param) if isinstance(param, Buffer) else ():
            dims.setdefault(var)
    return list(dims)
