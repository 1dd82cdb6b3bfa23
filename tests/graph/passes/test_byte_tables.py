"""Functions of a byte are looked up: to the last bit what they were, and only where that saves work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.graph.passes.byte_tables import byte_tables
from minitvm.graph.passes.dead_code import dead_code
from minitvm.reference import graph as interpreter

from .quantised_networks import networks, same_results
from .test_moved_bytes import QUICK, real, stored


def is_looked_up_alike(graph: Graph) -> None:
    """Every result of the changed network is that of the network."""
    same_results(byte_tables(graph), graph)


@given(graph=networks())
@settings(QUICK, max_examples=150)
def test_networks_mean_what_they_did(graph: Graph) -> None:
    is_looked_up_alike(graph)


CHAIN = ("sigmoid", "tanh", "exp", "erf", "nn.relu", "negative", "clip", "add", "multiply", "self", "bytes", "wider")


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Operators of one byte and constants, quantised between now and then; some values have other readers."""
    b = GraphBuilder("chain")
    steps = st.tuples(st.sampled_from((0.25, 0.03)), st.sampled_from((0, 7, 128)))
    dtype = draw(st.sampled_from(("uint8", "int8")))
    values = [b.op("qnn.dequantize", b.input("x0", (1, 4, 4, 6), dtype), np.float32(0.05), np.array(3, dtype), axis=0)]
    outputs = []
    for kind in draw(st.lists(st.sampled_from(CHAIN), min_size=1, max_size=6)):
        x, step = values[-1], draw(steps)
        if kind == "bytes":
            values.append(real(b, stored(b, x, *step), *step))
        elif kind == "self":
            values.append(b.op("multiply", x, draw(st.sampled_from(values))))
        elif kind == "clip":
            values.append(b.op("clip", x, a_min=-1.0, a_max=2.0))
        elif kind == "wider":  # a number in more dimensions than the data
            values.append(b.op("add", x, np.full((1,) * (x.ndim + 1), 0.5, "float32")))
        else:
            values.append(b.op(kind, x, np.float32(0.7)) if kind in ("add", "multiply") else b.op(kind, x))
        if draw(st.integers(0, 9)) == 0:
            outputs.append(values[-1])
    return b.build([stored(b, values[-1], *draw(steps)), *outputs])


def chain_is_looked_up_alike(graph: Graph) -> None:
    """For every byte."""
    new = byte_tables(graph)
    verify_graph(new)
    dtype = graph.inputs[0].dtype.numpy
    for start in range(0, 256, 96):
        x = (np.arange(start, start + 96) % 256).astype("uint8").view(dtype).reshape(1, 4, 4, 6)
        for found, expected in zip(interpreter.run(new, [x]), interpreter.run(graph, [x]), strict=True):
            np.testing.assert_array_equal(found, expected)


@given(graph=chains())
@settings(QUICK, max_examples=150)
def test_chains_mean_what_they_did(graph: Graph) -> None:
    chain_is_looked_up_alike(graph)


def swish(b: GraphBuilder, x: Value) -> Value:
    """x * sigmoid(x) of bytes, as quantisers write it."""
    x = real(b, x)
    gate = real(b, stored(b, b.op("sigmoid", x), 1 / 255, 0), 1 / 255, 0)
    return stored(b, b.op("multiply", x, gate), 0.4, 1)


def test_an_activation_of_several_operators_is_one_table() -> None:
    b = GraphBuilder("swish")
    graph = b.build(swish(b, swish(b, b.input("x", (1, 4, 8, 8), "uint8"))))
    assert [item.op for item in dead_code(byte_tables(graph)).nodes].count("qnn.lookup") == 1
    x = np.arange(256, dtype="uint8").reshape(1, 4, 8, 8)
    np.testing.assert_array_equal(minitvm.build(graph)(x=x), interpreter.run(graph, [x])[0])


def test_a_value_that_others_read_ends_a_table() -> None:
    """What is quantised on the way is a result: one table leads to it, another one away from it."""
    b = GraphBuilder("result")
    first = swish(b, b.input("x", (1, 4, 4, 6), "uint8"))
    graph = b.build([swish(b, first), first])
    assert [item.op for item in byte_tables(graph).nodes].count("qnn.lookup") == 2
    is_looked_up_alike(graph)


@pytest.mark.parametrize("cheap", ["nn.relu", "negative"])
def test_few_instructions_stay(cheap: str) -> None:
    b = GraphBuilder("cheap")
    graph = b.build(stored(b, b.op(cheap, real(b, b.input("x", (1, 4, 4, 6), "uint8"))), 0.4))
    assert byte_tables(graph) is graph


def test_scales_of_each_channel_are_no_function_of_a_byte() -> None:
    b = GraphBuilder("channels")
    scales = np.array([0.1, 0.2, 0.3, 0.4], "float32")
    x = b.op("qnn.dequantize", b.input("x", (1, 4, 4, 6), "uint8"), scales, axis=1)
    graph = b.build(stored(b, b.op("sigmoid", x)))
    assert byte_tables(graph) is graph
