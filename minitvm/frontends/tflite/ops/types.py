"""Convert operators that change the type of a tensor, or that fill in its contents."""

from __future__ import annotations

from typing import Any

from ..context import NodeContext
from ..layouts import Laid
from ..quantized import dequantized, quantization, quantized
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
    x = n.laid(0)
    if quantization(n.info(0)) is not None:
        x = dequantized(n, x, n.info(0))
    return quantized(n, x, n.result())


@converter("DENSIFY", bytes="stored")
def densify(n: NodeContext) -> Any:
    """The contents of sparse tensors are expanded when the file is read."""
    return n.laid(0)
