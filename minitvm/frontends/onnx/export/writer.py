"""Collect the nodes and weights of an ONNX graph while a graph is exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedOperator, nearest
from ....expr import Expr, IntImm, SizeVar
from ....graph import Graph, OpNode, Value

_WORDS = {"float32": "float", "float64": "double"}  # ONNX's words for dtypes, where they are not NumPy's
Exports = Mapping[str, Callable[[Any, OpNode], None]]


class Writer:
    """Collects the nodes and weights of an ONNX graph."""

    def __init__(
        self, helper: Any, numpy_helper: Any, graph: Graph, exports: Exports, opset: int, around: Writer | None = None
    ) -> None:
        self._exports, self.opset = exports, opset
        self._helper, self._numpy_helper = helper, numpy_helper
        self._graph = graph
        self.around = around  # who writes the graph around a body, whose values the body sees
        self.inputs = graph.inputs
        self.producers, self.arrays = graph.producers(), graph.arrays()
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.results: dict[Value, str] = {}  # what a value has before the zeros that fill it up
        # The vectors of sizes that are known in this graph, with the count for data-dependent sizes.
        self.sizes: dict[Expr, tuple[str, Value | None]] = {}

    def inside(self, body: Graph) -> Writer:
        """Return a writer for the body of a loop, which may use the sizes that are known outside of it."""
        writer = Writer(self._helper, self._numpy_helper, body, self._exports, self.opset, around=self)
        writer.sizes.update(self.sizes)
        return writer

    def operators(self) -> None:
        """Write the constants and operators of the graph."""
        for constant in self._graph.constants:
            self.initializers.append(self._numpy_helper.from_array(constant.data, constant.value.name))
        for node in self._graph.nodes:
            if node.op not in self._exports:
                known = nearest(node.op, list(self._exports))
                raise UnsupportedOperator(f"no ONNX operator is known for {node.op}; {known}")
            self._exports[node.op](self, node)

    def graph(self, name: str, inputs: Sequence[Value], outputs: Sequence[Any]) -> Any:
        """Return the `onnx.GraphProto` of the written nodes that are needed."""
        self._drop_unused([info.name for info in outputs])
        return self._helper.make_graph(self.nodes, name, list(map(self.info, inputs)), outputs, self.initializers)

    def info(self, value: Value) -> Any:
        """Return the declaration of a value."""
        return _info(self._helper, value)

    @property
    def integer(self) -> int:
        """ONNX's code for the dtype int64."""
        return self.number_of("int64")

    def number_of(self, dtype: str) -> int:
        """Return the number of a dtype in ONNX."""
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Add an ONNX node. Attributes that are None are left out."""
        present = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(self._helper.make_node(op, list(inputs), list(outputs), **present))

    def require_types(self, op: str, node: OpNode) -> None:
        """Raise `UnsupportedOperator` if the opset does not have an operator, or not for the dtypes of the inputs."""
        from onnx import defs

        if not defs.has(op, self.opset):
            raise UnsupportedOperator(
                f"{node.op}: ONNX has no {op} in opset {self.opset}\n  try:    to_onnx(graph, opset=...)"
            )
        parameters = defs.get_schema(op, self.opset).inputs
        for position, value in enumerate(node.inputs):
            dtype = str(value.dtype)
            kind = f"tensor({_WORDS.get(dtype, dtype)})"
            if kind not in parameters[min(position, len(parameters) - 1)].types:
                raise UnsupportedOperator(f"{node.op}: ONNX's {op} of opset {self.opset} takes no {dtype}")

    def element_type(self, value: Value) -> int:
        """Return the number of a value's dtype in ONNX."""
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype.numpy)))

    def weight(self, name: str, array: Any, dtype: str = "int64") -> str:
        """Add a constant and return its name."""
        self.initializers.append(self._numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def outputs_of(self, values: Sequence[Value]) -> list[Any]:
        """Return the declarations of outputs. An output that is an input, a constant or a repetition gets a new
        name.
        """
        produced = set(self.producers)
        infos = []
        for position, value in enumerate(values):
            if value in produced:
                produced.discard(value)
                infos.append(_info(self._helper, value))
                continue
            name = f"{value.name}_output_{position}"
            self.node("Identity", [value.name], [name])
            infos.append(_info(self._helper, value, name))
        return infos

    def _drop_unused(self, outputs: Sequence[str]) -> None:
        """Drop the nodes and weights on which none of the outputs depend."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed.update(node.input)
                needed.update(_read_inside(node))
                kept.append(node)
        self.nodes = kept[::-1]
        self.initializers = [weight for weight in self.initializers if weight.name in needed]


def _read_inside(node: Any) -> set[str]:
    """Return all names that the graphs in a node's attributes read."""
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    inner = [item for body in bodies for item in body.node]
    return {name for item in inner for name in (*item.input, *_read_inside(item))}


def _info(helper: Any, value: Value, name: str | None = None) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype.numpy))
    return helper.make_tensor_value_info(name or value.name, kind, [dim_of(d) for d in value.shape])


def dim_of(dim: Any) -> int | str | None:
    """Return a dimension as ONNX declares it: a number, a name, or None for unknown."""
    if isinstance(dim, int | IntImm):
        return int(dim) if isinstance(dim, int) else int(dim.value)
    return dim.name if isinstance(dim, SizeVar) else None
