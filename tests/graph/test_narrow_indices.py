"""Indices of every integer dtype, axes longer than they count: the graph, its te and the compiled program agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

from minitvm import te, topi
from minitvm.errors import InputError, TypeMismatch
from minitvm.graph import GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.reference.strategies import graphs
from minitvm.reference.strategies.graph_indexing import INDEXING
from minitvm.reference.strategies.graphs import RandomGraph

from .graphs import by_te


@given(graphs(largest=2, moves=tuple(INDEXING), symbolic=False, empty=False))
@settings(max_examples=40)
def test_indices_of_any_width_reach_the_whole_axis(drawn: RandomGraph) -> None:
    assume(not any(item.bound_sizes() for item in drawn.graph.nodes))  # te has no sizes that data decide
    results = interpreter.run(drawn.graph, drawn.inputs), by_te(drawn.graph, drawn.inputs)
    for a, b, tolerance in zip(*results, drawn.tolerances, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("op", ["mean", "nn.avg_pool2d", "nn.global_avg_pool"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_mean_of_more_elements_than_the_dtype_counts(op: str, dtype: str) -> None:
    """At the end of the dtype, where neither the sum nor the number of elements fits."""
    data = np.full((1, 1, 17, 17), np.iinfo(dtype).max, dtype)
    builder = GraphBuilder()
    attrs = {"pool_size": (17, 17)} if op == "nn.avg_pool2d" else {}
    graph = builder.build(builder.op(op, builder.input("x", data.shape, dtype), **attrs))
    for (found,) in (interpreter.run(graph, {"x": data}), by_te(graph, {"x": data})):
        assert found.tolist() == np.full(found.shape, data.flat[0]).tolist()


@pytest.mark.parametrize("op", ["argmax", "argmin", "argsort", "topk"])
def test_an_index_dtype_that_the_results_do_not_fit_is_refused(op: str) -> None:
    data = te.placeholder((2, 129), name="x")
    topi.__dict__[op](te.placeholder((2, 128), name="x"), axis=1, dtype="int8")
    with pytest.raises(InputError, match="int8 do not reach along an axis of 129"):
        topi.__dict__[op](data, axis=1, dtype="int8")


def test_a_constant_is_never_cast_to_what_it_does_not_fit() -> None:
    with pytest.raises(TypeMismatch, match="300 is not a value of dtype int8"):
        te.const(300, "int32").astype("int8")
    assert te.const(300, "int32").astype("float32").dtype == "float32"
