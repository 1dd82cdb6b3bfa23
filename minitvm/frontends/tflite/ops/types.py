"""Convert operators that change the type of a tensor, or that fill in its contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import NodeContext
from ..layouts import Laid
from ..quantized import dequantized, quantization, quantized, requantized
from ..registry import converter


@converter("CAST", bytes="own")
def cast(n: NodeContext) -> Any:
    x = n.laid(0)
    return Laid.of(n.cast(x.operand, str(n.result_dtype())), x.order)


@converter("DEQUANTIZE", bytes="own")
def dequantize(n: NodeContext) -> Any:
    """Return real numbers: of small integers with a scale, or of half floats, as which weights may be stored."""
    x = n.laid(0)
    if quantization(n.info(0)) is not None:
        return dequantized(n, x, n.info(0))
    return Laid.of(n.cast(x.operand, str(n.result_dtype())), x.order)


@converter("QUANTIZE", bytes="own")
def quantize(n: NodeContext) -> Any:
    """Return real numbers, or small integers of another scale, as small integers."""
    x, source, target = n.laid(0), quantization(n.info(0)), quantization(n.result())
    if source is None:
        return quantized(n, x, n.result())
    if target is None or source.per_channel or n.result_dtype().bits > 16:
        return quantized(n, dequantized(n, x, n.info(0)), n.result())
    steps = n.op("subtract", n.cast(x.operand, "int32"), source.zero_point[0].astype(np.int32))
    # TFLite divides these two as float64.
    factor = np.asarray(source.scale[0].astype(np.float64) / target.scale[0].astype(np.float64))
    return Laid.of(requantized(n, steps, factor, n.result()), x.order)


@converter("DENSIFY", bytes="stored")
def densify(n: NodeContext) -> Any:
    """The contents of sparse tensors are expanded when the file is read."""
    return n.laid(0)
