"""Fold batch normalisation with constant statistics into the weights in front of it.

    batch_norm(conv(x, W) + b)  ->  conv(x, W * s) + (b - mean) * s + beta,   s = gamma / sqrt(var + epsilon)

One that follows another operator becomes a multiplication and an addition, which fuse with their neighbours. The
scale is computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import registry
from ..nodes import Constant, Graph, OpNode, Value
from .rebuild import new_constant, rebuild

# The axis of the output channels in the weights, unless a layout gives another one.
_OUT_CHANNELS = {"nn.conv1d": 0, "nn.conv2d": 0, "nn.conv3d": 0, "nn.dense": 0,
                 "nn.conv1d_transpose": 1, "nn.conv2d_transpose": 1, "nn.conv3d_transpose": 1}  # fmt: skip


def _out_channels(product: OpNode) -> int:
    return product.attrs.get("kernel_layout", "O").index("O") or _OUT_CHANNELS[product.op]


def fold_batch_norm(graph: Graph) -> Graph:
    """The graph without batch normalisations whose parameters are constants."""
    arrays = graph.arrays()
    consumers = graph.consumers()
    producers = graph.producers()
    outputs = set(graph.outputs)
    constants: list[Constant] = []
    rewritten: dict[OpNode, list[OpNode]] = {}

    def private(value: Value) -> bool:
        return len(consumers.get(value, [])) == 1 and value not in outputs

    def constant(array: np.ndarray, name: str) -> Value:
        constants.append(new_constant(array, name))
        return constants[-1].value

    for item in graph.nodes:
        if item.op != "nn.batch_norm" or not all(v in arrays for v in item.inputs[1:]):
            continue
        data, axis = item.inputs[0], item.attrs["axis"] % item.inputs[0].ndim
        gamma, beta, mean, var = (arrays[v].astype(np.float64) for v in item.inputs[1:])
        scale = gamma / np.sqrt(var + item.attrs["epsilon"])
        product, bias = producers.get(data), np.zeros_like(mean)
        chain = [product] if product is not None else []
        if product is not None and product.op == "nn.bias_add" and product.inputs[1] in arrays and private(data):
            if product.attrs["axis"] % data.ndim == axis:
                bias = arrays[product.inputs[1]].astype(np.float64)
                product = producers.get(product.inputs[0])
                chain = [product, *chain] if product is not None else []
        shift = (bias - mean) * scale + beta
        dtype = item.output.dtype.numpy
        if product is not None and _foldable(product, axis, arrays) and all(private(n.output) for n in chain):
            weight = product.inputs[1]
            scaled = arrays[weight].astype(np.float64) * _along(scale, _out_channels(product), weight.ndim)
            new_weight = constant(scaled.astype(dtype), f"{weight.name}_scaled")
            linear = OpNode(product.op, (product.inputs[0], new_weight), product.attrs, product.outputs)
            shifted = _node("nn.bias_add", (product.output, constant(shift.astype(dtype), "bias")), item, axis=axis)
            for gone in chain:
                rewritten[gone] = []
            rewritten[item] = [linear, shifted]
            continue
        rank = data.ndim - axis
        shape = (-1,) + (1,) * (rank - 1)
        between = Value(f"{item.output.name}_scaled", item.output.shape, item.output.dtype)
        factor, offset = scale, beta - mean * scale
        multiply = OpNode("multiply", (data, constant(factor.reshape(shape).astype(dtype), "scale")), {}, (between,))
        add = _node("add", (between, constant(offset.reshape(shape).astype(dtype), "shift")), item)
        rewritten[item] = [multiply, add]
    nodes = [new for item in graph.nodes for new in rewritten.get(item, [item])]
    return rebuild(graph, nodes, constants)


def _foldable(product: OpNode, axis: int, arrays: dict[Value, np.ndarray]) -> bool:
    if product.op not in _OUT_CHANNELS or len(product.inputs) != 2 or product.inputs[1] not in arrays:
        return False
    if not product.output.dtype.is_float or product.attrs.get("out_dtype", "") not in ("", product.inputs[1].dtype):
        return False
    if "transpose" in product.op and product.attrs["groups"] != 1:
        return False  # an output channel is spread over the groups of the weights
    if product.op == "nn.dense":
        return axis == product.output.ndim - 1
    return axis == product.attrs.get("data_layout", "NC").index("C")


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape(tuple(-1 if a == axis else 1 for a in range(rank)))


def _node(op: str, inputs: tuple[Value, ...], item: OpNode, **attrs: Any) -> OpNode:
    """A node that takes the place of `item`, outputs and all."""
    return OpNode(op, inputs, registry.get(op).normalize(attrs), item.outputs)
