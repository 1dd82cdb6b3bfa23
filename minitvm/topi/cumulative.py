"""Running sums, products, minima and maxima. One pass along the axis carries the total; lines run in parallel.

Lines along the last axis are computed one by one. Along another axis, neighbouring lines are neighbours in memory, so a
few vectors' worth of lines are computed together, and each step is a loop over them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..expr import DType, IterVar, Range, Var, as_expr, const
from ..te import Tensor
from ..tir.analysis.block_regions import with_declared_regions
from ..tir.nodes import Block, Buffer, BufferStore, For, ForKind, If, PrimFunc, Seq, Stmt, with_root
from ..tir.op import highest, lowest
from .lines import along, extent_of, nest, work
from .registry import register
from .shapes import Dim, axis_of, dims, simple

_SUM, _PRODUCT, _LARGEST, _LEAST = "sum", "product", "largest", "least"
_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    _SUM: lambda total, value: total + value, _PRODUCT: lambda total, value: total * value, _LARGEST: te.maximum,
    _LEAST: te.minimum,
}  # fmt: skip
_TOGETHER, _OPEN = 512, 64  # elements of a row, so that a few rows stay in the L1 cache; for an axis of unknown extent


@register("cumsum")
def cumsum(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return the running sums along `axis`. `exclusive` leaves out the element itself, and `reverse` starts at the
    end.
    """
    return _cumulative(x, _SUM, axis, exclusive, reverse)


@register("cumprod")
def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return the running products along `axis`. `exclusive` leaves out the element itself, and `reverse` starts at the
    end.
    """
    return _cumulative(x, _PRODUCT, axis, exclusive, reverse)


@register("cummax")
def cummax(x: Tensor, *, axis: int = 0) -> Tensor:
    """Return the largest element so far along `axis`. From the first NaN on, the result is NaN."""
    return _cumulative(x, _LARGEST, axis, exclusive=False, reverse=False)


@register("cummin")
def cummin(x: Tensor, *, axis: int = 0) -> Tensor:
    """Return the smallest element so far along `axis`. From the first NaN on, the result is NaN."""
    return _cumulative(x, _LEAST, axis, exclusive=False, reverse=False)


def _neutral(kind: str, dtype: Any) -> Any:
    """Return the neutral element of a running sum, product, maximum or minimum; for example, 0 for a sum."""
    if kind == _LARGEST:
        return lowest(dtype)
    return highest(dtype) if kind == _LEAST else const(int(kind == _PRODUCT), dtype)


def _cumulative(x: Tensor, kind: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    at = axis_of(axis, x.ndim)
    if at < x.ndim - 1:
        return _together(x, kind, at, exclusive, reverse)
    return along([x], at, _line(extent_of(dims(x)[at], "n"), str(x.dtype), kind, exclusive, reverse))[0]


def _together(x: Tensor, kind: str, at: int, exclusive: bool, reverse: bool) -> Tensor:
    """Return the running totals along an axis other than the last, for several elements of the last axis at a time.

    The totals of these elements stay in a row in the L1 cache.
    """
    source, result = (Buffer(name, x.shape, x.dtype) for name in ("x", "y"))
    last, steps = dims(x)[-1], x.shape[at]
    width, whole = _width(last)
    chunks = as_expr(simple(-(-last // width)))
    outer = [d for a, d in enumerate(x.shape[:-1]) if a != at]
    iterators = [IterVar(Var(f"v{k}", d.dtype), Range.of(d)) for k, d in enumerate((*outer, chunks))]
    *around, chunk = (it.var for it in iterators)
    neutral = _neutral(kind, x.dtype)
    totals = Buffer("totals", (as_expr(width),), x.dtype, scope="local")

    def row(write: Callable[[Var], Stmt], guarded: bool) -> Stmt:
        """Return a loop over the elements that are computed together. It skips elements beyond the end of the last
        axis.
        """
        lane = Var("lane", chunk.dtype)
        body = write(lane)
        inside = If(chunk * width + lane < as_expr(last), body) if guarded else body
        return For(lane, const(0, lane.dtype), as_expr(width), ForKind.VECTORIZED, inside)

    combined = _COMBINED[kind]
    step = Var("j", steps.dtype)
    place = steps - 1 - step if reverse else step

    def add(lane: Var) -> Stmt:
        point = (*around[:at], place, *around[at:], chunk * width + lane)
        total = totals[(lane,)]
        added = BufferStore(totals, combined(total, source[point]), (lane,))
        written = BufferStore(result, totals[(lane,)], point)
        return Seq.of(written, added) if exclusive else Seq.of(added, written)

    start = row(lambda lane: BufferStore(totals, neutral, (lane,)), guarded=False)
    rest = For(step, const(0, steps.dtype), steps, ForKind.SERIAL, row(add, guarded=not whole))
    block = with_declared_regions(
        Block(tuple(iterators), (), (), "running", Seq.of(start, rest), alloc_buffers=(totals,))
    )
    loops = [Var(f"i{k}", it.var.dtype) for k, it in enumerate(iterators)]
    func = with_root(
        (source, result), nest(loops, [*outer, chunks], block, work([x, x])),
        {"global_symbol": "running", "tir.noalias": True},
    )  # fmt: skip
    running: Tensor = te.extern_primfunc([x], func)
    return running


def _width(last: Dim) -> tuple[int, bool]:
    """Return how many elements of the last axis are computed together, and whether this number divides the extent."""
    if not isinstance(last, int) or not last:
        return (_TOGETHER, True) if isinstance(last, int) else (_OPEN, False)
    dividing = next(width for width in range(min(last, _TOGETHER), 0, -1) if last % width == 0)
    return (dividing, True) if dividing == last or dividing >= _TOGETHER // 8 else (_TOGETHER, False)


def _line(extent: Any, dtype: str, kind: str, exclusive: bool, reverse: bool) -> PrimFunc:
    from ..tir.script import builtins as T

    start, combined = _neutral(kind, DType(dtype)), _COMBINED[kind]

    def place(j: Any) -> Any:
        return extent - 1 - j if reverse else j

    @T.prim_func
    def running(x: T.Buffer((extent,), dtype), y: T.Buffer((extent,), dtype)) -> None:
        total = T.alloc_buffer((1,), dtype, scope="local")
        total[0] = start
        for j in range(extent):
            if exclusive:
                y[place(j)] = total[0]
            total[0] = combined(total[0], x[place(j)])
            if not exclusive:
                y[place(j)] = total[0]

    return running
