"""Running products, and the bits of numbers read as another dtype."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import DType, Expr
from ..te import Tensor
from ..tir.op import reinterpret as reinterpret_bits
from .elementwise import elementwise
from .shapes import axis_of


def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running products along an axis; `exclusive` leaves the element itself out, `reverse` runs from the end.

    Each output multiplies its own part of the axis: parallel, at the price of n^2 / 2 multiplications an axis.
    """
    at = axis_of(axis, x.ndim)
    k = te.reduce_axis((0, x.shape[at]), name="k")

    def element(*i: Any) -> Expr:
        end = i[at]
        first, last = (end, k.var) if reverse else (k.var, end)
        taken = first < last if exclusive else first <= last
        return te.prod(x[(*i[:at], k.var, *i[at + 1 :])], axis=k, where=taken)

    return te.compute(x.shape, element, name="T_cumprod")


def reinterpret(x: Tensor, *, dtype: str) -> Tensor:
    """The same bits as another dtype of the same width."""
    kind = DType(dtype)
    if kind.bits != x.dtype.bits:
        raise TypeMismatch(f"reinterpret: {x.dtype} and {kind} differ in width")
    if kind == x.dtype:
        return elementwise(x, lambda v: v, "reinterpret")
    return elementwise(x, lambda v: reinterpret_bits(kind, v), "reinterpret")
