"""Compute equal values only once: nodes with the same operator, inputs and attributes, and small equal constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...expr import Node, Var
from ..nodes import FUSED, Graph, OpNode, Value
from ..rewrite import rebuild

# Weights are not compared byte by byte: equal ones are rare, and reading them all takes time.
_LARGEST_CONSTANT = 4096


def common_subexpressions(graph: Graph) -> Graph:
    """Merge equal computations into the first one.

    before:
        x = b.input("x", (2, 3))
        y = b.op("exp", x)
        z = b.op("exp", x)
        return b.op("add", y, z)
    after:
        def main(x: float32[2, 3]):
            exp: float32[2, 3] = exp(x)
            add: float32[2, 3] = add(exp, exp)
            return add
    """
    instead: dict[Value, Value] = {}
    first_of: dict[Any, tuple[Value, ...]] = {}
    for constant in graph.constants:
        if constant.data.nbytes <= _LARGEST_CONSTANT:
            first = first_of.setdefault(("constant", _key(constant.data)), (constant.value,))
            if first[0] is not constant.value:
                instead[constant.value] = first[0]
    outputs = set(graph.outputs)
    nodes: list[OpNode] = []
    for item in graph.nodes:
        inputs = tuple(instead.get(v, v) for v in item.inputs)
        key = (item.op, tuple(map(id, inputs)), _key(item.attrs))
        first = first_of.setdefault(key, item.outputs)
        # An output of the graph keeps its own value, and with it its name.
        if item.op == FUSED or first is item.outputs or any(v in outputs for v in item.outputs):
            nodes.append(item)
            continue
        instead.update(zip(item.outputs, first, strict=True))
    return rebuild(graph, nodes, instead=instead)


def _key(value: Any) -> Any:
    """Return a hashable key for an attribute or array. Two keys are equal exactly if the values mean the same."""
    if isinstance(value, Var | Graph):
        return (type(value).__name__, id(value))
    if isinstance(value, Node):
        fields = dataclasses.fields(value)  # type: ignore[arg-type]
        return (type(value).__name__, *(_key(getattr(value, f.name)) for f in fields))
    if isinstance(value, tuple | list):
        return tuple(_key(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    return (type(value).__name__, value)
