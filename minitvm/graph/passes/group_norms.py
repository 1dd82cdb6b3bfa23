"""Groups of channels that are normalised, written as the normalisation of one long row for each group.

    reshape(instance_norm(reshape(x, [n, groups, ..]), s, b), shape of x)  ->  group_norm(x, gamma, beta)
    add(multiply(group_norm(x, gamma, beta), u), v)                        ->  group_norm(x, gamma * u, beta * u + v)

PyTorch exports group normalisation to ONNX this way. As one operator it can follow the layout of a convolution. `u` and
`v` are constants with an element for each channel. They are combined in float64 and rounded once.
"""

from __future__ import annotations

from math import prod

import numpy as np

from .. import registry
from ..nodes import Constant, Graph, OpNode, Value
from .rebuild import new_constant, rebuild, same_shape


def group_norms(graph: Graph) -> Graph:
    """The graph with one operator for each such chain; what is left without readers is removed later."""
    norms = _Norms(graph)
    nodes = [norms.rewritten(item) for item in graph.nodes]
    return rebuild(graph, nodes, norms.constants) if norms.constants else graph


class _Norms:
    """The constants that the pass adds, and what makes each value by now."""

    def __init__(self, graph: Graph) -> None:
        self.arrays = graph.arrays()
        self.makers = graph.producers()
        self.consumers = graph.consumers()
        self.returned = set(graph.outputs)
        self.constants: list[Constant] = []

    def rewritten(self, item: OpNode) -> OpNode:
        new = self.of_rows(item) if item.op == "reshape" else None
        new = self.of_scale(item) if item.op in ("multiply", "add") else new
        if new is None:
            return item
        self.makers[item.output] = new
        return new

    def of_rows(self, item: OpNode) -> OpNode | None:
        """The group norm that a reshape of normalised rows is."""
        rows = self.private(item.inputs[0], "nn.instance_norm")
        if rows is None or rows.attrs["axis"] != 1 or not all(v in self.arrays for v in rows.inputs[1:]):
            return None
        split = self.makers.get(rows.inputs[0])
        if split is None or split.op != "reshape" or not same_shape(split.inputs[0].shape, item.output.shape):
            return None
        (x,), (batch, groups, *_) = split.inputs, split.output.shape
        if x.ndim < 3 or not isinstance(groups, int) or not isinstance(x.shape[1], int) or x.shape[1] % groups:
            return None
        if not same_shape((batch,), x.shape[:1]):
            return None
        gamma, beta = (np.repeat(self.arrays[v], x.shape[1] // groups) for v in rows.inputs[1:])
        return self.norm(item, x, gamma, beta, groups, rows.attrs["epsilon"])

    def of_scale(self, item: OpNode) -> OpNode | None:
        """The group norm into which a multiplication or an addition goes."""
        for data, other in (item.inputs, item.inputs[::-1]):
            maker = self.private(data, "nn.group_norm", "nn.instance_norm")
            values = self.of_channels(other, item.output)
            if maker is None or values is None or maker.attrs["axis"] != 1:
                continue
            x, *weights = maker.inputs
            if not all(v in self.arrays for v in weights) or not same_shape(data.shape, item.output.shape):
                continue
            gamma, beta = (self.arrays[v].astype(np.float64) for v in weights)
            gamma, beta = (gamma * values, beta * values) if item.op == "multiply" else (gamma, beta + values)
            return self.norm(item, x, gamma, beta, maker.attrs.get("num_groups"), maker.attrs["epsilon"])
        return None

    def private(self, value: Value, *ops: str) -> OpNode | None:
        """What makes a value that nobody else reads, if it is one of those operators."""
        maker = self.makers.get(value)
        alone = len(self.consumers.get(value, ())) == 1 and value not in self.returned
        return maker if maker is not None and maker.op in ops and alone else None

    def of_channels(self, value: Value, output: Value) -> np.ndarray | None:
        """A constant with an element for each channel (axis 1) of an output, or one for all."""
        if output.ndim < 2 or value not in self.arrays or value.dtype != output.dtype:
            return None
        if not isinstance(output.shape[1], int):
            return None
        array = self.arrays[value].astype(np.float64)
        shape = (1,) * (output.ndim - array.ndim) + array.shape
        if array.ndim > output.ndim or prod(shape) != shape[1]:
            return None
        return np.broadcast_to(array.reshape(-1), (output.shape[1],))

    def norm(
        self, item: OpNode, x: Value, gamma: np.ndarray, beta: np.ndarray, groups: int | None, epsilon: float
    ) -> OpNode:
        """The normalisation in the place of an operator."""
        weights = []
        for array, name in ((gamma, "gamma"), (beta, "beta")):
            self.constants.append(new_constant(array.astype(x.dtype.numpy), name))
            weights.append(self.constants[-1].value)
            self.arrays[weights[-1]] = self.constants[-1].data
        op = "nn.instance_norm" if groups is None else "nn.group_norm"
        attrs = {"epsilon": epsilon} if groups is None else {"epsilon": epsilon, "num_groups": groups}
        return OpNode(op, (x, *weights), registry.get(op).normalize(attrs), item.outputs)
