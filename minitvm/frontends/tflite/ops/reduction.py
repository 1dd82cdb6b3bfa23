"""Convert reductions over axes, and operators along one axis."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter

_REDUCTIONS = {
    "MEAN": "mean", "REDUCE_ALL": "all", "REDUCE_ANY": "any", "REDUCE_MAX": "max", "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod", "SUM": "sum",
}  # fmt: skip


@converter(*_REDUCTIONS)
def reduction(n: NodeContext) -> Any:
    x = n.laid(0)
    axes = sorted({n.axis(axis, x.ndim) for axis in n.ints(n[1], "the axes")}) if x.ndim else []
    return _reduced(n, _REDUCTIONS[n.node.name], x, axes, bool(n.option("KeepDims", False)))


def _reduced(n: NodeContext, op: str, tensor: Laid, axes: list[int], keepdims: bool) -> Laid:
    if not axes:
        return tensor
    order = tensor.order
    places = tuple(sorted(order.index(axis) for axis in axes))
    result: Operand = n.op(op, tensor.operand, axis=places, keepdims=keepdims)
    if keepdims:
        return Laid.of(result, order)
    rest = [axis for axis in order if axis not in axes]
    return Laid(n.moved(result, [rest.index(axis) for axis in sorted(rest)]))


@converter("ARG_MAX", "ARG_MIN")
def arg_extreme(n: NodeContext) -> Any:
    x = n[0]
    axis = n.axis(int(n.scalar(n[1], "the axis")), x.ndim)
    return n.op("argmax" if n.node.name == "ARG_MAX" else "argmin", x, axis=(axis,), dtype=str(n.result_dtype()))


@converter("SOFTMAX")
def softmax(n: NodeContext) -> Any:
    x = n.laid(0)
    beta = float(n.option("Beta", 1.0))
    scaled = x.operand if beta == 1.0 else n.op("multiply", x.operand, beta)
    return Laid.of(n.op("nn.softmax", scaled, axis=x.order.index(x.ndim - 1)), x.order)


@converter("LOG_SOFTMAX")
def log_softmax(n: NodeContext) -> Any:
    x = n.laid(0)
    return Laid.of(n.op("nn.log_softmax", x.operand, axis=x.order.index(x.ndim - 1)), x.order)
