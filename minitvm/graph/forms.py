"""Rebuild a graph so that a value may exist in several forms: plain, in blocks, as bytes, or in another layout.

A layout pass is a subclass. Its `rewrite` adds an operator in another form if that is possible; all other operators are
kept, on plain values. If a value exists only in another form, its plain form is added when it is needed.
"""

from __future__ import annotations

from typing import Any

from .builder import GraphBuilder
from .nodes import Graph, OpNode, Value
from .pattern import GraphFacts
from .rewrite import with_output_names


class Forms(GraphFacts):
    """Base class of passes that change layouts. `plain` holds the plain form of each value so far, in the new graph
    `b`.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.b = GraphBuilder(graph.name)
        self.plain: dict[Value, Value] = {}
        for value in graph.inputs:
            self.plain[value] = self.b.input(value.name, value.shape, value.dtype)
        for constant in graph.constants:
            self.plain[constant.value] = self.b.constant(constant.data, constant.value.name)

    def result(self) -> Graph:
        """Visit each operator and return the new graph, with the states and the output names of the old one."""
        self.visit()
        return with_output_names(self.b.build([self.as_plain(v) for v in self.graph.outputs]), self.graph)

    def visit(self) -> None:
        """Rewrite or keep each operator, in order."""
        for item in self.graph.nodes:
            if not self.rewrite(item):
                self.keep(item)

    def rewrite(self, item: OpNode) -> bool:  # noqa: ARG002
        """Add an operator in another form and return True, or return False to leave it to `keep`."""
        return False

    def keep(self, item: OpNode) -> None:
        """Add an operator unchanged, reading plain values."""
        inputs = [self.as_plain(v) for v in item.inputs]
        results: Any = self.b.op(item.op, *inputs, name=item.outputs[0].name, **item.attrs)
        self.plain.update(zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True))

    def as_plain(self, value: Value) -> Value:
        """Return the plain form of a value, adding it if there is none yet."""
        if value not in self.plain:
            self.plain[value] = self.made_plain(value)
        return self.plain[value]

    def made_plain(self, value: Value) -> Value:
        """Add the plain form of a value that so far exists only in another form, and return it."""
        raise NotImplementedError
