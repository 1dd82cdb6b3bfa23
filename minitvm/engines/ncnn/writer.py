"""Write a region as a network of ncnn.

A convolution or product takes over the bias and the activation after it. A value with several readers gets a layer
`Split`, because in ncnn's text each value has one reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...graph.nodes import Graph, OpNode, Value
from .layers import LAYERS, Layer, extents, reshape
from .network import NcnnNetwork

_MAGIC = 7767517
_LARGEST = 3.4028234e38  # a float32 below its maximum, so that the parser does not round it to infinity
# Layers that may change their operand, which must not be our memory.
_IN_PLACE = frozenset({"ReLU", "Clip", "Sigmoid", "TanH", "Softmax", "BinaryOp"})


def network_of(graph: Graph) -> NcnnNetwork:
    """Return a region, whose constants are in the graph, as a network. Raises `Refused` for an operator that has no
    layer.
    """
    return _NetworkWriter(graph).network()


class _NetworkWriter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = {c.value: c.value.name for c in graph.constants}
        self.consumers = graph.consumers()
        self.lines: list[str] = []
        self.weights: list[tuple[str, bool]] = []
        self.blobs = 0
        self.free: dict[Value, list[str]] = {}  # the names of a value for its readers
        self.done: set[OpNode] = set()
        self.light = True

    def network(self) -> NcnnNetwork:
        graph = self.graph
        inputs = []
        for value in graph.inputs:
            name = self.blob()
            self.line("Input", [], [name], {})
            inputs.append((name, extents(value.shape)))
            self.publish(value, name)
        for item in graph.nodes:
            if item not in self.done:
                self.write(item)
        outputs = [(self.free[value].pop(), extents(value.shape)) for value in graph.outputs]
        text = "\n".join([str(_MAGIC), f"{len(self.lines)} {self.blobs}", *self.lines, ""])
        return NcnnNetwork(text, tuple(self.weights), tuple(inputs), tuple(outputs), self.light)

    def blob(self) -> str:
        self.blobs += 1
        return f"b{self.blobs}"

    def line(self, kind: str, inputs: list[str], outputs: list[str], params: Mapping[int, Any]) -> None:
        numbers = [f"{key}={_text(value)}" for key, value in params.items()]
        name = f"l{len(self.lines)}"
        parts = [kind, name, str(len(inputs)), str(len(outputs)), *inputs, *outputs, *numbers]
        self.lines.append(" ".join(parts))

    def publish(self, value: Value, name: str) -> None:
        """Give a value one name for each reader: operators of the region, and its caller."""
        count = sum(item.inputs.count(value) for item in self.consumers.get(value, ()))
        count += self.graph.outputs.count(value)
        if count == 1:
            self.free[value] = [name]
            return
        names = [self.blob() for _ in range(count)]
        self.line("Split", [name], names, {})
        self.free[value] = names

    def operand(self, value: Value, like: Value) -> str:
        """Return the name of an operand. A constant becomes a layer with its contents; a vector along the channels of
        `like` is broadcast.
        """
        if value not in self.constants:
            return self.free[value].pop()
        shape = extents((1, *value.shape, *[1] * (len(like.shape) - 2)) if value.ndim == 1 else value.shape)
        name = self.blob()
        self.line("MemoryData", [], [name], reshape(shape).params)
        self.weights.append((self.constants[value], False))
        return name

    def write(self, item: OpNode) -> None:
        """Write the layers of an operator, and of those after it that it takes over."""
        layer = LAYERS[item.op](item)
        if layer.weighted:
            self.write_weighted(item, layer)
            return
        names = [self.operand(v, item.output) for v in item.inputs]
        if layer.kind in _IN_PLACE and any(v in self.graph.inputs for v in item.inputs):
            self.light = False
        result, last = self.blob(), item
        self.line(layer.kind, names, [result], layer.params)
        if item.op == "nn.global_avg_pool":  # ncnn returns a vector
            after = self.only_reader(item)
            if after is not None and after.op in ("reshape", "nn.batch_flatten", "squeeze") and after.output.ndim == 2:
                self.done.add(after)
                last = after
            else:
                vector, result = result, self.blob()
                self.line("Reshape", [vector], [result], reshape(extents(item.output.shape)).params)
        self.publish(last.output, result)

    def write_weighted(self, item: OpNode, layer: Layer) -> None:
        """Write a convolution or product, with the bias and the activation after it."""
        if item.inputs[1] not in self.constants:
            raise ValueError(f"the weights of {item.output.name} are no constant")
        params, last = dict(layer.params), item
        self.weights.append((self.constants[item.inputs[1]], True))
        after = self.only_reader(last)
        if after is not None and self.is_bias(after, last):
            params[1 if layer.kind == "InnerProduct" else 5] = 1
            self.weights.append((self.constants[after.inputs[1]], False))
            last = after
        after = self.only_reader(last)
        if after is not None and after.op == "nn.relu":
            params[9] = 1
            last = after
        elif after is not None and after.op == "clip":
            low, high = float(after.attrs["a_min"]), float(after.attrs["a_max"])
            params |= {9: 3, -23310: [low, high]}
            last = after
        at: OpNode | None = item
        while at is not None and at is not last:
            at = self.only_reader(at)
            if at is not None:
                self.done.add(at)
        result = self.blob()
        self.line(layer.kind, [self.operand(item.inputs[0], item.output)], [result], params)
        self.publish(last.output, result)

    def is_bias(self, item: OpNode, producer: OpNode) -> bool:
        """Return whether an operator adds a vector of constants along the channels of another one's result."""
        channels = producer.output.shape[1]
        return (
            item.op in ("nn.bias_add", "add")
            and item.inputs[0] is producer.output
            and item.inputs[1] in self.constants
            and tuple(item.inputs[1].shape) == (channels,)
            and (item.op == "nn.bias_add" or producer.output.ndim == 2)
        )

    def only_reader(self, item: OpNode) -> OpNode | None:
        """Return the operator that alone reads a result, or None."""
        readers = self.consumers.get(item.output, ())
        return readers[0] if len(readers) == 1 and item.output not in self.graph.outputs else None


def _text(value: Any) -> str:
    """Return a parameter as text: an array is its length and its numbers."""
    if isinstance(value, list):
        return ",".join([str(len(value)), *map(_text, value)])
    # ncnn's text has no infinity; the largest number bounds all others.
    return f"{min(max(value, -_LARGEST), _LARGEST):.9e}" if isinstance(value, float) else str(value)
