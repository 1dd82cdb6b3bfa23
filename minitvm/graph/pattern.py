"""Patterns of operators in a graph. You write a pattern as the graph that it matches.

    x, w = value("x"), constant("w")
    product = op("nn.conv2d", x, w, name="product", alone=True)
    biased = op("nn.bias_add", product | x, constant("bias"))
    for match in matches(biased, item, GraphFacts(graph)):
        match["x"], match.array("bias"), match.node("product") if "product" in match else None

A chain of operators can also be written from its first to its last operator. The optional ones may be missing:

    op("nn.conv2d", x, w).then("nn.bias_add", constant(), optional=True).then("nn.relu", optional=True)

`value` matches any value, `constant` matches a value whose array is known, and `op` matches the output of an operator
whose inputs match. Each accepts a condition (`when`), and a name under which a match holds the value. A name that
occurs twice must hold the same value both times: `op("multiply", x, op("sigmoid", x))` is x * sigmoid(x). `p | q`
matches if p or q matches; p is tried first. `graph.rewrite` applies tables of rules whose left sides are such patterns.
After Relax's dataflow patterns (Lai et al., ASPLOS'25) and tinygrad's `PatternMatcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import EllipsisType

import numpy as np

from .nodes import Graph, OpNode, Value


class GraphFacts:
    """The node that computes each value of a graph, the nodes that read it, and the arrays of the constants."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.returned = frozenset(graph.outputs)

    @cached_property
    def arrays(self) -> dict[Value, np.ndarray]:
        """The arrays of the constants, by value."""
        return self.graph.arrays()

    @cached_property
    def producers(self) -> dict[Value, OpNode]:
        """The node that computes each value. Inputs and constants have none."""
        return self.graph.producers()

    @cached_property
    def consumers(self) -> dict[Value, list[OpNode]]:
        """The nodes that read each value, without repetition."""
        return self.graph.consumers()

    def only_reader(self, value: Value) -> OpNode | None:
        """Return the single node that reads a value, or None.

        The result is None if there are several readers, if the node reads the value twice, or if the graph returns it.
        """
        readers = self.consumers.get(value, [])
        alone = len(readers) == 1 and value not in self.returned and readers[0].inputs.count(value) == 1
        return readers[0] if alone else None


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a pattern: the node at the root of the match, the matched values by name, and the operators that the
    pattern names, the root first.
    """

    root: OpNode
    facts: GraphFacts
    values: Mapping[str, Value]
    nodes: tuple[OpNode, ...] = ()

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def node(self, name: str) -> OpNode:
        """Return the node that computes the value that the pattern calls `name`."""
        return self.facts.producers[self.values[name]]

    def array(self, name: str) -> np.ndarray:
        """Return the array of the constant that the pattern calls `name`."""
        return self.facts.arrays[self.values[name]]


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """A pattern for a value. It matches any value for which `when(value, facts)` holds."""

    name: str = ""
    when: Callable[[Value, GraphFacts], bool] | None = None

    def __or__(self, other: ValuePattern) -> ValuePattern:
        return _Either(first=self, second=other)

    def then(
        self, ops: str | Collection[str], *operands: ValuePattern, optional: bool = False, any_order: bool = False
    ) -> ValuePattern:
        """Return a pattern for an operator whose first input matches this pattern, and its further inputs `operands`.

        Without `operands`, it may have any further inputs. If it is `optional`, the result also matches without it.
        With `any_order`, the first two inputs may be in either order.
        """
        reader = op(ops, self, *operands or (...,), any_order=any_order)
        return reader | self if optional else reader

    def matches(self, value: Value, match: Match) -> Iterator[Match]:
        """Yield the ways to match a value. Each is `match` plus the names that this pattern adds."""
        if self.when is None or self.when(value, match.facts):
            yield from self._named(value, match)

    def _named(self, value: Value, match: Match) -> Iterator[Match]:
        if not self.name:
            yield match
        elif match.values.get(self.name, value) is value:
            yield replace(match, values={**match.values, self.name: value})


@dataclass(frozen=True, slots=True)
class _Either(ValuePattern):
    first: ValuePattern = ValuePattern()
    second: ValuePattern = ValuePattern()

    def matches(self, value: Value, match: Match) -> Iterator[Match]:
        yield from self.first.matches(value, match)
        yield from self.second.matches(value, match)


@dataclass(frozen=True, slots=True)
class OpPattern(ValuePattern):
    """A pattern for the output of one of the operators `ops`, or of any operator if `ops` is empty; see `op`."""

    ops: frozenset[str] = frozenset()
    operands: tuple[ValuePattern, ...] = ()
    others: ValuePattern | None = None
    holds: Callable[[OpNode], bool] | None = None
    alone: bool = False
    any_order: bool = False

    def matches(self, value: Value, match: Match) -> Iterator[Match]:
        node = match.facts.producers.get(value)
        if node is None or len(node.outputs) != 1 or (self.alone and match.facts.only_reader(value) is None):
            return
        inputs, more = node.inputs, len(node.inputs) - len(self.operands)
        if (self.ops and node.op not in self.ops) or more < 0 or (more and self.others is None):
            return
        if self.holds is not None and not self.holds(node):
            return
        patterns = (*self.operands, *[self.others or ValuePattern()] * more)
        for named in self._named(value, replace(match, nodes=(*match.nodes, node))):
            yield from _all_match(patterns, inputs, named)
            if self.any_order and len(inputs) > 1:
                yield from _all_match(patterns, (inputs[1], inputs[0], *inputs[2:]), named)


def _all_match(patterns: tuple[ValuePattern, ...], values: tuple[Value, ...], match: Match) -> Iterator[Match]:
    """Yield the ways to match each value with its pattern."""
    if not patterns:
        yield match
        return
    for more in patterns[0].matches(values[0], match):
        yield from _all_match(patterns[1:], values[1:], more)


def value(name: str = "", when: Callable[[Value], bool] | None = None) -> ValuePattern:
    """Return a pattern for any value for which `when(value)` holds."""
    return ValuePattern(name, None if when is None else lambda v, facts: when(v))


def constant(name: str = "", when: Callable[[np.ndarray], bool] | None = None) -> ValuePattern:
    """Return a pattern for a constant whose array satisfies `when(array)`."""
    return ValuePattern(name, lambda v, facts: v in facts.arrays and (when is None or when(facts.arrays[v])))


def op(
    ops: str | Collection[str],
    *operands: ValuePattern | EllipsisType,
    others: ValuePattern | None = None,
    name: str = "",
    when: Callable[[OpNode], bool] | None = None,
    alone: bool = False,
    any_order: bool = False,
) -> OpPattern:
    """Return a pattern for the output of the operator `ops`, or of one of several operators; `()` stands for all
    operators.

    The operands are patterns for its first inputs. Each further input must match `others`; without `others` there must
    be none. A last operand `...` allows any further inputs. `when(node)` is a condition on the node, its attributes and
    types. `alone` requires that only one operator reads the output, and reads it once. `any_order` also tries the first
    two operands in reverse order.
    """
    names = frozenset((ops,) if isinstance(ops, str) else ops)
    if operands and operands[-1] is ...:
        others = ValuePattern()
    patterns = tuple(p for p in operands if not isinstance(p, EllipsisType))
    return OpPattern(name, None, names, patterns, others, when, alone, any_order)


def matches(pattern: ValuePattern, item: OpNode, facts: GraphFacts) -> Iterator[Match]:
    """Yield the ways in which the pattern matches with `item` at its root. `item` must have one output to match."""
    if len(item.outputs) == 1:
        yield from pattern.matches(item.outputs[0], Match(item, facts, {}))
