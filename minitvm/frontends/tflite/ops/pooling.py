"""Convert pools over windows of an image."""

from __future__ import annotations

import math
from typing import Any

from ...common.windows import explicitly_padded, without_second_window
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, quantization, same_scale, with_result
from ..registry import converter
from .activations import activated
from .convolution import steps, window_padding


@converter("MAX_POOL_2D")
def max_pool_2d(n: NodeContext) -> Any:
    return activated(n, _pooled(n, "nn.max_pool2d", n.laid(0)))


@converter("AVERAGE_POOL_2D", bytes="own")
def average_pool_2d(n: NodeContext) -> Any:
    """Return the mean of the elements of each window that lie in the image.

    The mean of stored bytes is rounded, with halves away from zero.
    """
    image = n.laid(0)
    stored = quantization(n.info(0)) is not None and image.operand.dtype in ("int8", "uint8")
    if not stored or not same_scale(n.info(0), n.result()) or n.option("FusedActivationFunction", 0):
        in_floats(n)
        return with_result(n, activated(n, _pooled(n, "nn.avg_pool2d", n.laid(0))))
    mean = _pooled(n, "nn.avg_pool2d", Laid.of(n.cast(image.operand, "float32"), image.order)).operand
    # Exact: a mean that is no half is farther from it than these sums round.
    rounded = n.op("trunc", n.op("add", mean, n.op("multiply", n.op("sign", mean), 0.5)))
    return Laid(first=n.cast(rounded, str(image.operand.dtype)))


@converter("L2_POOL_2D")
def l2_pool_2d(n: NodeContext) -> Any:
    squares = n.op_laid("multiply", n.laid(0), n.laid(0))
    return activated(n, n.op_laid("sqrt", _pooled(n, "nn.avg_pool2d", squares)))


def _pooled(n: NodeContext, op: str, image: Laid) -> Laid:
    x = n.first(image)
    window, strides = (int(n.option("FilterHeight")), int(n.option("FilterWidth"))), steps(n, "Stride{}")
    padding = window_padding(n, x.shape[2:], window, strides, (1, 1))
    strides = without_second_window(strides, x.shape[2:], padding)
    lowest = None
    if op == "nn.max_pool2d":
        lowest = -math.inf if x.dtype.is_float else int(x.dtype.min)
    x, pads = explicitly_padded(n, x, padding, lowest)
    return Laid(first=n.op(op, x, pool_size=window, strides=strides, padding=pads))
