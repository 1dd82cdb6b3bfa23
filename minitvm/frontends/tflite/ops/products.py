"""Convert products of matrices."""

from __future__ import annotations

from typing import Any

from ....topi.shapes import same
from ...common.byte_products import integer_product
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, requantized, with_result
from ..registry import converter
from .activations import activated
from .integers import Quantised


@converter("FULLY_CONNECTED", bytes="own")
def fully_connected(n: NodeContext) -> Any:
    """Multiply the rows of x, as many numbers each as a row of the weights [units, k], with the rows of the weights."""
    if n.option("WeightsFormat", 0):
        n.refuse("shuffled weights are not supported")
    exact = Quantised.of(n, (0,))
    if exact is None:
        in_floats(n)
    x, weights = n[0], n[1]
    depth = weights.shape[-1]
    rows = x if x.ndim == 2 and same(x.shape[1], depth) else n.reshape(x, (-1, depth))
    if exact is not None:
        zeros = [Operand.known(zero) for zero in (exact.zero, exact.weight_zero)]
        result = integer_product(n, rows, zeros[0], n.moved(weights, (1, 0)), zeros[1])
    else:
        result = n.op("nn.dense", rows, weights)
    if n.has(2):
        result = n.op("nn.bias_add", result, n[2])
    if exact is not None:
        result = requantized(n, result, exact.factors, n.result(), exact.limits)
    if n.option("KeepNumDims", False) and x.ndim != 2:
        result = n.reshape(result, (*x.shape[:-1], weights.shape[0]))
    return Laid(result) if exact is not None else with_result(n, activated(n, Laid(result)))


@converter("BATCH_MATMUL")
def batch_matmul(n: NodeContext) -> Any:
    return n.op(
        "nn.matmul", n[0], n[1], transpose_a=bool(n.option("AdjX", False)), transpose_b=bool(n.option("AdjY", False))
    )
