"""Convert products of matrices."""

from __future__ import annotations

from typing import Any

from ....topi.shapes import same
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated


@converter("FULLY_CONNECTED")
def fully_connected(n: NodeContext) -> Any:
    """Multiply the rows of x, as many numbers each as a row of the weights [units, k], with the rows of the weights."""
    x, weights = n[0], n[1]
    if n.option("WeightsFormat", 0):
        n.refuse("shuffled weights are not supported")
    depth = weights.shape[-1]
    keep = bool(n.option("KeepNumDims", False))
    rows = x if x.ndim == 2 and same(x.shape[1], depth) else n.reshape(x, (-1, depth))
    result = n.op("nn.dense", rows, weights)
    if n.has(2):
        result = n.op("nn.bias_add", result, n[2])
    if keep and x.ndim != 2:
        result = n.reshape(result, (*x.shape[:-1], weights.shape[0]))
    return activated(n, Laid(result))


@converter("BATCH_MATMUL")
def batch_matmul(n: NodeContext) -> Any:
    return n.op(
        "nn.matmul", n[0], n[1], transpose_a=bool(n.option("AdjX", False)), transpose_b=bool(n.option("AdjY", False))
    )
