"""Tables of rules that rewrite a graph. A rule is a pattern, and a replacement for the operator at the pattern's root.

    RULES = [
        RewriteRule(op("transpose", x, when=keeps_order), "x"),             # one of the values that the pattern names
        RewriteRule(op("transpose", op("transpose", x, name="inner")), one_transpose),
    ]

    def one_transpose(b: Rewriter, match: Match) -> Value | None:
        return b.op("transpose", match["x"], axes=..., name=match.root.output.name)

`rewrite(graph, RULES)` visits the nodes in order, and applies to each the first rule in the table that matches and does
not return None. Patterns match the graph as it was before the first visit. The new operators are placed where the root
was, and the readers of its output read the new value. With `repeat`, all nodes are visited again until no rule applies.
The graph keeps its inputs, its states and the names of its outputs; without a rule that applies it is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import Expr, replace, structural_equal
from .builder import GraphBuilder
from .nodes import Constant, Graph, OpNode, Value
from .pattern import GraphFacts, Match, OpPattern, matches


class Rewriter(GraphBuilder):
    """A builder for a graph that replaces another graph. You may pass values of the old graph as operands.

    `op` replaces each old value with its new value. Nodes and values that do not change stay the same objects, with
    their names.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.graph = graph
        self.instead: dict[Value, Value] = {}
        self._inputs, self._constants = list(graph.inputs), list(graph.constants)
        self._adopt((*graph.inputs, *(c.value for c in graph.constants)))

    def now(self, value: Value) -> Value:
        """Return the new value that replaces a value of the old graph."""
        while value in self.instead:
            value = self.instead[value]
        return value

    def keep(self, item: OpNode) -> None:
        """Add an operator of the old graph unchanged. Its types are inferred again if the types of its inputs have
        changed.
        """
        inputs = tuple(map(self.now, item.inputs))
        changed = [(new, old) for new, old in zip(inputs, item.inputs, strict=True) if new is not old]
        if all(new.dtype == old.dtype and same_shape(new.shape, old.shape) for new, old in changed):
            self._nodes.append(OpNode(item.op, inputs, item.attrs, item.outputs, item.where) if changed else item)
            self._adopt(item.outputs)
            return
        results = self.op(item.op, *inputs, name=item.outputs[0].name, **item.attrs)
        self.instead.update(zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True))

    def remove(self, item: OpNode) -> None:
        """Remove an operator that `keep` added and that no node reads any longer. Its name becomes free again."""
        outputs = tuple(map(self.now, item.outputs))
        self._nodes = [n for n in self._nodes if n.outputs != outputs]
        self._known.difference_update(outputs)
        self._names.difference_update(v.name for v in outputs)

    def _adopt(self, values: Sequence[Value]) -> None:
        """Record values of the old graph as values of the new one."""
        self._known.update(values)
        self._names.update(v.name for v in values)

    def _values(self, op: str, inputs: Sequence[Any]) -> tuple[Value, ...]:
        return super()._values(op, [self.now(v) if isinstance(v, Value) else v for v in inputs])

    def result(self) -> Graph:
        """Return the new graph, with the states and the output names of the old one."""
        outputs = [self.now(v) for v in self.graph.outputs]
        return with_output_names(self.build(outputs), self.graph)


Make = Callable[[Rewriter, Match], Value | None]


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A pattern, and the replacement for the output of its root: a value that the pattern names, or a result of `make`.

    `make(b, match)` adds operators to the builder and returns the new value. If it returns None, it must not have added
    any operators.
    """

    pattern: OpPattern
    make: str | Make

    def applied(self, b: Rewriter, item: OpNode, facts: GraphFacts) -> Value | None:
        """Return the value that replaces the output of `item`, or None if the rule does not apply."""
        for match in matches(self.pattern, item, facts):
            if isinstance(self.make, str):
                # An output of the graph keeps its own value, and with it its name.
                return None if item.output in facts.returned else match[self.make]
            result = self.make(b, match)
            if result is not None:
                return result
        return None


def rewrite(graph: Graph, rules: Sequence[RewriteRule], *, repeat: bool = False) -> Graph:
    """Apply the rules to each node, in order, and return the new graph. With `repeat`, do so until no rule applies."""
    while True:
        rewritten = _visited(graph, rules)
        if rewritten is graph or not repeat:
            return rewritten
        graph = rewritten


def _visited(graph: Graph, rules: Sequence[RewriteRule]) -> Graph:
    """Return the graph after visiting each node once, or the graph itself if no rule applied."""
    facts, b = GraphFacts(graph), Rewriter(graph)
    of_operator: dict[str, list[RewriteRule]] = {}
    changed = False
    for item in graph.nodes:
        if item.op not in of_operator:
            of_operator[item.op] = [r for r in rules if not r.pattern.ops or item.op in r.pattern.ops]
        b.where = item.where
        results = (rule.applied(b, item, facts) for rule in of_operator[item.op])
        result = next((value for value in results if value is not None), None)
        if result is None:
            b.keep(item)
        else:
            b.instead[item.output] = result
            changed = True
    return b.result() if changed else graph


def rebuild(
    graph: Graph,
    nodes: Iterable[OpNode],
    constants: Iterable[Constant] = (),
    instead: Mapping[Value, Value] | None = None,
) -> Graph:
    """Return `graph` with other nodes and additional constants, replacing each key of `instead` with its value
    everywhere.
    """
    stand_in = dict(instead or {})

    def resolved(value: Value) -> Value:
        while value in stand_in:
            value = stand_in[value]
        return value

    renewed = tuple(
        OpNode(n.op, tuple(map(resolved, n.inputs)), n.attrs, n.outputs, n.where)
        if any(v in stand_in for v in n.inputs)
        else n
        for n in nodes
    )
    outputs = tuple(map(resolved, graph.outputs))
    return replace(graph, constants=(*graph.constants, *constants), nodes=renewed, outputs=outputs)


def with_output_names(graph: Graph, like: Graph) -> Graph:
    """Return `graph` with the states and output names of `like`. Callers look up outputs by name."""
    renamed: dict[Value, Value] = {}
    fixed = {*graph.inputs, *(c.value for c in graph.constants)}
    for own, other in zip(graph.outputs, like.outputs, strict=True):
        if own.name != other.name and own not in fixed:
            renamed.setdefault(own, Value(other.name, own.shape, own.dtype))

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(renamed.get(v, v) for v in values)

    nodes = graph.nodes
    if renamed:
        nodes = tuple(OpNode(n.op, of(n.inputs), n.attrs, of(n.outputs), n.where) for n in nodes)
    return replace(graph, nodes=nodes, outputs=of(graph.outputs), states=like.states)


def same_shape(a: Iterable[int | Expr], b: Iterable[int | Expr]) -> bool:
    """Return whether two shapes are written the same way.

    Equal shapes that are written differently count as different.
    """
    first, second = tuple(a), tuple(b)
    return len(first) == len(second) and all(
        x == y if isinstance(x, int) or isinstance(y, int) else structural_equal(x, y)
        for x, y in zip(first, second, strict=True)
    )
