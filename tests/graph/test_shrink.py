"""Operators at reduced size: the same operator, smaller, and still a well-formed one that computes what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, OpNode, optimize, verify_graph
from minitvm.graph.shrink import BLOCKS, ENOUGH, KEPT, elements, shrink
from minitvm.reference import graph as interpreter
from minitvm.te import size_var

from .graphs import by_te, feed, graphs


def alone(node: OpNode) -> Graph:
    """A graph of one node."""
    return Graph(node.inputs, (), (node,), node.outputs)


def operators(node: OpNode) -> list[str]:
    return [n.op for n in node.graph.nodes] if node.op == "fused" else [node.op]


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def conv_group(size: int, channels: int, groups: int = 1) -> OpNode:
    """A convolution with bias and activation, as one fused node."""
    b = GraphBuilder()
    x = b.input("x", (1, channels, size, size))
    y = b.op("nn.conv2d", x, weights(channels, channels // groups, 3, 3), padding=1, groups=groups)
    fused = optimize(b.build(b.op("nn.relu", b.op("nn.bias_add", y, weights(channels)))))
    return next(n for n in fused.nodes if "nn.relu" in operators(n))


@pytest.mark.parametrize(("size", "channels"), [(112, 64), (56, 24), (113, 18), (37, 64)])
def test_a_convolution_becomes_small_and_stays_what_it_is(size: int, channels: int) -> None:
    node = conv_group(size, channels)
    small = shrink(node)
    verify_graph(alone(small))
    assert elements(small) <= ENOUGH < elements(node)
    assert operators(small) == operators(node)
    assert [v.ndim for v in small.inputs] == [v.ndim for v in node.inputs]
    for before, after in zip(node.inputs, small.inputs, strict=True):
        for long, short in zip(before.shape, after.shape, strict=True):
            assert short <= long
            if long <= KEPT or long in BLOCKS:
                assert short == long, "kernels of convolutions and vector blocks keep their size"
    inputs = feed(alone(small))
    for found, wanted in zip(by_te(alone(small), inputs), interpreter.run(alone(small), inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_long_dimensions_keep_their_remainder_by_eight() -> None:
    b = GraphBuilder()
    node = b.build(b.op("nn.relu", b.input("x", (1003, 517)))).nodes[0]
    (found,) = shrink(node).inputs
    assert [int(d) % 8 for d in found.shape] == [1003 % 8, 517 % 8]


def test_equal_sizes_stay_equal() -> None:
    b = GraphBuilder()
    node = b.build(b.op("nn.dense", b.input("x", (300, 500)), b.input("w", (700, 500)))).nodes[0]
    x, w = shrink(node).inputs
    assert x.shape[1] == w.shape[1] and elements(shrink(node)) <= ENOUGH


def test_attributes_that_hold_sizes_follow() -> None:
    b = GraphBuilder()
    node = b.build(b.op("broadcast_to", b.input("x", (1, 640, 1)), shape=(480, 640, 96))).nodes[0]
    small = shrink(node)
    assert elements(small) < elements(node) // 100
    assert small.attrs["shape"] == small.output.shape


def test_a_reshape_that_fits_no_smaller_sizes_stays() -> None:
    b = GraphBuilder()
    prime = b.build(b.op("reshape", b.input("x", (211, 223)), newshape=(211 * 223,))).nodes[0]
    assert shrink(prime) is prime


def test_constants_of_a_size_stay_with_their_operator() -> None:
    b = GraphBuilder()
    x, c = b.input("x", (400, 400)), weights(400, 400)
    inner = b.build(b.op("add", x, c))
    node = OpNode("fused", inner.inputs, {"graph": inner}, inner.outputs)
    assert shrink(node) is node


def test_symbolic_sizes_and_small_ones_stay() -> None:
    b, n = GraphBuilder(), size_var("n")
    node = b.build(b.op("nn.relu", b.input("x", (n, 5)))).nodes[0]
    assert elements(node) == 0 and shrink(node) is node


@given(graph=graphs(), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_every_operator_of_a_network_at_reduced_size_means_what_it_says(graph: Graph, seed: int) -> None:
    for node in optimize(graph).nodes:
        small = shrink(node)
        verify_graph(alone(small))
        assert operators(small) == operators(node) and elements(small) <= elements(node)
        inputs: dict[str, Any] = feed(alone(small), seed)
        if len(inputs) != len(small.inputs):
            continue  # two values of one name: the feed goes by names
        found, wanted = by_te(alone(small), inputs), interpreter.run(alone(small), inputs)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3 * max(1.0, float(np.abs(b).max(initial=0))))
