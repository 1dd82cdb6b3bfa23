"""The fused operators of an optimized graph, and the functions that they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..graph.lower import function_key, own_graph, to_prim_func
from ..graph.names import operator_names
from ..graph.nodes import Graph, OpNode
from ..tir.nodes import PrimFunc


class SharedFunction:
    """What equal fused operators compute, whatever their names: `key` tells it from others, in every process."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name, self.graph = name, graph
        self.key = function_key(graph)

    @cached_property
    def func(self) -> PrimFunc:
        """The level-3 function."""
        return to_prim_func(self.graph, name=self.name)


@dataclass(frozen=True, slots=True)
class Unit:
    """One fused operator of a graph on its way down; equal ones share all but the name."""

    name: str
    node: OpNode
    function: SharedFunction

    @property
    def func(self) -> PrimFunc:
        """Its level-3 function, which it shares with equal operators."""
        return self.function.func


def named(fused: Graph) -> list[tuple[str, OpNode]]:
    """The nodes of an optimized graph, each under a name that tells what it does: `conv2d_add_relu_3`."""
    return list(zip(operator_names(fused), fused.nodes, strict=True))


def to_units(fused: Graph | Iterable[tuple[str, OpNode]]) -> list[Unit]:
    """The fused operators of an optimized graph, or some of them, as `named` gives them."""
    shared: dict[bytes, SharedFunction] = {}
    units = []
    for name, node in named(fused) if isinstance(fused, Graph) else fused:
        function = SharedFunction(name, own_graph(node))
        units.append(Unit(name, node, shared.setdefault(function.key, function)))
    return units
