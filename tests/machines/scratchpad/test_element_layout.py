"""Layers of int8 on tensors of elements mean what they meant; others stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.verify import verify_graph
from minitvm.machines.scratchpad.element_layout import element_layout
from minitvm.machines.vta.config import configured
from minitvm.reference import graph as interpreter

from .element_networks import SMALL, layer, network, pixels

VTA = configured("vta", "tsim")


def operators(graph: Graph) -> list[str]:
    return [item.op for item in graph.nodes]


@settings(max_examples=80)
@given(st.data())
def test_what_networks_compute_stays(data: Any) -> None:
    graph, inputs = network(data.draw)
    after = element_layout(graph, SMALL)
    verify_graph(after)
    assert "nn.contrib_conv2d_elements" in operators(after)
    assert not {"qnn.conv2d", "qnn.dense"} & set(operators(after))
    for found, expected in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def conv(change: str = "") -> Graph:
    """A convolution of 16 channels with its requantisation, and one thing about it that the machine cannot do."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("conv")
    channels = 7 if change == "few channels" else 16
    dtype = "uint8" if change == "unsigned" else "int8"
    x = b.input("x", (1, channels, 6, 5), dtype)
    groups = 2 if change == "groups" else 1
    weight = pixels(rng, (16, channels // groups, 3, 3))
    attrs: dict[str, Any] = {"padding": (0, 1) if change == "padding" else 1}
    if change == "strides":
        attrs["strides"] = (1, 2)
    if change == "dilation":
        attrs["dilation"] = 2
    if change == "zero point":
        attrs["zero_point"] = 3
    y: Value = b.op("qnn.conv2d", x, weight, groups=groups, **attrs)
    if change == "an addend of each pixel":
        y = b.op("add", y, np.ones((1, 16, 6, 5), np.int32))
    if change == "an addend of five dimensions":
        y = b.op("add", y, np.ones((1, 1, 1, 1, 1), np.int32))
    if change == "a shift of each channel":
        y = b.op("right_shift", y, np.ones((16, 1, 1), np.int32))
    elif change == "another order":
        y = b.op("clip", y, a_min=-128, a_max=127)
    y = b.op("right_shift", y, np.full((1,) * 5 if change == "a shift of five dimensions" else (), 6, np.int32))
    if change == "two readers":
        return b.build([b.op("cast", b.op("clip", y, a_min=-128, a_max=127), dtype="int8"), y])
    if change != "no limits":
        y = b.op("clip", y, a_min=2 if change == "limits above zero" else -128, a_max=127)
    return b.build(y if change == "no cast" else b.op("cast", y, dtype="int8"))


def test_a_convolution_becomes_one_of_elements() -> None:
    assert operators(element_layout(conv(), VTA)) == [
        "reshape", "transpose", "nn.contrib_conv2d_elements", "nn.contrib_requantize_elements", "transpose", "reshape",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        "few channels", "unsigned", "groups", "padding", "strides", "dilation", "zero point",
        "an addend of each pixel", "a shift of each channel", "another order", "two readers", "no limits",
        "limits above zero", "no cast", "an addend of five dimensions", "a shift of five dimensions",
    ],
)  # fmt: skip
def test_what_the_machine_cannot_do_stays(change: str) -> None:
    graph = conv(change)
    assert operators(element_layout(graph, VTA)) == operators(graph)


def test_a_layer_reads_the_elements_of_the_one_before() -> None:
    rng = np.random.default_rng(0)
    b = GraphBuilder("two")
    x = b.input("x", (1, 16, 4, 4), "int8")
    y = layer(b, layer(b, x, pixels(rng, (24, 16, 1, 1)), shift=5), pixels(rng, (16, 24, 3, 3)), padding=1)
    after = operators(element_layout(b.build(y), VTA))
    assert after.count("transpose") == 2 and after.count("strided_slice") == 0


def test_sizes_that_are_open_stay() -> None:
    from minitvm.expr import SizeVar

    b = GraphBuilder("open")
    x = b.input("x", (SizeVar("n"), 32), "int8")
    graph = b.build(layer(b, x, pixels(np.random.default_rng(0), (16, 32))))
    assert operators(element_layout(graph, VTA)) == operators(graph)
