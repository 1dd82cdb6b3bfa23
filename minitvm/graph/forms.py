"""A graph built anew, in which a value may exist in several forms: plain, in blocks, as bytes, in another layout.

A pass of layouts is a subclass. Its `rewrite` adds an operator in another form where that is possible; every other
operator is kept on plain values. A value that exists in another form only gets its plain form when that is needed.
"""

from __future__ import annotations

from typing import Any

from .builder import GraphBuilder
from .nodes import Graph, OpNode, Value
from .pattern import GraphFacts
from .rewrite import with_output_names


class Forms(GraphFacts):
    """The plain form of each value so far, `plain`, in the new graph that `b` builds; each operator is kept."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.b = GraphBuilder(graph.name)
        self.plain: dict[Value, Value] = {}
        for value in graph.inputs:
            self.plain[value] = self.b.input(value.name, value.shape, value.dtype)
        for constant in graph.constants:
            self.plain[constant.value] = self.b.constant(constant.data, constant.value.name)

    def result(self) -> Graph:
        """The new graph, after a visit of each operator; it has the states and the output names of the old one."""
        self.visit()
        return with_output_names(self.b.build([self.as_plain(v) for v in self.graph.outputs]), self.graph)

    def visit(self) -> None:
        """Rewrite or keep each operator, in order."""
        for item in self.graph.nodes:
            if not self.rewrite(item):
                self.keep(item)

    def rewrite(self, item: OpNode) -> bool:  # noqa: ARG002
        """Add an operator in another form; False leaves it to `keep`."""
        return False

    def keep(self, item: OpNode) -> None:
        """Add an operator as it was, on plain values."""
        inputs = [self.as_plain(v) for v in item.inputs]
        results: Any = self.b.op(item.op, *inputs, name=item.outputs[0].name, **item.attrs)
        self.plain.update(zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True))

    def as_plain(self, value: Value) -> Value:
        """The plain form of a value, which is added now if there is none."""
        if value not in self.plain:
            self.plain[value] = self.made_plain(value)
        return self.plain[value]

    def made_plain(self, value: Value) -> Value:
        """Add the plain form of a value that exists in another form only."""
        raise NotImplementedError
