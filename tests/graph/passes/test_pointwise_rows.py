"""Pointwise convolutions of open extents beside transposes become products of rows, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.pointwise_rows import pointwise_rows
from minitvm.graph.passes.simplify import simplify
from minitvm.reference import graph as interpreter

SWAPPED = (0, 2, 1)


@st.composite
def convolutions(draw: Any) -> Graph:
    """One or two convolutions with transposes in front of them or behind, and what is element-wise between."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))

    def normal(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype("float32")

    b = GraphBuilder()
    extent = draw(st.sampled_from([SizeVar("n"), SizeVar("n"), 5]))
    front = draw(st.booleans())
    x = b.input("x", (2, extent, 3) if front else (2, 3, extent))
    y = b.op("transpose", x, axes=SWAPPED) if front else x
    outputs = []
    for _ in range(draw(st.integers(1, 2))):
        channels = int(y.shape[1])
        plain, others = (1, 1, 0, 1), [(2, 1, 0, 1), (1, 2, 0, 1), (1, 1, 1, 1), (1, 1, 0, channels)]
        width, stride, padding, groups = draw(st.sampled_from([plain] * 6 + others))
        filters = channels * draw(st.integers(1, 2)) if groups > 1 else draw(st.integers(2, 5))
        weight = normal(filters, channels // groups, width)
        y = b.op("nn.conv1d", y, weight, strides=stride, padding=padding, groups=groups)
        kind = draw(st.sampled_from(["", "bias", "bias", "factor", "two uses"]))
        if kind == "bias":
            y = b.op("nn.bias_add", y, normal(filters))
        if kind == "factor":
            y = b.op("multiply", y, normal(filters, 1))
        if kind == "two uses":
            outputs.append(y)
        for op in draw(st.lists(st.sampled_from(["relu", "sum", "half", "factor", "softmax", "part"]), max_size=3)):
            if op == "relu":
                y = b.op("nn.relu", y)
            elif op == "sum":
                y = b.op("add", y, b.op("sigmoid", y))
            elif op == "half":
                y = b.op("multiply", y, np.array(0.5, "float32"))
            elif op == "factor":
                y = b.op("multiply", y, normal(int(y.shape[1]), 1))
            elif op == "softmax":
                y = b.op("nn.softmax", y, axis=1)
            elif int(y.shape[1]) > 2:
                axis = draw(st.sampled_from([1, -2]))
                y = b.op("strided_slice", y, begin=(1,), end=(3,), strides=(1,), axes=(axis,))
    if draw(st.booleans()):
        y = b.op("transpose", y, axes=SWAPPED)
    return b.build([*outputs, y])


def means_the_same(graph: Graph, size: int) -> Graph:
    """The graph behind the pass and the passes that clean up behind it; asserts that it means the same."""
    after = dead_code(simplify(pointwise_rows(graph)))
    verify_graph(after)
    shape = [d if isinstance(d, int) else size for d in graph.inputs[0].shape]
    x = np.random.default_rng(size).integers(-3, 4, shape).astype("float32")
    for found, wanted in zip(interpreter.run(after, [x]), interpreter.run(graph, [x]), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    return after


@given(graph=convolutions(), size=st.integers(3, 9))
@settings(max_examples=60)
def test_products_of_rows_mean_the_same(graph: Graph, size: int) -> None:
    means_the_same(graph, size)


def test_a_transpose_on_either_side_is_enough_and_an_open_extent_is_needed() -> None:
    for extent, sides in ((SizeVar("n"), "front"), (SizeVar("n"), "back"), (SizeVar("n"), ""), (7, "front")):
        b = GraphBuilder()
        x = b.input("x", (1, extent, 4) if sides == "front" else (1, 4, extent))
        y = b.op("transpose", x, axes=SWAPPED) if sides == "front" else x
        y = b.op("nn.bias_add", b.op("nn.conv1d", y, np.ones((6, 4, 1), "float32")), np.ones(6, "float32"))
        y = b.op("transpose", y, axes=SWAPPED) if sides == "back" else y
        graph = b.build(b.op("nn.relu", y))
        after = means_the_same(graph, 3)
        ops = [item.op for item in after.nodes]
        if isinstance(extent, int) or not sides:
            assert pointwise_rows(graph) is graph
        else:
            assert "nn.conv1d" not in ops and ops.count("transpose") == 1 and ops.count("nn.dense") == 1


def test_what_is_behind_a_product_is_computed_in_rows() -> None:
    """The gate of a Conformer: half of the channels times the sigmoid of the others."""
    b = GraphBuilder()
    y = b.op("transpose", b.input("x", (1, SizeVar("n"), 4)), axes=SWAPPED)
    y = b.op("nn.conv1d", y, np.ones((6, 4, 1), "float32"))
    a, gate = (b.op("strided_slice", y, begin=(k,), end=(k + 3,), strides=(1,), axes=(1,)) for k in (0, 3))
    after = means_the_same(b.build(b.op("multiply", a, b.op("sigmoid", gate))), 5)
    assert [item.op for item in after.nodes][-1] == "transpose"
    assert sum(item.op == "transpose" for item in after.nodes) == 1
