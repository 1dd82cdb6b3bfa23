"""Compute the same thing once: nodes with the same operator, inputs and attributes, and small equal constants."""

from __future__ import annotations

from typing import Any

from ..nodes import FUSED, Graph, OpNode, Value
from .rebuild import Canonical, rebuild

# Weights are not compared byte by byte: equal ones are rare, and reading them all takes time.
_LARGEST_CONSTANT = 4096


def common_subexpressions(graph: Graph) -> Graph:
    """The graph with equal computations merged into the first of each."""
    canonical = Canonical(by_identity=True)
    instead: dict[Value, Value] = {}
    known: dict[Any, tuple[Value, ...]] = {}
    for constant in graph.constants:
        if constant.data.nbytes <= _LARGEST_CONSTANT:
            first = known.setdefault(("constant", canonical.key(constant.data)), (constant.value,))
            if first[0] is not constant.value:
                instead[constant.value] = first[0]
    outputs = set(graph.outputs)
    nodes: list[OpNode] = []
    for item in graph.nodes:
        inputs = tuple(instead.get(v, v) for v in item.inputs)
        key = (item.op, tuple(map(id, inputs)), canonical.key(item.attrs))
        first = known.setdefault(key, item.outputs)
        # An output of the graph keeps its own value, and with it its name.
        if item.op == FUSED or first is item.outputs or any(v in outputs for v in item.outputs):
            nodes.append(item)
            continue
        instead.update(zip(item.outputs, first, strict=True))
    return rebuild(graph, nodes, instead=instead)
