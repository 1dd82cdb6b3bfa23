"""The fused operators of an optimized graph, and the functions that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from ..graph.lower import function_key, own_graph, to_prim_func
from ..graph.names import functions
from ..graph.nodes import Graph, OpNode
from ..tir.nodes import PrimFunc
from .function import updating


class SharedFunction:
    """The computation that equal fused operators share, whatever their names. `key` identifies it, and is the same in
    every process.

    If `updated` is not None, it is the index of an input that is updated in place: the last parameter is then both this
    input and the result.
    """

    def __init__(self, name: str, graph: Graph, updated: int | None = None) -> None:
        self.name, self.graph, self.updated = name, graph, updated
        self.key = function_key(graph)
        if updated is not None:
            self.key = sha256(self.key + b"in place %d" % updated).digest()

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators in the computation."""
        return tuple(item.op for item in self.graph.nodes)

    @cached_property
    def func(self) -> PrimFunc:
        """The computation as a loop program."""
        func = to_prim_func(self.graph, name=self.name)
        return func if self.updated is None else updating(func, self.updated)


@dataclass(frozen=True, slots=True)
class Unit:
    """A fused operator of a graph that is being lowered. Units with the same function differ only in their names."""

    name: str
    node: OpNode
    function: SharedFunction

    @property
    def func(self) -> PrimFunc:
        """The loop program of the operator, shared with equal operators."""
        return self.function.func


def named(fused: Graph) -> list[tuple[str, OpNode]]:
    """Return the functions of an optimized graph by name. A name lists the operators: `conv2d_add_relu_3`."""
    return functions(fused)


def to_units(fused: Graph | Iterable[tuple[str, OpNode]], in_place: Mapping[OpNode, int] | None = None) -> list[Unit]:
    """Return a unit for each fused operator of an optimized graph.

    Instead of the graph, you may pass a part of the list that `named` returns. `in_place` maps each operator that
    updates an input in place to the index of this input.
    """
    shared: dict[bytes, SharedFunction] = {}
    units = []
    for name, node in named(fused) if isinstance(fused, Graph) else fused:
        function = SharedFunction(name, own_graph(node), (in_place or {}).get(node))
        units.append(Unit(name, node, shared.setdefault(function.key, function)))
    return units
