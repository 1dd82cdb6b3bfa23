"""A region as JSON text, in the form of TVM's JSON serializer for external code generators:

    {"nodes": [{"op": "input", "name": "x", "attrs": {"shape": [1, 8], "dtype": "float32"}},
               {"op": "const", ...},
               {"op": "kernel", "name": "nn.dense", "inputs": [[0, 0], [1, 0]], "attrs": {...}, "outputs": [...]}],
     "arg_nodes": [0, 1], "heads": [[2, 0]], "attrs": {"name": "ncnn_0"}}

A pair [k, j] is output j of node k. `arg_nodes` are the inputs and constants, and `heads` are the results. The bytes of
constants are not in the text, because an executable stores them once.

A symbolic size is {"size": k}: expression k of `sizes`, which stores all of them as one tree (`expr.as_json`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import Unsupported
from ..expr import DType, Expr, as_json, structural_equal
from ..graph.nodes import Constant, Graph, OpNode, Value


def to_json(graph: Graph) -> str:
    """Return the text of a graph.

    Raises `Unsupported` for an attribute that JSON cannot express.
    """
    nodes: list[dict[str, Any]] = []
    sizes: dict[Expr, int] = {}
    places: dict[Value, list[int]] = {}
    for kind, values in (("input", graph.inputs), ("const", [c.value for c in graph.constants])):
        for value in values:
            places[value] = [len(nodes), 0]
            nodes.append({"op": kind, "name": value.name, "attrs": _type(value, sizes)})
    count = len(nodes)
    for item in graph.nodes:
        for number, value in enumerate(item.outputs):
            places[value] = [len(nodes), number]
        nodes.append(
            {
                "op": "kernel",
                "name": item.op,
                "inputs": [places[value] for value in item.inputs],
                "attrs": {name: _encoded(item, name, value, sizes) for name, value in item.attrs.items()},
                "outputs": [{"name": value.name, **_type(value, sizes)} for value in item.outputs],
            }
        )
    heads = [places[value] for value in graph.outputs]
    body = {"nodes": nodes, "arg_nodes": list(range(count)), "heads": heads, "attrs": {"name": graph.name}}
    if sizes:
        body["sizes"] = as_json.to_json(tuple(sizes))
    return json.dumps(body, allow_nan=False)


def from_json(text: str, constants: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph that `to_json` wrote, with the arrays of its constants by name."""
    body = json.loads(text)
    sizes = as_json.from_json(body["sizes"]) if "sizes" in body else ()
    results: list[tuple[Value, ...]] = []
    inputs, weights, items = list[Value](), list[Constant](), list[OpNode]()
    for node in body["nodes"]:
        if node["op"] == "kernel":
            operands = tuple(results[k][j] for k, j in node["inputs"])
            outputs = tuple(_value(output["name"], output, sizes) for output in node["outputs"])
            attrs = {name: _decoded(value, sizes) for name, value in node["attrs"].items()}
            items.append(OpNode(node["name"], operands, attrs, outputs))
        else:
            outputs = (_value(node["name"], node["attrs"], sizes),)
            if node["op"] == "input":
                inputs += outputs
            else:
                weights.append(Constant(outputs[0], constants[node["name"]]))
        results.append(outputs)
    heads = tuple(results[k][j] for k, j in body["heads"])
    return Graph(tuple(inputs), tuple(weights), tuple(items), heads, body["attrs"]["name"])


def _type(value: Value, sizes: dict[Expr, int]) -> dict[str, Any]:
    return {"shape": [_size(dim, sizes) if isinstance(dim, Expr) else dim for dim in value.shape],
            "dtype": str(value.dtype)}  # fmt: skip


def _size(size: Expr, sizes: dict[Expr, int]) -> dict[str, int]:
    """Return the text of a symbolic size, and add it to `sizes`."""
    number = next((k for other, k in sizes.items() if structural_equal(other, size)), None)
    if number is None:
        number = sizes[size] = len(sizes)
    return {"size": number}


def _value(name: str, about: Mapping[str, Any], sizes: Sequence[Expr]) -> Value:
    return Value(name, _decoded(about["shape"], sizes), DType(about["dtype"]))


def _encoded(item: OpNode, name: str, value: Any, sizes: dict[Expr, int]) -> Any:
    if isinstance(value, tuple):
        return [_encoded(item, name, part, sizes) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, Expr):
        return _size(value, sizes)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return {"dtype": str(value)} if isinstance(value, DType) else str(value)
    raise Unsupported(f"{item.op}: the attribute {name} is no number, text or tuple: {type(value).__name__}")


def _decoded(value: Any, sizes: Sequence[Expr]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(part, sizes) for part in value)
    if isinstance(value, dict):
        if "size" in value:
            return sizes[value["size"]]
        return DType(value["dtype"]) if "dtype" in value else float(value["float"])
    return value
