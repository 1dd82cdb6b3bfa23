"""A graph at the bounds of the sizes that data decide is static, and means what it means where they are reached."""

from __future__ import annotations

import numpy as np

from minitvm.build import optimize_graph
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.at_bounds import at_bounds
from minitvm.reference import graph as interpreter
from minitvm.target import Target


def places_of_places() -> Graph:
    b = GraphBuilder()
    n, m = SizeVar("n"), SizeVar("m")
    places, count = b.op("argwhere", b.input("x", (3, 4)))
    b.op("bind_size", count, size=n, most=12)
    rows = b.op("cast", b.op("leading", places, size=n), dtype="float32")
    again, number = b.op("argwhere", b.op("add", rows, 1.0))
    b.op("bind_size", number, size=m, most=n * 2)
    return b.build([b.op("leading", again, size=m), b.op("broadcast_to", b.op("max", rows), shape=(m, n))])


def test_a_size_may_bound_another() -> None:
    graph = places_of_places()
    x = {"x": np.ones((3, 4), np.float32)}
    for whole in (graph, optimize_graph(graph, Target("cpu"))):
        fixed = at_bounds(whole)
        verify_graph(fixed)
        assert all(value.is_static for value in fixed.values())
        assert [v.shape for v in fixed.outputs] == [(24, 2), (24, 12)]
        for a, b in zip(interpreter.run(fixed, x), interpreter.run(graph, x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_graph_without_such_sizes_stays() -> None:
    b = GraphBuilder()
    graph = b.build(b.op("exp", b.input("x", (SizeVar("n"),))))
    assert at_bounds(graph) is graph
