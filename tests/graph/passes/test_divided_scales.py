"""Scales of quantisations are divided out while compiling: what networks mean is kept to a rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.graph.passes.divided_scales import divided_scales
from minitvm.reference import graph as interpreter
from tests.fewer import number

from .quantised_networks import inputs, networks

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def one_step_apart(graph: Graph) -> None:
    """With each quantisation as the last operator the results are at most a step apart, and seldom."""
    quantized = [n.output for n in graph.nodes if n.op == "qnn.quantize"]
    first = Graph(graph.inputs, graph.constants, graph.nodes, (quantized[0],))
    new = divided_scales(first)
    verify_graph(new)
    (found,), (expected,) = (interpreter.run(g, inputs(g)) for g in (new, first))
    steps = np.abs(found.astype(int) - expected.astype(int))
    # A value half-way between two steps may be rounded either way: one of 34 bytes q, for 0.25 q + 1.4 in steps of 1.7.
    assert steps.max() <= 1 and np.mean(steps) <= 0.1


@given(graph=networks())
@settings(QUICK, max_examples=150)
def test_networks_mean_what_they_did(graph: Graph) -> None:
    one_step_apart(graph)


LINEAR = ("add", "multiply", "clip", "nn.relu", "negative", "abs", "self")


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Linear operators between bytes and a quantisation; some of the values on the way have other readers."""
    b = GraphBuilder("chain")
    x = b.op("qnn.dequantize", b.input("x", (1, 8), "uint8"), np.array(0.5, "float32"), np.array(99, "uint8"), axis=0)
    values, others = [x], []
    for kind in draw(st.lists(st.sampled_from(LINEAR), min_size=1, max_size=5)):
        last = values[-1]
        if kind == "clip":
            low = draw(st.sampled_from((None, -7.5, -2.0, 0.0, 1.5)))
            values.append(b.op("clip", last, a_min=low, a_max=draw(st.sampled_from((None, 3.25, 9.0)))))
        elif kind == "self":
            values.append(b.op(draw(st.sampled_from(("add", "multiply"))), last, draw(st.sampled_from(values))))
        else:
            more = [np.array(draw(st.sampled_from((-1.5, 0.5, 2.0))), "float32")] if kind in ("add", "multiply") else []
            values.append(b.op(kind, last, *more))
        if draw(st.integers(0, 3)) == 0:
            others.append(b.op("exp", b.op("negative", b.op("abs", values[-1]))))
    return b.build([quantized(b, values[-1]), *others])


def chain_is_a_step_apart(graph: Graph) -> None:
    """The quantised value is at most a step from what it was; what others read is what it was."""
    new = divided_scales(graph)
    verify_graph(new)
    for start in range(0, 256, 8):
        x = [np.arange(start, start + 8, dtype="uint8").reshape(1, 8)]
        (q, *others), (expected, *same) = (interpreter.run(g, x) for g in (new, graph))
        assert np.abs(q.astype(int) - expected.astype(int)).max() <= 1
        for found, wanted in zip(others, same, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


@given(graph=chains())
@settings(QUICK, max_examples=number(40, 100))
def test_chains_mean_what_they_did(graph: Graph) -> None:
    chain_is_a_step_apart(graph)


def layer(b: GraphBuilder, x: Value) -> Value:
    """Sums of bytes, scaled, with what follows in a network."""
    total = b.op("cast", b.op("qnn.conv2d", x, np.ones((8, 8, 1, 1), "int8"), zero_point=3), dtype="float32")
    y = b.op("multiply", total, np.array(0.05, "float32"))
    return b.op("nn.relu", b.op("nn.bias_add", y, np.ones(8, "float32"), axis=1))


def quantized(b: GraphBuilder, y: Value) -> Value:
    q: Value = b.op("qnn.quantize", y, np.array(0.25, "float32"), np.array(7, "uint8"), axis=0, out_dtype="uint8")
    return q


def scale_of(graph: Graph) -> Any:
    (quantize,) = (item for item in graph.nodes if item.op == "qnn.quantize")
    return graph.arrays()[quantize.inputs[1]]


def test_the_next_layers_scale_is_divided_out_while_compiling() -> None:
    b = GraphBuilder("layer")
    new = divided_scales(b.build(quantized(b, layer(b, b.input("x", (1, 8, 4, 4), "uint8")))))
    assert scale_of(new) == 1
    (scaled,) = (item for item in new.nodes if item.op == "multiply")
    assert new.arrays()[scaled.inputs[1]] == pytest.approx(0.05 / 0.25)
    (bias,) = (item for item in new.nodes if item.op == "nn.bias_add")
    assert new.arrays()[bias.inputs[1]] == pytest.approx(1 / 0.25)


def test_a_scale_that_others_read_stays() -> None:
    b = GraphBuilder("layer")
    y = layer(b, b.input("x", (1, 8, 4, 4), "uint8"))
    graph = b.build([y, quantized(b, y)])
    assert divided_scales(graph) is graph


def test_what_is_dequantised_for_others_stays_as_it_is() -> None:
    """A sum of two values divides both; the one that is returned as well keeps its scale there."""
    b = GraphBuilder("sum")
    x, y = (
        b.op("qnn.dequantize", b.input(name, (1, 8), "uint8"), np.array(0.5, "float32"), np.array(0, "uint8"), axis=0)
        for name in "xy"
    )
    new = divided_scales(b.build([quantized(b, b.op("add", x, y)), x]))
    scales = sorted(float(new.arrays()[n.inputs[1]]) for n in new.nodes if n.op == "qnn.dequantize")
    assert scale_of(new) == 1 and {0.5, 2.0} == set(scales)


def test_strict_results_are_divided_as_written() -> None:
    b = GraphBuilder("layer")
    graph = b.build(quantized(b, layer(b, b.input("x", (1, 8, 4, 4), "uint8"))))
    assert divided_scales(graph, "strict") is graph
