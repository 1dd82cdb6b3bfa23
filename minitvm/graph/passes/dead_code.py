"""Remove nodes and constants that no output needs. The inputs stay: they are the graph's signature."""

from __future__ import annotations

from ...expr import replace
from ..nodes import Graph, OpNode, Value


def dead_code(graph: Graph) -> Graph:
    """The graph without what its outputs do not depend on."""
    needed: set[Value] = set(graph.outputs)
    kept: list[OpNode] = []
    for item in reversed(graph.nodes):
        if any(value in needed for value in item.outputs):
            kept.append(item)
            needed.update(item.inputs)
    constants = tuple(c for c in graph.constants if c.value in needed)
    return replace(graph, constants=constants, nodes=tuple(reversed(kept)))
