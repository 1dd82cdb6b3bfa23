"""The largest elements, and all in order."""

from __future__ import annotations

from typing import Any

from ...operand import Operand
from ..context import NodeContext
from ..registry import converter


@converter("topk.default")
def topk(n: NodeContext) -> Any:
    n.ignore("sorted")
    k = n.attr("k")
    if not isinstance(k, int):
        n.refuse(f"k is symbolic: {k}")
    return n.op("topk", n["self"], k=k, axis=n.attr("dim"), is_ascend=not n.attr("largest"))


@converter("sort.default", "sort.stable")
def sort(n: NodeContext) -> Any:
    """Elements and their places before, equal ones in the order that they had."""
    x, axis = n["self"], n.attr("dim") % max(n["self"].ndim, 1)
    n.ignore("stable")
    places = n.op("argsort", x, axis=axis, is_ascend=not n.attr("descending"))
    return [n.op("gather", x, places, axis=axis), places]


@converter("median.default")
def median_of_all(n: NodeContext) -> Any:
    """The lower one of two in the middle; NaN if there is one."""
    x = n["self"]
    values, _ = _median(n, n.op("reshape", x, newshape=(-1,)), 0, keeps=False)
    return values


@converter("median.dim")
def median(n: NodeContext) -> Any:
    x = n["self"]
    if x.ndim == 0:
        return [x, n.op("full", shape=(), fill_value=0, dtype="int64")]
    return _median(n, x, n.attr("dim") % x.ndim, bool(n.attr("keepdim")))


def _median(n: NodeContext, x: Operand, axis: int, keeps: bool) -> list[Operand]:
    """The element in the middle of each line, and its place: where there is a NaN, the first one's."""
    extent = x.shape[axis]
    if not isinstance(extent, int) or extent < 1:
        n.refuse(f"the axis {axis} has {extent} elements; wanted a number of at least 1 that is known")
    places = n.op("argsort", x, axis=axis, is_ascend=True)
    middle = n.part(places, axis, (extent - 1) // 2, (extent - 1) // 2 + 1)
    if x.dtype.is_float:
        odd = n.op("cast", n.op("isnan", x), dtype="int8")
        first = n.op("cast", n.op("argmax", odd, axis=axis, keepdims=True), dtype="int64")
        has_nan = n.op("greater", n.op("max", odd, axis=(axis,), keepdims=True), 0)
        middle = n.op("where", has_nan, first, middle)
    results = [n.op("gather", x, middle, axis=axis), middle]
    return results if keeps else [n.op("squeeze", one, axis=(axis,)) for one in results]


@converter("argsort.default", "argsort.stable")
def argsort(n: NodeContext) -> Any:
    n.ignore("stable")
    return n.op("argsort", n["self"], axis=n.attr("dim"), is_ascend=not n.attr("descending"))
