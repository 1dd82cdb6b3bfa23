"""The graphs of a program: the optimized graph and, nested in it, the bodies of its loops.

A `GraphLevel` holds the facts about one graph that linking needs: which operators update their input in place, which
concatenations need no copy, and where the values that a loop carries are placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..expr import replace
from ..graph.loop_bodies import carried_inputs, outside_inputs
from ..graph.nodes import CALL_PACKED, FUSED, LOOP, Graph, GraphState
from ..lowering.units import Unit, to_units
from .in_place import InPlace, Joined, in_place, joined, written_directly
from .steps import binding_of, is_view, writes_its_output


@dataclass(frozen=True, slots=True)
class GraphLevel:
    """One graph of a program, with the decisions about where its values are stored.

    `updates` are the operators that update in place a state, a carried value, or a value that a function computes. Its
    `states` are numbered like the pairs of the graph's states, or like the carried values of the loop. `direct` holds
    the indices of the carried values whose new value is written directly over the old one, because the operator that
    computes it runs after all readers of the old one. `taken` maps the initial value of a loop of this graph to the
    result of the loop: the initial value is computed directly in the memory of the carried value.
    """

    graph: Graph
    updates: InPlace
    together: Joined
    bodies: Mapping[Any, GraphLevel]
    direct: frozenset[int] = frozenset()
    taken: Mapping[Any, Any] | None = None

    def all(self) -> Iterator[GraphLevel]:
        """Yield this level and the levels nested in it, in program order."""
        yield self
        for body in self.bodies.values():
            yield from body.all()

    def needs_function(self, node: Any) -> bool:
        """Return whether kernels compute a node of this graph."""
        return (
            node.op not in (CALL_PACKED, LOOP)
            and not node.engine
            and node not in self.together.nodes
            and binding_of(node) is None
        )


def level_of(fused: Graph) -> GraphLevel:
    """Return the level of an optimized graph, with all decisions made."""
    return _level(fused, in_place(fused, is_view, writes_its_output), frozenset())


def _level(graph: Graph, updates: InPlace, direct: frozenset[int]) -> GraphLevel:
    bodies = {node: _body(node) for node in graph.nodes if node.op == LOOP}
    together = joined(graph, writes_its_output, updates.placed)
    return GraphLevel(graph, updates, together, bodies, direct, _taken(graph, updates, together))


def _body(node: Any) -> GraphLevel:
    """Return the level of a loop's body.

    A carried value is treated as a state, because it begins as an input and ends as an output.
    """
    states = tuple(GraphState(1 + k, 1 + k) for k in range(node.attrs["carried"]))
    carrying = replace(node.body, states=states)
    updates = in_place(carrying, is_view, writes_its_output)
    level = _level(node.body, updates, frozenset())
    return replace_direct(level, written_directly(carrying, updates, is_view, level.needs_function))


def replace_direct(level: GraphLevel, direct: frozenset[int]) -> GraphLevel:
    """Return the level with `direct` replaced: the indices of the carried values that are written directly over old
    ones.
    """
    return GraphLevel(level.graph, level.updates, level.together, level.bodies, direct, level.taken)


def _taken(graph: Graph, updates: InPlace, together: Joined) -> dict[Any, Any]:
    """Return the initial values of loops that may be computed directly in the memory of the carried value.

    A function of this graph computes such a value into its own memory, and only the loop reads it, once.
    """
    readers: dict[Any, int] = {}
    for node in graph.nodes:
        for value in node.inputs:
            readers[value] = readers.get(value, 0) + 1
    producers, placed = graph.producers(), set(updates.placed)
    taken: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op != LOOP:
            continue
        for value, result in zip(carried_inputs(node), node.outputs[1:], strict=True):
            made = producers.get(value)
            fixed = value in graph.outputs or value in together.parts or value in together.wholes
            if made is None or made.op != FUSED or is_view(made) or binding_of(made) is not None or fixed:
                continue
            if readers[value] == 1 and value not in placed and value not in outside_inputs(node):
                taken[value] = result
    return taken


def units_of(level: GraphLevel) -> dict[Any, Unit]:
    """Return the unit of each node of a program. Equal functions are shared across all levels."""
    updates = {node: number for inner in level.all() for node, number in inner.updates.nodes.items()}
    return {unit.node: unit for unit in to_units(level.graph, updates)}
