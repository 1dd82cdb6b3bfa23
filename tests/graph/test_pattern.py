"""Patterns match what their definition says: all ways to put a value in each of their places are tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, OpNode, Value
from minitvm.graph.pattern import GraphFacts, OpPattern, ValuePattern, constant, matches, op, value
from tests.fewer import examples

UNARY, BINARY = ("nn.relu", "negative"), ("add", "multiply")
NAMES = ("", "", "a", "b")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A few operators on vectors, some of which read a value twice, or are returned."""
    b = GraphBuilder()
    values = [b.input("x", (2,)), b.constant(np.ones(2, "float32")), b.constant(np.zeros(2, "float32"))]
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from((*UNARY, *BINARY, "elementwise_sum")))
        count = 1 if kind in UNARY else 2 if kind in BINARY else draw(st.integers(1, 3))
        values.append(b.op(kind, *(draw(st.sampled_from(values)) for _ in range(count))))
    return b.build(draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=2)))


@dataclass(frozen=True)
class Spec:
    """A pattern as plain data, to be made and to be judged: a leaf, alternatives, or an operator."""

    kind: str
    name: str = ""
    ops: tuple[str, ...] = ()
    parts: tuple[Spec, ...] = ()
    others: Spec | None = None
    alone: bool = False
    any_order: bool = False

    def made(self) -> ValuePattern:
        parts = [part.made() for part in self.parts]
        if self.kind == "either":
            return parts[0] | parts[1]
        if self.kind == "op":
            others = self.others.made() if self.others else None
            return op(self.ops, *parts, others=others, name=self.name, alone=self.alone, any_order=self.any_order)
        if self.kind == "ones":
            return constant(self.name, when=lambda array: bool(array.all()))
        return {"value": value, "constant": constant}[self.kind](self.name)


@st.composite
def specs(draw: st.DrawFn, depth: int = 2, root: bool = False) -> Spec:
    kinds = ("op",) if root else ("value", "constant", "ones", *(("op", "op", "either") if depth else ()))
    kind, name = draw(st.sampled_from(kinds)), draw(st.sampled_from(NAMES))
    if kind == "either":
        return Spec(kind, parts=(draw(specs(depth - 1)), draw(specs(depth - 1))))
    if kind != "op":
        return Spec(kind, name)
    ops = draw(st.sampled_from([(), ("add",), ("add", "multiply"), UNARY, ("elementwise_sum",)]))
    count = draw(st.integers(0, 2))
    parts = tuple(draw(specs(depth - 1)) for _ in range(count))
    others = draw(st.none() | specs(0))
    return Spec(kind, name, ops, parts, others, draw(st.booleans()) and not root, count == 2 and draw(st.booleans()))


Tree = tuple[Spec, tuple[Any, ...]]  # a leaf or an operator, with one tree for each input


def trees(spec: Spec) -> Iterator[Tree]:
    """Patterns without alternatives: one of each pair, one order, and a number of further inputs."""
    if spec.kind == "either":
        for part in spec.parts:
            yield from trees(part)
    elif spec.kind != "op":
        yield spec, ()
    else:
        for more in range(4 if spec.others else 1):
            parts = (*spec.parts, *[spec.others] * more)
            orders = [parts, (parts[1], parts[0], *parts[2:])] if spec.any_order else [parts]
            for order in orders:
                for inner in itertools.product(*(list(trees(part)) for part in order if part is not None)):
                    yield spec, inner


def places(tree: Tree) -> int:
    return 1 + sum(map(places, tree[1]))


def holds(tree: Tree, values: list[Value], graph: Graph, names: dict[str, Value]) -> bool:
    """Whether values, one for each place of the tree in order, are a match; `names` is filled."""
    (spec, inner), here = tree, values.pop(0)
    if spec.name and names.setdefault(spec.name, here) is not here:
        return False
    if spec.kind != "op":
        array = graph.arrays().get(here)
        return spec.kind == "value" or (array is not None and (spec.kind == "constant" or bool(array.all())))
    maker = next((node for node in graph.nodes if here in node.outputs), None)
    reads = [v for node in graph.nodes for v in node.inputs].count(here)
    if maker is None or (spec.ops and maker.op not in spec.ops) or len(maker.inputs) != len(inner):
        return False
    if spec.alone and (reads != 1 or here in graph.outputs):
        return False
    for part, operand in zip(inner, maker.inputs, strict=True):
        if values[0] is not operand or not holds(part, values, graph, names):
            return False
    return True


def tried(spec: Spec, item: OpNode, graph: Graph) -> set[frozenset[tuple[str, int]]]:
    """The names and values of all matches, of all values in all places."""
    every, named = list(graph.values()), set()
    for tree in trees(spec):
        for rest in itertools.product(every, repeat=places(tree) - 1):
            names: dict[str, Value] = {}
            if holds(tree, [item.output, *rest], graph, names):
                named.add(frozenset((name, id(v)) for name, v in names.items()))
    return named


def small(spec: Spec) -> bool:
    return max(map(places, trees(spec))) <= 5


def patterns_match_what_they_mean(graph: Graph, spec: Spec) -> None:
    pattern, facts = spec.made(), GraphFacts(graph)
    assert isinstance(pattern, OpPattern)
    for item in graph.nodes:
        matched = {
            frozenset((name, id(v)) for name, v in match.values.items()) for match in matches(pattern, item, facts)
        }
        assert matched == tried(spec, item, graph)


@given(graph=graphs(), spec=specs(root=True).filter(small))
@examples(60, 400)
def test_patterns_match_what_they_mean(graph: Graph, spec: Spec) -> None:
    patterns_match_what_they_mean(graph, spec)


def swish() -> tuple[Graph, OpNode]:
    b = GraphBuilder()
    x = b.input("x", (2,))
    graph = b.build(b.op("multiply", b.op("sigmoid", x), x))
    return graph, graph.nodes[-1]


def test_a_name_that_occurs_twice_is_one_value() -> None:
    graph, item = swish()
    pattern = op("multiply", value("x"), op("sigmoid", value("x"), name="gate"), any_order=True)
    every = list(matches(pattern, item, GraphFacts(graph)))
    assert len(every) == 1
    match = every[0]
    assert match["x"] is graph.inputs[0] and match.node("gate") is graph.nodes[0] and match.root is item
    other = op("multiply", op("sigmoid", value("y"), name="y"), value())
    assert not list(matches(other, item, GraphFacts(graph)))


def test_what_is_read_twice_or_returned_is_not_read_once() -> None:
    graph, item = swish()
    facts = GraphFacts(graph)
    assert facts.only_reader(graph.nodes[0].output) is item
    assert facts.only_reader(graph.inputs[0]) is None  # two operators
    assert facts.only_reader(item.output) is None  # returned
    b = GraphBuilder()
    x = b.input("x", (2,))
    square = b.build(b.op("multiply", x, x))
    assert GraphFacts(square).only_reader(square.inputs[0]) is None  # one operator, twice


def test_conditions_and_further_inputs() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 2))
    joined = b.op("concatenate", x, x, np.zeros((1, 2), "float32"), axis=1)
    graph = b.build(joined)
    facts, item = GraphFacts(graph), graph.nodes[0]

    def fits(pattern: OpPattern) -> bool:
        return bool(list(matches(pattern, item, facts)))

    assert fits(op("concatenate", ...)) and fits(op((), value(), ...)) and not fits(op("concatenate", value()))
    assert fits(op("concatenate", when=lambda n: n.attrs["axis"] == 1, others=value()))
    assert not fits(op("concatenate", when=lambda n: n.attrs["axis"] == 0, others=value()))
    assert fits(op("concatenate", value(), value(), others=constant()))
    assert not fits(op("concatenate", value(), others=constant()))
    assert fits(op("concatenate", value(when=lambda v: v.ndim == 2), ...))
    assert not fits(op("concatenate", value(when=lambda v: v.ndim == 3), ...))
