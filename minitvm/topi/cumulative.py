"""Running sums and products: one pass along the axis, which carries the total. Lines run in parallel."""

from __future__ import annotations

from typing import Any

from ..te import Tensor
from ..tir.nodes import PrimFunc
from .lines import along, extent_of
from .shapes import axis_of, dims

_SUM, _PRODUCT = "sum", "product"


def cumsum(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums along an axis; `exclusive` leaves the element itself out, `reverse` runs from the end."""
    return _cumulative(x, _SUM, axis, exclusive, reverse)


def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running products along an axis; `exclusive` leaves the element itself out, `reverse` runs from the end."""
    return _cumulative(x, _PRODUCT, axis, exclusive, reverse)


def _cumulative(x: Tensor, kind: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    at = axis_of(axis, x.ndim)
    return along([x], at, _line(extent_of(dims(x)[at], "n"), str(x.dtype), kind, exclusive, reverse))[0]


def _line(extent: Any, dtype: str, kind: str, exclusive: bool, reverse: bool) -> PrimFunc:
    from ..tir.script import builtins as T

    start = int(kind == _PRODUCT)

    def place(j: Any) -> Any:
        return extent - 1 - j if reverse else j

    def combined(total: Any, value: Any) -> Any:
        return total + value if kind == _SUM else total * value

    @T.prim_func
    def running(x: T.Buffer((extent,), dtype), y: T.Buffer((extent,), dtype)) -> None:
        total = T.alloc_buffer((1,), dtype, scope="local")
        total[0] = T.Cast(dtype, start)
        for j in range(extent):
            if exclusive:
                y[place(j)] = total[0]
            total[0] = combined(total[0], x[place(j)])
            if not exclusive:
                y[place(j)] = total[0]

    return running
