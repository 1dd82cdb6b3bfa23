"""Convert TVM's asynchronous byte copies, and the calls that commit and wait for them, to statements of minitvm."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..expr import Call, DType, Expr, IntImm, Node, Var, const
from .nodes import Async, Buffer, BufferData, BufferLoad, BufferStore, Evaluate, For, ForKind, Stmt
from .strides import row_major

SIZES = (4, 8, 16)  # bytes that one copy moves
COMMIT, WAIT = "ptx_commit_group", "ptx_wait_group"


def commit_group() -> Stmt:
    """Return a statement that groups all copies that the thread has started since its last group."""
    return Evaluate(Call(DType("int32"), COMMIT, ()))


def wait_group(pending: int) -> Stmt:
    """Return a statement that waits until at most the `pending` newest groups of the thread are still in progress."""
    return Evaluate(Call(DType("int32"), WAIT, (const(pending),)))


def is_wait(node: Node) -> bool:
    """Return whether a statement waits for groups of copies."""
    return isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op == WAIT


def copy_of_bytes(dtype: DType, to: Any, to_offset: Expr, source: Any, source_offset: Expr, nbytes: int) -> Stmt:
    """Return the statement for `T.ptx_cp_async`: a vectorised loop that copies `nbytes` bytes element by element.

    Raises `InputError` for other sizes and dtypes, and for buffers whose storage is not dense.
    """
    if nbytes not in SIZES:
        raise InputError(f"T.ptx_cp_async copies {', '.join(map(str, SIZES))} bytes, found {nbytes}")
    one, other = _dense(to, dtype), _dense(source, dtype)
    lanes = nbytes // dtype.bytes
    if lanes == 1:
        return Async(
            BufferStore(one, BufferLoad(other, _unravelled(other, source_offset)), _unravelled(one, to_offset))
        )
    lane = Var("lane", to_offset.dtype)
    read = BufferLoad(other, _unravelled(other, source_offset + lane.astype(source_offset.dtype)))
    copy = Async(BufferStore(one, read, _unravelled(one, to_offset + lane)))
    return For(lane, const(0, lane.dtype), const(lanes, lane.dtype), ForKind.VECTORIZED, copy)


def _dense(address: Any, dtype: DType) -> Buffer:
    if not isinstance(address, BufferData):
        raise InputError(f"T.ptx_cp_async takes the data of a buffer, found {address}\n  try:    A.data")
    buffer = address.buffer
    if buffer.dtype != dtype:
        raise InputError(f"T.ptx_cp_async of {dtype}: {buffer.name} holds {buffer.dtype}")
    if buffer.strides or not isinstance(buffer.elem_offset, IntImm) or buffer.elem_offset.value:
        raise InputError(f"T.ptx_cp_async counts elements of dense storage; {buffer.name} has strides or an offset")
    return buffer


def _unravelled(buffer: Buffer, offset: Expr) -> tuple[Expr, ...]:
    """Convert an element's offset in dense storage to its indices."""
    if buffer.ndim == 1:
        return (offset,)
    indices, rest = [], offset
    for stride in row_major(buffer.shape):
        step = stride.astype(offset.dtype)
        indices.append(rest // step)
        rest = rest % step
    return tuple(indices)
