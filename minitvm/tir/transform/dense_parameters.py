"""Make parameters dense arrays, because callers pass dense arrays even if the program declares strides."""

from __future__ import annotations

from typing import Any

from ...errors import VerificationError, report
from ...expr import Expr, IntImm, find, map_children, replace
from ..analysis.views import views, why_not_view
from ..nodes import Allocate, Block, Buffer, BufferLoad, BufferRegion, BufferStore, PrimFunc
from ..strides import row_major_text, why_not_strides


def dense_parameters(func: PrimFunc) -> PrimFunc:
    """Make parameters dense: `A: T.Buffer((4, 4), strides=[5, 1])` -> `A: T.Buffer((4, 4))`. An index still refers to
    the same element.

    before:
        A: T.Buffer((4, 8), "float32", strides=[16, 1])
        B: T.Buffer((4, 8), "float32")
        for i, j in T.grid(4, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    after:
        A: T.Buffer((4, 8), "float32")
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0

    Symbolic strides stay, because a view may be declared with them. Raises `VerificationError` if the strides map
    two elements of a buffer to the same location, or if a view does not fit the layout of its source.
    """
    for match, source in views(func):
        wrong = why_not_view(match, source)
        if wrong:
            raise VerificationError(
                report(
                    f"{func.name}: views_fit_their_source",
                    program=func.script(mark={match: wrong}),
                    wanted=f"the dimensions and strides that the region of {match.source.buffer.name} has",
                    found=wrong,
                    tries=("no strides: the view has those of its region",),
                )
            )
    if not any(buffer.strides or not _is_zero(buffer.elem_offset) for buffer in _buffers(func)):
        return func
    for buffer in _buffers(func):
        wrong = why_not_strides(buffer.shape, buffer.strides, buffer.elem_offset)
        if wrong:
            raise VerificationError(
                report(
                    f"{func.name}: strides_are_injective",
                    program=func.script(mark={buffer: wrong}),
                    wanted=f"a stride for each dimension of {buffer.name}, and a place of its own for each element",
                    found=wrong,
                    tries=(row_major_text(buffer.shape),),
                )
            )
    # Legal: accesses use indices. No two elements had the same place before, and no two have it in a dense array.
    dense = {b: replace(b, strides=(), elem_offset=IntImm(0)) for b in func.buffers if _is_laid_out(b)}
    if not dense:
        return func

    def go(node: Any) -> Any:
        new = map_children(node, go)
        held = getattr(new, "buffer", None)
        return replace(new, buffer=dense[held]) if held in dense and isinstance(new, _HOLDERS) else new

    params = tuple(dense.get(p, p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, go(func.body), func.attrs)


_HOLDERS = (BufferLoad, BufferStore, BufferRegion)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _is_laid_out(buffer: Buffer) -> bool:
    parts = (*buffer.strides, buffer.elem_offset)
    constant = all(isinstance(part, IntImm) for part in parts)
    return constant and bool(buffer.strides or not _is_zero(buffer.elem_offset))


def _buffers(func: PrimFunc) -> list[Buffer]:
    buffers = list(func.buffers)
    for node in find(func.body, Block | Allocate):
        buffers += node.alloc_buffers if isinstance(node, Block) else [node.buffer]
    return buffers
