"""Loops leave as ONNX's Loop: ONNX Runtime computes what the graph interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from minitvm.frontends.onnx import from_onnx
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as reference
from tests.fewer import examples
from tests.frontends.onnx.loop_models import Case, loop_models
from tests.frontends.onnx.test_loops import imported

ort = pytest.importorskip("onnxruntime")


def agree(graph: Graph, *arrays: np.ndarray) -> None:
    wanted = reference.run(graph, list(arrays))
    model = to_onnx(graph)
    feeds = {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)}
    found = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    again = reference.run(from_onnx(model), list(arrays))
    for other in (found, again):
        for a, b in zip(other, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def powers(limit: Any) -> Graph:
    """The powers of x that are below 1000, an offset from outside, rows of all iterations and their number."""
    b = GraphBuilder("powers")
    x, offset = b.input("x", (2,)), b.input("offset", (2,))

    def iteration(number: Any, value: Any) -> Any:
        larger = b.op("add", b.op("multiply", value, x), b.op("nn.relu", offset))
        row = b.op("add", value, b.op("cast", number, dtype="float32"))
        return b.op("less", b.op("sum", larger), 1000.0), [larger], [row]

    count, last, rows = b.loop(iteration, [b.op("copy", x)], limit=limit, most=9)
    return b.build([count, last, rows, x])


@pytest.mark.parametrize("start", [1.5, 6.0, 2000.0])
def test_a_loop_with_rows_and_values_from_outside(start: float) -> None:
    agree(powers(9), np.array([start, 1], np.float32), np.array([1, -3], np.float32))


def test_loops_in_loops_keep_their_names_apart() -> None:
    b = GraphBuilder("nested")
    x = b.input("x", (3,))

    def inner(number: Any, value: Any) -> Any:
        return True, [b.op("multiply", value, 0.5)]

    def outer(number: Any, value: Any) -> Any:
        _, halved = b.loop(inner, [value], limit=2, name="loop")
        return True, [b.op("add", halved, x)]

    _, result = b.loop(outer, [x], limit=3, name="loop")
    agree(b.build(result), np.array([1, 2, 3], np.float32))


@given(case=loop_models())
@examples(15, 40)
def test_random_loops(case: Case) -> None:
    graph, _ = imported(case)
    for inputs in case.runs:
        arrays = [inputs[v.name] for v in graph.inputs]
        found = ort.InferenceSession(to_onnx(graph).SerializeToString()).run(
            None, {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)}
        )
        for a, b in zip(found, reference.run(graph, arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
