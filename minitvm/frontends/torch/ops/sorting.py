"""Convert operators that sort or select the largest elements."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import TorchNodeContext, by_lines
from ..registry import converter


@converter("topk.default")
@by_lines
def topk(n: TorchNodeContext) -> Any:
    n.ignore("sorted")
    k = n.attr("k")
    if not isinstance(k, int):
        n.refuse(f"k is symbolic: {k}")
    return n.op("topk", n["self"], k=k, axis=n.axis(), is_ascend=not n.attr("largest"))


@converter("sort.default", "sort.stable")
@by_lines
def sort(n: TorchNodeContext) -> Any:
    """Return the sorted elements and their old positions. Equal elements keep their order."""
    n.ignore("stable")
    return _in_order(n, n["self"], n.axis(), is_ascend=not n.attr("descending"))


def _in_order(n: TorchNodeContext, x: Operand, axis: int, is_ascend: bool = True) -> list[Operand]:
    """Return the elements of each line in order, and their old positions."""
    places = n.op("argsort", x, axis=axis, is_ascend=is_ascend)
    return [n.op("gather", x, places, axis=axis), places]


@converter("argsort.default", "argsort.stable")
@by_lines
def argsort(n: TorchNodeContext) -> Any:
    n.ignore("stable")
    return n.op("argsort", n["self"], axis=n.axis(), is_ascend=not n.attr("descending"))


@converter("kthvalue.default")
@by_lines
def kth_value(n: TorchNodeContext) -> Any:
    """Return the k-th smallest element of each line, and its position; k begins at 1."""
    axis, k = n.axis(), n.attr("k")
    return _entry(n, _in_order(n, n["self"], axis), axis, k - 1)


@converter("median.default", "nanmedian.default")
def median_of_all(n: TorchNodeContext) -> Any:
    """Return the median of all elements, the lower of two in the middle. It is NaN if there is a NaN, unless NaNs are
    ignored.
    """
    n.values["self"] = n.reshape(n["self"], (-1,))
    return _median(n, 0, keeps=False)[0]


@converter("median.dim", "nanmedian.dim")
@by_lines
def median(n: TorchNodeContext) -> Any:
    return _median(n, n.axis(), bool(n.attr("keepdim")))


def _median(n: TorchNodeContext, axis: int, keeps: bool) -> list[Operand]:
    """Return the middle element of each line, and its position.

    NaNs come last in order. If there are any, the first one is the median; `nanmedian` returns the middle of the
    others.
    """
    x = n["self"]
    extent = x.shape[axis]
    x = n.enough(x, extent, 1, f"the median of {x} along the empty axis {axis}")
    ordered = _in_order(n, x, axis)
    if not x.dtype.is_float:
        return _entry(n, ordered, axis, (extent - 1) // 2, keeps)
    odd = n.cast(n.op("isnan", x), "int64")
    numbers = n.op("subtract", n.of_dtype(extent, "int64"), n.op("sum", odd, axis=(axis,), keepdims=True))
    if "nanmedian" in str(n.node.target):
        middle = n.op("maximum", n.op("floor_divide", n.op("subtract", numbers, 1), 2), 0)
    else:
        has_all = n.op("equal", numbers, n.of_dtype(extent, "int64"))
        middle = n.op("where", has_all, n.of_dtype((extent - 1) // 2, "int64"), numbers)
    results = [n.op("gather", part, middle, axis=axis) for part in ordered]
    return results if keeps else [n.op("squeeze", one, axis=(axis,)) for one in results]


def _entry(
    n: TorchNodeContext, parts: list[Operand], axis: int, place: Any, keeps: bool | None = None
) -> list[Operand]:
    """Return one entry along an axis of several tensors. `keepdim` decides whether the axis stays."""
    keeps = bool(n.attr("keepdim")) if keeps is None else keeps
    entries = [n.part(x, axis, place, place + 1) for x in parts]
    return entries if keeps else [n.op("squeeze", one, axis=(axis,)) for one in entries]
