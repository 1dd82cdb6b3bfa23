"""The registry of operators: types of results are remembered."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from minitvm.expr import DType
from minitvm.graph import registry
from minitvm.reference.strategies import RandomGraph
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.te import size_var


@given(random_graphs(symbolic=False))
@settings(max_examples=40)
def test_remembered_types_are_those_that_are_inferred(drawn: RandomGraph) -> None:
    """Whatever was asked before: attributes 1, 1.0 and True are three questions, and so are their results' types."""
    values = {v: (v.shape, v.dtype) for v in drawn.graph.values()}
    for node in drawn.graph.nodes:
        row = registry.get(node.op)
        inputs = [values[v] for v in node.inputs]
        if not all(isinstance(n, int) for v in (*node.inputs, *node.outputs) for n in v.shape):
            continue  # sizes that data decide: types that are inferred again are equal, not the same
        again = [row.output_types(inputs, node.attrs) for _ in range(2)]
        assert again[0] == again[1] == row._output_types(inputs, node.attrs) == [values[v] for v in node.outputs]
        again[0].clear()  # it is the caller's own
        assert row.output_types(inputs, node.attrs) == again[1]


def test_questions_that_look_alike() -> None:
    row = registry.get("clip")
    questions = {row._question([((2,), DType("float32"))], {"a": value}) for value in (1, 1.0, True, "1", (1,), None)}
    assert len(questions) == 6 and None not in questions
    assert row._question([((size_var("n"),), DType("float32"))], {}) is None
    assert row._question([((2,), DType("float32"))], {"a": np.zeros(2)}) is None
