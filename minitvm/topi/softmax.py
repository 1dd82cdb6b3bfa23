"""`softmax` and `log_softmax`, made stable: the largest element is subtracted before the exponential."""

from __future__ import annotations

from typing import Any

from .. import te
from ..expr import Expr, const
from ..te import Tensor
from .registry import register
from .shapes import axis_of
from .spelling import Onnx


def _shifted(x: Tensor, axis: int) -> tuple[int, Any, Tensor]:
    at = axis_of(axis, x.ndim)
    kept = tuple(d for a, d in enumerate(x.shape) if a != at)
    k = te.reduce_axis((0, x.shape[at]), name="k")
    largest = te.compute(kept, lambda *i: te.max(x[(*i[:at], k.var, *i[at:])], axis=k), name="T_softmax_maxelem")
    return at, kept, largest


def _without(indices: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return (*indices[:axis], *indices[axis + 1 :])


@register("nn.softmax", onnx=Onnx("Softmax", {"axis": "axis"}, since=13))
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along `axis`.

    In float32 and float64, the exponentials are multiplied by the inverse of the sum, so that each row needs only one
    division, because a division takes as long as an exponential. For 16-bit floats this would lose precision if the sum
    is large. So each of their steps is rounded, as ONNX specifies, and only the sum is computed in float32.
    """
    is_half = x.dtype.is_half
    at, kept, largest = _shifted(x, axis)
    powers = te.compute(x.shape, lambda *i: te.exp(x[i] - largest[_without(i, at)]), name="T_softmax_exp")
    k = te.reduce_axis((0, x.shape[at]), name="k")

    def power(*i: Any) -> Expr:
        value = powers[(*i[:at], k.var, *i[at:])]
        return value.astype("float32") if is_half else value

    total = te.compute(kept, lambda *i: te.sum(power(*i), axis=k), name="T_softmax_expsum")
    attrs = {"op": "nn.softmax", "axis": at}

    def element(*i: Any) -> Expr:
        whole = total[_without(i, at)]
        return powers[i] / whole.astype(x.dtype) if is_half else powers[i] * (const(1, x.dtype) / whole)

    return te.compute(x.shape, element, name="T_softmax_norm", attrs=attrs)


@register("nn.log_softmax", onnx=Onnx("LogSoftmax", {"axis": "axis"}, since=13))
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return log(softmax(x)) along `axis`, computed without a division."""
    at, kept, largest = _shifted(x, axis)
    k = te.reduce_axis((0, x.shape[at]), name="k")

    def power(*i: Any) -> Expr:
        return te.exp(x[(*i[:at], k.var, *i[at:])] - largest[i])

    total = te.compute(kept, lambda *i: te.sum(power(*i), axis=k), name="T_softmax_expsum")
    attrs = {"op": "nn.log_softmax", "axis": at}

    def element(*i: Any) -> Expr:
        row = _without(i, at)
        return x[i] - largest[row] - te.log(total[row])

    return te.compute(x.shape, element, name="T_log_softmax_norm", attrs=attrs)
