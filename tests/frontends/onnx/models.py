"""Small ONNX models for the tests of the frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Info = tuple[str, int, Sequence[Any] | None]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Info],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model; outputs are float tensors of a shape that is not said."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(*info) for info in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9)


def one(
    op: str, *shapes: Sequence[Any], opset: int = 18, outputs: int = 1, dtype: int = TensorProto.FLOAT, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node on float inputs of those shapes."""
    names = [f"x{k}" for k in range(len(shapes))]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, name="the_node", **attrs)
    return model([node], [(n, dtype, s) for n, s in zip(names, shapes)], results, opset=opset)
