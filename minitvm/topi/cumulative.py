"""Running sums and products: each output reduces its own part of the axis, in parallel, n^2 / 2 operations an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..expr import Expr
from ..te import Tensor
from .shapes import axis_of


def cumsum(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums along an axis; `exclusive` leaves the element itself out, `reverse` runs from the end."""
    return _cumulative(x, te.sum, axis, exclusive, reverse, "T_cumsum")


def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running products along an axis; `exclusive` leaves the element itself out, `reverse` runs from the end."""
    return _cumulative(x, te.prod, axis, exclusive, reverse, "T_cumprod")


def _cumulative(x: Tensor, reducer: Callable[..., Any], axis: int, exclusive: bool, reverse: bool, name: str) -> Tensor:
    at = axis_of(axis, x.ndim)
    k = te.reduce_axis((0, x.shape[at]), name="k")

    def element(*i: Any) -> Expr:
        end = i[at]
        first, last = (end, k.var) if reverse else (k.var, end)
        taken = first < last if exclusive else first <= last
        return reducer(x[(*i[:at], k.var, *i[at + 1 :])], axis=k, where=taken)

    return te.compute(x.shape, element, name=name)
