"""Reductions, running sums and running products."""

from __future__ import annotations

from typing import Any

from ..context import NodeContext
from ..registry import converter

_SAME = {
    "ReduceL1": "l1", "ReduceL2": "l2", "ReduceLogSum": "log_sum", "ReduceLogSumExp": "logsumexp", "ReduceMax": "max",
    "ReduceMean": "mean", "ReduceMin": "min", "ReduceProd": "prod", "ReduceSum": "sum", "ReduceSumSquare": "sum_square",
}  # fmt: skip


def _register(onnx_name: str, relay: str, axes_since: int) -> None:
    @converter(onnx_name)
    def _(n: NodeContext) -> Any:
        return _reduce(n, relay, n.attr("axes", None))

    @converter(onnx_name, since=axes_since)
    def _(n: NodeContext) -> Any:
        axes = n.optional(1)
        keep_all = bool(n.attr("noop_with_empty_axes", 0))
        listed = None if axes is None or axes.shape == (0,) else n.ints(axes, "the axes")
        if listed is None and keep_all:
            # The element-wise part of the operator, without a reduction.
            return _reduce(n, relay, ())
        return _reduce(n, relay, listed)


def _reduce(n: NodeContext, relay: str, axes: tuple[int, ...] | None) -> Any:
    return n.op(relay, n[0], axis=axes, keepdims=bool(n.attr("keepdims", 1)))


for _name, _relay in _SAME.items():
    _register(_name, _relay, 13 if _name == "ReduceSum" else 18)


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
        axis = int(n.scalar(n[1], "the axis"))
        return n.op(relay, n[0], axis=axis, exclusive=bool(n.attr("exclusive", 0)), reverse=bool(n.attr("reverse", 0)))

    return convert


converter("CumSum", since=11)(_running("cumsum"))
converter("CumProd", since=26)(_running("cumprod"))


@converter("GlobalAveragePool")
def global_average_pool(n: NodeContext) -> Any:
    return n.op("nn.global_avg_pool", n[0])


@converter("GlobalMaxPool")
def global_max_pool(n: NodeContext) -> Any:
    return n.op("nn.global_max_pool", n[0])


@converter("GlobalLpPool")
def global_lp_pool(n: NodeContext) -> Any:
    p = n.attr("p", 2)
    if p not in (1, 2):
        n.refuse_attribute("p")
    return n.op("l1" if p == 1 else "l2", n[0], axis=tuple(range(2, n[0].ndim)), keepdims=True)
