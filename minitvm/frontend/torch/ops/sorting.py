"""The largest elements, and all in order."""

from __future__ import annotations

from typing import Any

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


@converter("argsort.default", "argsort.stable")
def argsort(n: NodeContext) -> Any:
    n.ignore("stable")
    return n.op("argsort", n["self"], axis=n.attr("dim"), is_ascend=not n.attr("descending"))
