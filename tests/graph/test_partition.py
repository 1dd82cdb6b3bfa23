"""Regions for engines: they are convex, alone and together, keep the meaning, and are as large as is legal."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InternalError
from minitvm.graph import Graph, GraphBuilder, OpNode, Value, verify_graph
from minitvm.graph.passes.fuse import fuse
from minitvm.graph.passes.partition import Condensed, RegionNodes, acyclic, partition, placed, region_node, survey
from minitvm.graph.pattern import GraphFacts, ValuePattern, constant, matches, op, value
from minitvm.reference import graph as interpreter
from minitvm.reference.strategies.graphs import RandomGraph
from minitvm.reference.strategies.graphs import graphs as random_graphs
from tests.fewer import examples


@dataclass
class Chosen:
    """An engine that supports the operators whose first output has one of these names."""

    names: frozenset[str]
    name: str = "chosen"
    patterns: list[ValuePattern] = field(default_factory=list)
    symbolic: bool = False

    def supports(self, item: OpNode) -> str:
        return "" if item.outputs[0].name in self.names else "it was not drawn"


@st.composite
def networks(draw: st.DrawFn, most: int = 14) -> Graph:
    """Many small operators with many forks and joins: all shapes are equal, so any values can meet."""
    b = GraphBuilder()
    values = [b.input("x", (2, 3)), b.input("y", (2, 3))]
    for _ in range(draw(st.integers(1, most))):
        one = draw(st.sampled_from(values))
        other = draw(st.sampled_from(values))
        name = draw(st.sampled_from(["add", "maximum", "nn.relu", "negative", "split"]))
        if name == "split":
            parts = b.op("split", one, indices_or_sections=1, axis=0)
            values += parts if isinstance(parts, tuple) else [parts]
        else:
            values.append(b.op(name, one, other) if name in ("add", "maximum") else b.op(name, one))
    return b.build([*draw(st.lists(st.sampled_from(values), max_size=2)), values[-1]])


def inputs_of(graph: Graph) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(v.shape).astype(v.dtype.numpy) for v in graph.inputs]


@given(graph=networks(), data=st.data())
@examples(60, 500)
def test_any_set_of_supported_operators_makes_no_cycle(graph: Graph, data: st.DataObject) -> None:
    names = [item.outputs[0].name for item in graph.nodes]
    first = Chosen(frozenset(data.draw(st.sets(st.sampled_from(names)))), "first")
    second = Chosen(frozenset(data.draw(st.sets(st.sampled_from(names)))), "second")
    after = partition(graph, [first, second])
    verify_graph(after)  # a cycle would read a value before it is defined
    assert [v.name for v in after.outputs] == [v.name for v in graph.outputs]
    own = [n for item in after.nodes for n in item.operators]
    assert len(own) == len(graph.nodes)
    for item in after.nodes:
        assert all(engine.supports(n) == "" for engine in (first, second) if engine.name == item.engine
                   for n in item.operators)  # fmt: skip
    arrays = inputs_of(graph)
    for a, b in zip(interpreter.run(after, arrays), interpreter.run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def reaches(graph: Graph, begin: set[OpNode]) -> set[OpNode]:
    """The operators that depend on one of `begin`, found without the pass."""
    later: set[OpNode] = set()
    tainted = {v for item in begin for v in item.outputs}
    for item in graph.nodes:
        if item not in begin and tainted.intersection(item.inputs):
            later.add(item)
            tainted.update(item.outputs)
    return later


@given(graph=networks(), data=st.data())
@examples(40, 300)
def test_regions_are_convex_and_no_two_neighbours_could_be_one(graph: Graph, data: st.DataObject) -> None:
    names = [item.outputs[0].name for item in graph.nodes]
    engine = Chosen(frozenset(data.draw(st.sets(st.sampled_from(names)))))
    regions = survey(graph, engine).regions
    for region in regions:
        inside = set(region.nodes)
        outside = reaches(graph, inside)
        assert not any(makers & outside for makers in [_makers(graph, item) for item in inside])
    condensed = Condensed(graph)
    for region in regions:
        condensed.join(region.nodes, region.engine)
    for a, b in combinations(list(condensed.engine), 2):
        if b in condensed.after[a] or a in condensed.after[b]:
            assert not condensed.may_merge(a, b)


def _makers(graph: Graph, item: OpNode) -> set[OpNode]:
    makers = graph.producers()
    return {makers[v] for v in item.inputs if v in makers}


@given(case=random_graphs(), data=st.data())
@examples(25, 300)
def test_regions_of_every_operator_keep_the_meaning(case: RandomGraph, data: st.DataObject) -> None:
    graph = case.graph
    names = [item.outputs[0].name for item in graph.nodes]
    engine = Chosen(frozenset(data.draw(st.sets(st.sampled_from(names)) if names else st.just(set()))))
    after = partition(graph, [engine])
    verify_graph(after)
    for a, b in zip(interpreter.run(after, case.inputs), interpreter.run(graph, case.inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_two_convex_regions_that_wait_for_each_other_are_refused() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    a, c = b.op("exp", x, name="a"), b.op("negative", x, name="c")
    graph = b.build([b.op("nn.relu", c, name="d"), b.op("sqrt", a, name="e")])
    by_name = {item.outputs[0].name: item for item in graph.nodes}
    pair = [RegionNodes("one", (by_name["a"], by_name["d"])), RegionNodes("two", (by_name["c"], by_name["e"]))]
    assert not acyclic(graph, pair)
    with pytest.raises(InternalError, match="the regions form a cycle"):
        placed(graph, [(region, region_node(graph, region, region.engine)) for region in pair])
    assert acyclic(graph, pair[:1])


def test_a_region_grows_over_a_fork_but_not_around_an_operator_between() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    y = b.op("exp", x, name="y")
    outside = b.op("sqrt", y, name="outside")
    z = b.op("nn.relu", y, name="z")
    graph = b.build(b.op("add", z, b.op("add", y, outside, name="sum"), name="end"))
    after = partition(graph, [Chosen(frozenset(["y", "z", "sum", "end"]))])
    assert [[n.outputs[0].name for n in item.operators] for item in after.nodes] == [
        ["y", "z"], ["outside"], ["sum", "end"]
    ]  # fmt: skip
    apart = GraphBuilder()
    x = apart.input("x", (2,))
    graph = apart.build([apart.op("exp", x, name="y"), apart.op("nn.relu", x, name="z")])
    together = partition(graph, [Chosen(frozenset("yz"))]).nodes
    assert [len(item.operators) for item in together] == [2]  # they share an input


def convolution(second_reader: bool = False) -> tuple[Graph, ValuePattern]:
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 5, 5)), b.constant(np.ones((4, 4, 1, 1), np.float32))
    product = b.op("nn.conv2d", x, w, name="product")
    biased = b.op("nn.bias_add", product, b.constant(np.ones(4, np.float32)), name="biased")
    result = b.op("nn.relu", biased, name="result")
    graph = b.build([result, b.op("exp", product, name="other")] if second_reader else [result])
    pattern = op("nn.conv2d", value(), constant()).then("nn.bias_add", constant(), optional=True)
    return graph, pattern.then("nn.relu", optional=True)


def test_a_chain_matches_with_and_without_its_optional_operators() -> None:
    graph, pattern = convolution()
    facts = GraphFacts(graph)
    counts = [[len(match.nodes) for match in matches(pattern, item, facts)] for item in graph.nodes]
    assert counts == [[1], [2], [3]]
    after = partition(graph, [Chosen(frozenset(["product", "biased", "result"]), patterns=[pattern])])
    assert [item.engine for item in after.nodes] == ["chosen"]
    assert {v.name for v in after.nodes[0].inputs} == {"x", "const", "const_1"}
    # The bias alone is in no pattern, so it stays.
    found = survey(graph, Chosen(frozenset(["product", "biased", "result"]), patterns=[op("nn.relu", ...)]))
    assert [[n.op for n in region.nodes] for region in found.regions] == [["nn.relu"]]
    assert set(found.refused.values()) == {
        "no pattern of chosen matches nn.conv2d here", "no pattern of chosen matches nn.bias_add here"
    }  # fmt: skip


def test_a_match_ends_at_a_value_that_others_read() -> None:
    graph, pattern = convolution(second_reader=True)
    engine = Chosen(frozenset(["product", "biased", "result", "other"]), patterns=[pattern])
    assert [[n.op for n in region.nodes] for region in survey(graph, engine).regions] == [["nn.conv2d"]]


def test_sizes_views_and_control_flow_are_no_regions() -> None:
    b = GraphBuilder()
    from minitvm.te import size_var

    x = b.input("x", (size_var("n"), 4))
    y = b.op("reshape", b.input("y", (2, 4)), newshape=(8,))
    graph = b.build([b.op("exp", x, name="symbolic"), y])
    found = survey(graph, Chosen(frozenset([v.name for item in graph.nodes for v in item.outputs])))
    assert found.regions == ()
    assert list(found.refused.values()) == ["its sizes are symbolic: x: float32[n, 4]", "it would only reshape values"]


def test_fusion_leaves_regions_alone_and_fuses_around_them() -> None:
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    y = b.op("nn.relu", b.op("negative", x, name="a"), name="b")
    z = b.op("exp", b.op("sqrt", y, name="c"), name="d")
    graph = fuse(partition(b.build(z), [Chosen(frozenset("ab"))]))
    assert [(item.engine, [n.op for n in item.operators]) for item in graph.nodes] == [
        ("chosen", ["negative", "nn.relu"]), ("", ["sqrt", "exp"])
    ]  # fmt: skip
    array = np.full((4, 4), -2, np.float32)
    np.testing.assert_allclose(interpreter.run(graph, [array])[0], np.exp(np.sqrt(np.maximum(-array, 0))), rtol=1e-6)


def test_the_values_of_a_region_are_its_own() -> None:
    graph, pattern = convolution()
    (region,) = survey(graph, Chosen(frozenset(["product", "biased", "result"]), patterns=[pattern])).regions
    node = region_node(graph, region, "mine")
    own: set[Value] = set(node.graph.values())
    assert not own.intersection(graph.values()) and node.graph.name == "mine"
    assert node.outputs == graph.outputs
