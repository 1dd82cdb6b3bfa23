"""Pooling with windows."""

from __future__ import annotations

import math
from typing import Any

from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import explicitly_padded, window_padding


def _windows(n: NodeContext, fill: float | None = None) -> tuple[Operand, dict[str, Any]]:
    """The data, and the attributes of the windows; open paddings are part of the data, where there is a `fill`."""
    x = n[0]
    kernel = n.attr("kernel_shape")
    rank = len(kernel)
    if rank not in (1, 2, 3) or x.ndim != rank + 2:
        n.refuse(f"a window of {rank} dimensions over {x} is not supported")
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    x, padding = explicitly_padded(n, x, window_padding(n, x.shape[2:], kernel, strides, dilations), fill)
    ceil = bool(n.attr("ceil_mode", 0)) and n.attr("auto_pad", "NOTSET") in ("NOTSET", "")
    attrs = {"pool_size": kernel, "strides": strides, "padding": padding, "dilation": dilations, "ceil_mode": ceil}
    return x, attrs


@converter("MaxPool")
def max_pool(n: NodeContext) -> Any:
    n.ignore("storage_order")  # of the second output, which is refused
    x, attrs = _windows(n, -math.inf if n[0].dtype.is_float else int(n[0].dtype.min))
    return n.op(f"nn.max_pool{x.ndim - 2}d", x, **attrs)


@converter("AveragePool")
def average_pool(n: NodeContext) -> Any:
    counted = bool(n.attr("count_include_pad", 0))
    x, attrs = _windows(n, 0.0 if counted else None)
    return n.op(f"nn.avg_pool{x.ndim - 2}d", x, count_include_pad=counted, **attrs)


@converter("LpPool")
def lp_pool(n: NodeContext) -> Any:
    """The p-norm of each window: a sum of powers is the mean times the size of the window, padding counted."""
    p = n.attr("p", 2)
    x, attrs = _windows(n)
    if attrs["ceil_mode"]:
        n.refuse_attribute("ceil_mode")
    size_of = n.op("abs", x)
    powers = size_of if p == 1 else n.op("multiply", x, x) if p == 2 else n.op("power", size_of, float(p))
    mean = n.op(f"nn.avg_pool{x.ndim - 2}d", powers, count_include_pad=True, **attrs)
    size = 1
    for k in attrs["pool_size"]:
        size *= k
    total = n.op("multiply", mean, float(size))
    if p <= 2:
        return total if p == 1 else n.op("sqrt", total)
    return n.op("power", total, 1.0 / p)
