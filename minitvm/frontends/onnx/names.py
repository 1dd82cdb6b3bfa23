"""ONNX's rule for names: each name is defined once (static single assignment)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import ModelError, report
from .context import label


def require_single_definitions(model: Any) -> None:
    """Raise `ModelError` if a graph, a branch or a function of the model defines a name twice.

    An input may have an initializer, which is its default. The inputs and initializers of a branch may hide surrounding
    names; its nodes may not.
    """
    _check(model.graph, {})
    for function in model.functions:
        places: dict[str, str] = {}
        for name in function.input:
            _define(places, name, f"the inputs of the function {function.name}")
        _nodes(function.node, places)


def _check(graph: Any, around: Mapping[str, str]) -> None:
    inputs: dict[str, str] = {}
    for value in graph.input:
        _define(inputs, value.name, "the inputs")
    weights: dict[str, str] = {}
    for name in (*(t.name for t in graph.initializer), *(t.values.name for t in graph.sparse_initializer)):
        _define(weights, name, "the initializers")
    _nodes(graph.node, {**around, **inputs, **weights})


def _nodes(nodes: Iterable[Any], places: dict[str, str]) -> None:
    """Check the definitions of nodes, in order. `places` maps names to earlier definitions, and is extended."""
    for node in nodes:
        for attribute in node.attribute:
            for inner in (attribute.g,) if attribute.HasField("g") else attribute.graphs:
                _check(inner, places)
        for name in node.output:
            _define(places, name, label(node))


def _define(places: dict[str, str], name: str, place: str) -> None:
    if name and name in places:
        raise ModelError(
            report(
                f"the model defines the name {name!r} twice",
                wanted="one definition of each name: otherwise the order decides what a node reads",
                found=f"{name!r} in {places[name]}, and in {place}",
                tries=("another name for one of them; onnx.compose.add_prefix renames a model that you merge",),
            )
        )
    places[name] = place
