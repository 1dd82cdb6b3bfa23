"""Tables of rules: which rule applies, what stays as it was, and that names, types and states stay right."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, OpNode, Value, verify_graph
from minitvm.graph.pattern import Match, op, value
from minitvm.graph.rewrite import Rewriter, RewriteRule, rewrite
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from .graphs import feed, graphs

X, Y = value("x"), value("y")


def swapped(b: Rewriter, match: Match) -> Value:
    result: Value = b.op("add", match["y"], match["x"], name=match.root.output.name)
    return result


def as_sum(b: Rewriter, match: Match) -> Value:
    """x - y as x + (-y)."""
    result: Value = b.op("add", match["x"], b.op("negative", match["y"]), name=match.root.output.name)
    return result


# Each keeps the meaning to the last bit.
SAME = [
    RewriteRule(op("add", X, Y), swapped),
    RewriteRule(op("subtract", X, Y), as_sum),
    RewriteRule(op("copy", X), "x"),
]


@given(graph=graphs(), seed=st.integers(0, 99))
@examples(15, 60)
def test_rules_that_keep_the_meaning_keep_it(graph: Graph, seed: int) -> None:
    after = rewrite(graph, SAME)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    inputs = feed(graph, seed)
    for a, b in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def chain() -> tuple[GraphBuilder, Value]:
    b = GraphBuilder()
    return b, b.input("x", (2,))


def test_a_graph_without_matches_is_returned_and_what_is_kept_stays_the_same() -> None:
    b, x = chain()
    first = b.op("negative", x)
    graph = b.build(b.op("nn.relu", b.op("copy", first)))
    assert rewrite(graph, [RewriteRule(op("add", X, Y), "x")]) is graph
    after = rewrite(graph, [RewriteRule(op("copy", X), "x")])
    assert after.nodes[0] is graph.nodes[0] and [n.op for n in after.nodes] == ["negative", "nn.relu"]
    assert after.nodes[1].outputs == graph.nodes[2].outputs and after.nodes[1].inputs == (first,)


def test_the_first_rule_of_the_table_that_applies_is_applied() -> None:
    b, x = chain()
    graph = b.build(b.op("negative", x, name="y"))

    def as_op(kind: str) -> RewriteRule:
        return RewriteRule(op("negative", X), lambda b, m: b.op(kind, m["x"], name=m.root.output.name))

    nothing = RewriteRule(op("negative", X), lambda b, m: None)
    assert [n.op for n in rewrite(graph, [nothing, as_op("abs"), as_op("exp")]).nodes] == ["abs"]
    assert [n.op for n in rewrite(graph, [as_op("exp"), nothing, as_op("abs")]).nodes] == ["exp"]


def test_an_output_is_not_replaced_by_a_value_and_keeps_its_name() -> None:
    b, x = chain()
    graph = b.build(b.op("copy", x, name="y"))
    rule = RewriteRule(op("copy", X), "x")
    assert rewrite(graph, [rule]) is graph
    doubled = RewriteRule(op("copy", X), lambda b, m: b.op("multiply", m["x"], 1.0))
    assert [v.name for v in rewrite(graph, [rule, doubled]).outputs] == ["y"]


def test_rules_are_repeated_until_none_applies() -> None:
    b, x = chain()
    y = x
    for _ in range(5):
        y = b.op("negative", y)
    graph = b.build(b.op("nn.relu", y))
    twice = [RewriteRule(op("negative", op("negative", X)), "x")]
    after = rewrite(graph, twice, repeat=True)
    (relu,) = [n for n in after.nodes if n.op == "nn.relu"]
    makers = after.producers()
    assert makers[relu.inputs[0]].op == "negative" and makers[relu.inputs[0]].inputs == (x,)
    steps = [RewriteRule(op(a, X), lambda b, m, c=c: b.op(c, m["x"])) for a, c in (("nn.relu", "exp"), ("exp", "abs"))]
    assert [n.op for n in rewrite(graph, steps, repeat=True).nodes] == ["negative"] * 5 + ["abs"]
    assert [n.op for n in rewrite(graph, steps).nodes] == ["negative"] * 5 + ["exp"]


def test_new_operators_stand_where_the_root_was_and_belong_to_its_node_of_the_model() -> None:
    b, x = chain()
    b.where = "Sub (node s)"
    y = b.op("subtract", x, b.constant(np.ones(2, "float32")))
    b.where = "Relu (node r)"
    graph = b.build(b.op("nn.relu", y))
    after = rewrite(graph, SAME)
    assert [(n.op, n.model_node) for n in after.nodes] == [("negative", "s"), ("add", "s"), ("nn.relu", "r")]


def test_types_behind_a_value_of_another_type_are_inferred_anew() -> None:
    b, x = chain()
    y = b.op("cast", x, dtype="float64")
    graph = b.build(b.op("nn.relu", b.op("negative", y)))
    after = rewrite(graph, [RewriteRule(op("cast", X), "x")])
    verify_graph(after)
    assert [str(v.dtype) for n in after.nodes for v in n.outputs] == ["float32", "float32"]


def test_a_new_name_is_a_free_one_and_a_removed_operator_frees_its_name() -> None:
    b, x = chain()
    y = b.op("negative", b.op("exp", x, name="e"), name="y")
    graph = b.build(b.op("nn.relu", y, name="z"))

    def without(b: Rewriter, match: Match) -> Value:
        b.remove(match.node("inner"))
        first = b.op("negative", match["x"], name="e")
        result: Value = b.op("exp", first, name="x")
        return result

    after = rewrite(graph, [RewriteRule(op("negative", op("exp", X, name="inner", alone=True)), without)])
    verify_graph(after)
    assert [v.name for n in after.nodes for v in n.outputs] == ["e", "x_1", "z"]


def test_states_stay() -> None:
    b = GraphBuilder()
    count = b.input("count", (1,), "int32")
    graph = b.build(b.op("nn.relu", count), states={count: b.op("subtract", count, np.full(1, -1, "int32"))})
    after = rewrite(graph, SAME)
    assert after.states == graph.states and [n.op for n in after.nodes] == ["nn.relu", "negative", "add"]


def test_patterns_see_the_graph_as_it_was_before_the_visit() -> None:
    b, x = chain()
    y = b.op("subtract", x, x, name="y")
    graph = b.build(b.op("negative", y, name="z"))
    inner: list[OpNode] = []

    def look(b: Rewriter, match: Match) -> None:
        inner.append(match.node("inner"))

    rewrite(graph, [*SAME, RewriteRule(op("negative", op((), ..., name="inner")), look)])
    assert inner == [graph.nodes[0]]
