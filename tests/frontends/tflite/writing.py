"""Write TFLite models by the classes of LiteRT's own schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9, "float64": 10,
    "uint64": 12, "uint32": 15, "uint16": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model. `data` are its contents if it is constant; `scale` and `zero` its quantisation."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    data: np.ndarray | None = None
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    axis: int = 0
    variable: bool = False
    open_axes: tuple[int, ...] = ()

    def written(self, name: str, buffer: int) -> Any:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name.encode(), list(self.shape), TYPES[self.dtype]
        tensor.buffer, tensor.isVariable, tensor.hasRank = buffer, self.variable, True
        tensor.shapeSignature = [-1 if axis in self.open_axes else n for axis, n in enumerate(self.shape)]
        if self.scale is not None:
            q = tensor.quantization = schema.QuantizationParametersT()
            q.scale = np.atleast_1d(np.asarray(self.scale, np.float32))
            q.zeroPoint = np.broadcast_to(np.asarray(self.zero, np.int64), q.scale.shape).copy()
            q.quantizedDimension = self.axis
        return tensor


def constant(array: Any, dtype: str | None = None, **quantised: Any) -> Tensor:
    """A constant tensor."""
    data = np.asarray(array, dtype)
    return Tensor(data.shape, data.dtype.name, data, **quantised)


@dataclass(frozen=True)
class Node:
    """An operator on tensors, given by their indices. `options` are fields of the schema's class `table`."""

    op: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    table: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True)
class Graph:
    """A subgraph: its tensors, its operators, and which tensors are its inputs and outputs."""

    tensors: Sequence[Tensor]
    nodes: Sequence[Node]
    inputs: Sequence[int]
    outputs: Sequence[int]


def written(*graphs: Graph) -> bytes:
    """A model with these subgraphs, as the bytes of a file."""
    model = schema.ModelT()
    model.version, model.description, model.buffers = 3, b"a test of minitvm", [schema.BufferT()]
    model.subgraphs, model.operatorCodes = [], []
    for graph in graphs:
        new = schema.SubGraphT()
        new.name, new.inputs, new.outputs = b"main", list(graph.inputs), list(graph.outputs)
        new.tensors = [t.written(f"t{k}", _buffer(model, t)) for k, t in enumerate(graph.tensors)]
        new.operators = [_operator(model, node) for node in graph.nodes]
        model.subgraphs.append(new)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _buffer(model: Any, tensor: Tensor) -> int:
    if tensor.data is None:
        return 0
    contents = schema.BufferT()
    contents.data = np.frombuffer(np.ascontiguousarray(tensor.data).tobytes(), np.uint8)
    model.buffers.append(contents)
    return len(model.buffers) - 1


def _operator(model: Any, node: Node) -> Any:
    new, code = schema.OperatorT(), schema.OperatorCodeT()
    number = getattr(schema.BuiltinOperator, node.op)
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), node.version
    model.operatorCodes.append(code)
    new.opcodeIndex, new.inputs, new.outputs = len(model.operatorCodes) - 1, list(node.inputs), list(node.outputs)
    if node.table:
        second = not hasattr(schema.BuiltinOptions, node.table)
        options = getattr(schema, f"{node.table}T")()
        for name, value in node.options.items():
            assert hasattr(options, name), f"{node.table} has no field {name}"
            setattr(options, name, value)
        kind = getattr(schema.BuiltinOptions2 if second else schema.BuiltinOptions, node.table)
        if second:
            new.builtinOptions2Type, new.builtinOptions2 = kind, options
        else:
            new.builtinOptionsType, new.builtinOptions = kind, options
    return new


@dataclass(frozen=True)
class Case:
    """A model of one operator; None in `inputs` is left out.

    `ranges` bounds the arrays of inputs by their positions. `optimised` selects LiteRT's optimised kernel.
    """

    op: str
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor]
    table: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    version: int = 1
    optimised: bool = False

    def __str__(self) -> str:
        shapes = "_".join("x".join(map(str, t.shape)) + t.dtype[:1] + t.dtype[-2:] for t in self.inputs if t)
        return f"{self.op}-{shapes}"

    def model(self) -> bytes:
        """The model as the bytes of a file."""
        tensors = [tensor for tensor in self.inputs if tensor is not None]
        places = iter(range(len(tensors)))
        inputs = [-1 if tensor is None else next(places) for tensor in self.inputs]
        outputs = range(len(tensors), len(tensors) + len(self.outputs))
        free = [k for k, tensor in enumerate(tensors) if tensor.data is None and not tensor.variable]
        node = Node(self.op, inputs, outputs, self.table, self.options, self.version)
        return written(Graph([*tensors, *self.outputs], [node], free, outputs))

    def arrays(self, seed: int) -> list[np.ndarray]:
        """Arrays for the inputs: normal floats, or integers of the whole range; or of the case's own ranges."""
        generator = np.random.default_rng(seed)
        arrays = []
        for position, tensor in enumerate(self.inputs):
            if tensor is None or tensor.data is not None or tensor.variable:
                continue
            dtype = np.dtype(tensor.dtype)
            low, high = self.ranges.get(position, (None, 0.0))
            if dtype.kind == "b":
                array = generator.integers(0, 2, tensor.shape).astype(bool)
            elif dtype.kind == "f":
                array = generator.standard_normal(tensor.shape)
                array = array if low is None else generator.uniform(low, high, tensor.shape)
            else:
                if low is None:
                    low, high = (max(np.iinfo(dtype).min, -200), min(np.iinfo(dtype).max, 200))
                array = generator.integers(int(low), int(high), tensor.shape, endpoint=True)
            arrays.append(array.astype(dtype))
        return arrays
