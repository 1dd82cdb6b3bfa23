"""Convert normalisations, and the rounding that quantisation-aware training simulates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated

_LEAST_NORM = 1e-6


@converter("L2_NORMALIZATION")
def l2_normalization(n: NodeContext) -> Any:
    """Divide by the norm along the last axis, which counts as at least 1e-6."""
    x = n.laid(0)
    squares = n.op("sum_square", x.operand, axis=(x.order.index(x.ndim - 1),), keepdims=True)
    norm = n.op("maximum", n.op("sqrt", squares), _LEAST_NORM)
    return activated(n, Laid.of(n.op("divide", x.operand, norm), x.order))


@converter("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(n: NodeContext) -> Any:
    """Return x / (bias + alpha * the squares of the channels from -radius to radius) ** beta."""
    x, radius = n.laid(0), int(n.option("Radius"))
    size = 2 * radius + 1
    attrs = {name: float(n.option(name.capitalize())) for name in ("bias", "alpha", "beta")}
    attrs["alpha"] *= size  # our operator takes the mean of the squares
    return Laid.of(n.op("nn.lrn", x.operand, size=size, axis=x.order.index(x.ndim - 1), **attrs), x.order)


@converter("FAKE_QUANT", bytes="own")
def fake_quant(n: NodeContext) -> Any:
    """Round real numbers to the steps of a quantisation whose range is moved so that 0 is one of them."""
    x = n.laid(0)
    least, most = np.float32(n.option("Min", 0.0)), np.float32(n.option("Max", 0.0))
    low, high = np.float32(1 if n.option("NarrowRange", False) else 0), np.float32(2 ** int(n.option("NumBits", 8)) - 1)
    scale = np.float32((most - least) / (high - low))
    if not scale > 0:
        n.refuse(f"a range from {least} to {most}")
    point = np.float32(low - least / scale)
    zero = np.float32(np.clip(np.floor(point + np.float32(0.5)), low, high))
    bottom, top = (np.float32((limit - zero) * scale) for limit in (low, high))
    inside = n.op("clip", x.operand, a_min=float(bottom), a_max=float(top))
    steps = n.op("multiply", n.op("subtract", inside, float(bottom)), np.asarray(np.float32(1.0) / scale))
    rounded = n.op("floor", n.op("add", steps, 0.5))  # steps are not negative
    return Laid.of(n.op("add", n.op("multiply", rounded, float(scale)), float(bottom)), x.order)
