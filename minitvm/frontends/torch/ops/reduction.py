"""Convert reductions, running sums and running products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....expr import Expr
from ....graph.nodes import Dim
from ....topi.shapes import product
from ...common.operand import Operand
from ..context import TorchNodeContext, by_lines
from ..registry import converter


def reduced(n: TorchNodeContext, relay: str) -> Any:
    """Convert a reduction whose elements have the dtype of the result."""

    @by_lines
    def convert(n: TorchNodeContext) -> Any:
        n.ignore("dtype")
        return _reduced(n, relay, n.cast(n["self"], n.dtype))

    return convert(n)


def _reduced(n: TorchNodeContext, relay: str, x: Operand) -> Any:
    """Return a reduction over `dim`: one axis, several, or all if it is absent."""
    return n.op(relay, x, axis=_axes(n), keepdims=_keepdims(n))


def _axes(n: TorchNodeContext) -> tuple[int, ...] | None:
    listed = n.attr("dim") if "dim" in n.values else None
    return (listed,) if isinstance(listed, int) else tuple(listed) if listed else None


def _keepdims(n: TorchNodeContext) -> bool:
    return bool(n.attr("keepdim")) if "keepdim" in n.values else False


@converter("max.default")
def max_(n: TorchNodeContext) -> Any:
    return _reduced(n, "max", n["self"])


@converter("min.default")
def min_(n: TorchNodeContext) -> Any:
    return _reduced(n, "min", n["self"])


def _register_truth(aten: str) -> None:
    @converter(f"{aten}.default", f"{aten}.dim", f"{aten}.dims")
    @by_lines
    def _(n: TorchNodeContext) -> Any:
        """Reduce over `dim`. With `dim=[]`, nothing is reduced."""
        x = n.cast(n["self"], "bool")
        reduces = "dim" not in n.values or n.attr("dim") != ()
        return n.cast(_reduced(n, aten, x) if reduces else x, n.dtype)


for _aten in ("any", "all"):
    _register_truth(_aten)


def _register_choice(aten: str, argument: str) -> None:
    @converter(f"{aten}.dim")
    @by_lines
    def _(n: TorchNodeContext) -> Any:
        x, axis, keep = n["self"], n.attr("dim"), _keepdims(n)
        values = n.op(aten, x, axis=(axis,), keepdims=keep)
        return [values, n.op(argument, x, axis=axis, keepdims=keep) if n.wants(1) else None]

    @converter(f"{argument}.default")
    @by_lines
    def _(n: TorchNodeContext) -> Any:
        return n.op(argument, n["self"], axis=n.attr("dim"), keepdims=bool(n.attr("keepdim")))


for _aten, _argument in {"max": "argmax", "min": "argmin"}.items():
    _register_choice(_aten, _argument)


@converter("var.correction", "var.dim", "var.default")
@by_lines
def variance(n: TorchNodeContext) -> Any:
    return _variance(n)


@converter("std.correction", "std.dim", "std.default")
@by_lines
def deviation(n: TorchNodeContext) -> Any:
    return n.op("sqrt", _variance(n))


@converter("var_mean.correction")
@by_lines
def variance_and_mean(n: TorchNodeContext) -> Any:
    return [_variance(n), _reduced(n, "mean", n["self"])]


def _variance(n: TorchNodeContext) -> Operand:
    """Return the mean square distance from the mean. The count is reduced by `correction`, but not below 0."""
    x, axes, keeps, correction = n["self"], _axes(n), _keepdims(n), _correction(n)
    if not isinstance(correction, Expr) and correction in (0, 1):
        unbiased: Operand = n.op("variance", x, axis=axes, keepdims=keeps, unbiased=bool(correction))
        return unbiased
    count = n.of_dtype(_count(x, axes), x.dtype)
    less = n.op("maximum", n.op("subtract", count, n.of_dtype(correction, x.dtype)), 0.0)
    squares = n.op("multiply", n.op("variance", x, axis=axes, keepdims=keeps), count)
    corrected: Operand = n.op("divide", squares, less)
    return corrected


def _count(x: Operand, axes: tuple[int, ...] | None) -> Dim:
    """Return the number of elements that are reduced to one."""
    return product([x.shape[a] for a in (range(x.ndim) if axes is None else axes)])


def _correction(n: TorchNodeContext) -> Any:
    if "correction" not in n.declared:
        return int(n.attr("unbiased"))
    return 1 if n.attr("correction") is None else n.attr("correction")


@converter("linalg_vector_norm.default")
@by_lines
def vector_norm(n: TorchNodeContext) -> Any:
    """Return the p-norm over `dim`."""
    n.ignore("dtype")
    x, p = n.cast(n["self"], n.dtype), n.attr("ord")
    return norm(n, x, p, _axes(n), _keepdims(n))


def norm(n: TorchNodeContext, x: Operand, p: float, axes: tuple[int, ...] | None, keepdims: bool) -> Operand:
    """Return (sum |x|^p)^(1/p); for infinity the largest |x|, and for 0 the number of elements that are not 0."""
    size_of = n.op("abs", x)
    attrs = {"axis": axes, "keepdims": keepdims}
    result: Operand
    if p in (1, 2):
        result = n.op("l1" if p == 1 else "l2", x, **attrs)
    elif math.isinf(p):
        result = n.op("max" if p > 0 else "min", size_of, **attrs)
    elif p == 0:
        result = n.op("sum", n.cast(n.op("not_equal", x, 0.0), str(x.dtype)), **attrs)
    else:
        result = n.op("power", n.op("sum", n.op("power", size_of, float(p)), **attrs), 1 / p)
    return result


@converter("dist.default")
def distance(n: TorchNodeContext) -> Any:
    """Return the p-norm of a difference."""
    difference = n.op("subtract", n.cast(n["self"], n.dtype), n.cast(n["other"], n.dtype))
    return norm(n, n.reshape(difference, (-1,)), n.attr("p"), None, keepdims=False)


@converter("_cdist_forward.default")
def distances(n: TorchNodeContext) -> Any:
    """Return the p-norm of the difference between each row of x1 and each row of x2."""
    a, b = n["x1"], n["x2"]
    n.ignore("compute_mode")
    difference = n.op("subtract", n.op("expand_dims", a, axis=a.ndim - 1), n.op("expand_dims", b, axis=b.ndim - 2))
    return norm(n, difference, n.attr("p"), (difference.ndim - 1,), keepdims=False)


@converter("_pdist_forward.default")
def distances_within(n: TorchNodeContext) -> Any:
    """Return the p-norm of the difference between each pair of rows, in order of the first row, then the second."""
    x = n["self"]
    rows, later = np.triu_indices(n.size(x, 0), 1)
    difference = n.op("subtract", *(n.op("take", x, places.astype(np.int64), axis=0) for places in (rows, later)))
    return norm(n, difference, n.attr("p"), (1,), keepdims=False)


@converter("logcumsumexp.default")
@by_lines
def running_logsumexp(n: TorchNodeContext) -> Any:
    """Return the log of the running sum of exp. The largest finite element so far is subtracted first."""
    x, axis = n["self"], n.axis()
    extent = n.size(x, axis)
    wide = n.op("expand_dims", x, axis=axis)  # [..., 1, extent, ...]: a line for each place in the result
    mask = Operand.known(np.tri(extent, dtype=bool).reshape((extent, extent) + (1,) * (x.ndim - axis - 1)))
    shown = n.op("where", mask, wide, n.of_dtype(-math.inf, x.dtype))
    return n.op("logsumexp", shown, axis=(axis + 1,))


def _register_running(aten: str) -> None:
    @converter(f"{aten}.default")
    @by_lines
    def _(n: TorchNodeContext) -> Any:
        n.ignore("dtype")
        return n.op(aten, n.cast(n["self"], n.dtype), axis=n.axis())


for _aten in ("cumsum", "cumprod"):
    _register_running(_aten)


def _register_extreme(aten: str) -> None:
    @converter(f"{aten}.default")
    @by_lines
    def _(n: TorchNodeContext) -> Any:
        """Return the extreme so far and its position (the last one of equal elements). After a NaN, it is NaN."""
        x, axis = n["self"], n.axis()
        extremes = n.op(aten, x, axis=axis)
        is_new = n.op("equal", x, extremes)
        if x.dtype.is_float:
            is_new = n.op("logical_or", is_new, n.op("isnan", x))
        marked = n.op("where", is_new, n.numbers(x.shape[axis], axis, x.ndim), n.of_dtype(0, "int64"))
        return [extremes, n.op("cummax", marked, axis=axis)]


for _aten in ("cummax", "cummin"):
    _register_extreme(_aten)
