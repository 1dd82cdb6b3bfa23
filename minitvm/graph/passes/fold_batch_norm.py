"""Fold batch normalisation with constant statistics into the weights of the product before it.

    batch_norm(conv(x, W) + b)  ->  conv(x, W * s) + (b - mean) * s + beta,   s = gamma / sqrt(var + epsilon)

A batch normalisation after any other operator becomes a multiplication and an addition, which fuse with their
neighbours. The scale is computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from ..nodes import Graph, OpNode, Value
from ..pattern import Match, constant, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite

# The axis of the output channels in the weights, unless a layout gives another one.
_OUT_CHANNELS = {"nn.conv1d": 0, "nn.conv2d": 0, "nn.conv3d": 0, "nn.dense": 0,
                 "nn.conv1d_transpose": 1, "nn.conv2d_transpose": 1, "nn.conv3d_transpose": 1}  # fmt: skip


def fold_batch_norm(graph: Graph) -> Graph:
    """Remove batch normalisations whose parameters are constants.

    before:
        x = b.input("x", (1, 3, 8, 8))
        w = b.constant(np.ones((2, 3, 1, 1), "float32"))
        gamma, beta, mean, var = (b.constant(np.array(two, "float32")) for two in ([2, 4], [0, 1], [1, 1], [4, 4]))
        y = b.op("nn.conv2d", x, w)
        return b.op("nn.batch_norm", y, gamma, beta, mean, var, epsilon=0.0)
    after:
        def main(x: float32[1, 3, 8, 8]):
            const_scaled = constant(float32[2, 3, 1, 1])  # [[[[1.0]], [[1.0]], [[1.0]]], [[[2.0]], [[2.0]], [[2.0]]]]
            bias = constant(float32[2])  # [-1.0, -1.0]
            conv2d: float32[1, 2, 8, 8] = nn.conv2d(x, const_scaled)
            batch_norm: float32[1, 2, 8, 8] = nn.bias_add(conv2d, bias)
            return batch_norm
    """
    return rewrite(graph, RULES)


def _folded(b: Rewriter, match: Match) -> Value | None:
    """Return the product with scaled weights plus a single bias, or None if the weights cannot be scaled."""
    item, product, dtype = match.root, match.node("product"), match.root.output.dtype.numpy
    axis = item.attrs["axis"] % item.inputs[0].ndim
    if not _foldable(product, axis):
        return None
    scale, beta, mean = _statistics(match)
    bias = np.zeros_like(mean)
    if "bias" in match:
        biased = match.node("biased")
        if biased.attrs["axis"] % biased.output.ndim != axis:
            return None
        bias = match.array("bias").astype(np.float64)
        b.remove(biased)
    b.remove(product)
    weight = match["weight"]
    scaled = match.array("weight").astype(np.float64) * _along(scale, _out_channels(product), weight.ndim)
    shift = (bias - mean) * scale + beta
    new_weight = b.constant(scaled.astype(dtype), f"{weight.name}_scaled")
    linear = b.op(product.op, match["data"], new_weight, name=product.output.name, **product.attrs)
    shifted: Value = b.op(
        "nn.bias_add", linear, b.constant(shift.astype(dtype), "bias"), name=item.output.name, axis=axis
    )
    return shifted


def _scaled(b: Rewriter, match: Match) -> Value:
    """Return the batch normalisation as a multiplication and an addition."""
    item, data, dtype = match.root, match["data"], match.root.output.dtype.numpy
    scale, beta, mean = _statistics(match)
    factor, offset = scale, beta - mean * scale
    shape = (-1,) + (1,) * (data.ndim - item.attrs["axis"] % data.ndim - 1)
    across = b.constant(factor.reshape(shape).astype(dtype), "scale")
    scaled = b.op("multiply", data, across, name=f"{item.output.name}_scaled")
    shift = b.constant(offset.reshape(shape).astype(dtype), "shift")
    shifted: Value = b.op("add", scaled, shift, name=item.output.name)
    return shifted


def _statistics(match: Match) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the scale, beta and mean of a batch normalisation."""
    item = match.root
    gamma, beta, mean, var = (match.facts.arrays[v].astype(np.float64) for v in item.inputs[1:])
    return gamma / np.sqrt(var + item.attrs["epsilon"]), beta, mean


def _out_channels(product: OpNode) -> int:
    return product.attrs.get("kernel_layout", "O").index("O") or _OUT_CHANNELS[product.op]


def _foldable(product: OpNode, axis: int) -> bool:
    """Return whether the scales along `axis` of a product's output can be multiplied into its weights."""
    if not product.output.dtype.is_float or product.attrs.get("out_dtype", "") not in ("", product.inputs[1].dtype):
        return False
    if "transpose" in product.op and product.attrs["groups"] != 1:
        return False  # an output channel is spread over the groups of the weights
    if product.op == "nn.dense":
        return axis == product.output.ndim - 1
    return axis == product.attrs.get("data_layout", "NC").index("C")


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape(tuple(-1 if a == axis else 1 for a in range(rank)))


# Legal: a product that is scaled in its weights must not be read, or returned, without the scale.
_PRODUCT = op(tuple(_OUT_CHANNELS), value("data"), constant("weight"), name="product", alone=True)
_BIASED = op("nn.bias_add", _PRODUCT, constant("bias"), name="biased", alone=True)

RULES = [
    RewriteRule(op("nn.batch_norm", _BIASED | _PRODUCT, others=constant()), _folded),
    RewriteRule(op("nn.batch_norm", value("data"), others=constant()), _scaled),
]
