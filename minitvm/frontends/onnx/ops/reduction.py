"""Convert reductions, running sums and running products."""

from __future__ import annotations

from typing import Any

from ....topi.shapes import product
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .data_axes import all_or_none, along_listed, along_one, listed, number_of, without


def reduced(n: NodeContext, relay: str) -> Any:
    """Convert a reduction over axes that are an attribute or, in later opsets, an input."""
    if n.version < (13 if relay == "sum" else 18):
        return _reduce(n, relay, n.attr("axes", None))
    axes = n.optional(1)
    keep_all = bool(n.attr("noop_with_empty_axes", 0))
    if axes is not None and not axes.is_known and axes.shape != (0,):
        return _reduced_by_data(n, relay, axes, keep_all=keep_all)
    listed = None if axes is None or axes.shape == (0,) else n.ints(axes, "the axes")
    if listed is None and keep_all:
        # The element-wise part of the operator, without a reduction.
        return _reduce(n, relay, ())
    return _reduce(n, relay, listed)


# Reductions whose operators accept only floats. ONNX also has them for integers, rounded toward zero.
_LOGARITHMS = ("log_sum", "logsumexp")


def _reduce(n: NodeContext, relay: str, axes: tuple[int, ...] | None) -> Any:
    x = n[0]
    whole = relay in _LOGARITHMS and not x.dtype.is_float
    reduced = n.op(relay, n.cast(x, "float64") if whole else x, axis=axes, keepdims=bool(n.attr("keepdims", 1)))
    return n.cast(reduced, str(x.dtype)) if whole else reduced


# Reductions that cannot be done axis by axis: the operator before, the reduction, and the operator after.
_IN_PARTS: dict[str, tuple[str, str, str]] = {
    "l1": ("abs", "sum", ""), "l2": ("square", "sum", "sqrt"), "log_sum": ("", "sum", "log"),
    "sum_square": ("square", "sum", ""),
}  # fmt: skip


def _reduced_by_data(n: NodeContext, relay: str, axes: Operand, *, keep_all: bool) -> Any:
    """Convert a reduction along axes that are computed at run time, one after the other."""
    x = n[0]
    flags = listed(n, axes, x.ndim)
    flags = flags if keep_all else all_or_none(n, axes, flags, x.ndim)
    before, one, behind = _IN_PARTS.get(relay, ("", relay, ""))
    whole = x.dtype if (behind or relay in _LOGARITHMS) and not x.dtype.is_float else None
    part = n.cast(x, "float64") if whole else x
    if before:
        part = n.op("abs", part) if before == "abs" else n.op("multiply", part, part)
    reduced = along_listed(n, part, flags, lambda y, axis: n.op(one, y, axis=(axis,), keepdims=True))
    reduced = n.op(behind, reduced) if behind else reduced
    reduced = n.cast(reduced, str(whole)) if whole else reduced
    if n.attr("keepdims", 1):
        return reduced
    return without(n, reduced, flags, number_of(n, axes, "axes that are left out"))


def _arg(relay: str) -> Any:
    def convert(n: NodeContext) -> Any:
        last = bool(n.attr("select_last_index", 0))
        keep = bool(n.attr("keepdims", 1))
        return n.op(relay, n[0], axis=n.attr("axis", 0), keepdims=keep, select_last_index=last)

    return convert


converter("ArgMax")(_arg("argmax"))
converter("ArgMin")(_arg("argmin"))


def _running(relay: str) -> Any:
    def convert(n: NodeContext) -> Any:
        attrs = {"exclusive": bool(n.attr("exclusive", 0)), "reverse": bool(n.attr("reverse", 0))}
        if not n[1].is_known:
            return along_one(n, n[1], n[0].ndim, lambda axis: n.op(relay, n[0], axis=axis, **attrs))
        return n.op(relay, n[0], axis=int(n.scalar(n[1], "the axis")), **attrs)

    return convert


converter("CumSum", since=11)(_running("cumsum"))
converter("CumProd", since=26)(_running("cumprod"))


@converter("GlobalAveragePool")
def global_average_pool(n: NodeContext) -> Any:
    return n.op("nn.global_avg_pool", _some_to_pool(n))


def _some_to_pool(n: NodeContext) -> Operand:
    """Return the data after checking that there are elements to pool: an empty set has no mean and no maximum."""
    x = n[0]
    return n.enough(x, product(x.shape[2:]), 1, f"{x} has nothing to pool")


@converter("GlobalMaxPool")
def global_max_pool(n: NodeContext) -> Any:
    return n.op("nn.global_max_pool", _some_to_pool(n))


@converter("GlobalLpPool")
def global_lp_pool(n: NodeContext) -> Any:
    p = n.attr("p", 2)
    if p not in (1, 2):
        n.refuse_attribute("p")
    return n.op("l1" if p == 1 else "l2", n[0], axis=tuple(range(2, n[0].ndim)), keepdims=True)
