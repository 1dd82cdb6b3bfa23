"""Name the outputs of an imported graph as the model does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...expr import replace
from ...graph.nodes import Graph, Value


def with_output_names(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph with the model's names for its outputs. An input that is returned keeps its name."""
    produced = {v for item in graph.nodes for v in item.outputs} | {c.value for c in graph.constants}
    renamed: dict[Value, Value] = {}
    for value, name in zip(graph.outputs, names, strict=False):
        if value in produced and value.name != name and value not in renamed:
            renamed[value] = Value(name, value.shape, value.dtype)
    if not renamed:
        return graph
    renamed_of = {v.name: v for v in renamed.values()}
    for value in graph.values():
        if value not in renamed and value.name in renamed_of and value in produced:
            renamed[value] = Value(f"{value.name}_inner", value.shape, value.dtype)

    def of(values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(renamed.get(v, v) for v in values)

    nodes = tuple(replace(item, inputs=of(item.inputs), outputs=of(item.outputs)) for item in graph.nodes)
    constants = tuple(replace(c, value=renamed.get(c.value, c.value)) for c in graph.constants)
    return replace(graph, constants=constants, nodes=nodes, outputs=of(graph.outputs))
