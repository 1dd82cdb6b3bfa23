"""Operators at reduced sizes: cheap to interpret, and still with tiles, tails and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.build import optimize_graph
from minitvm.graph import Graph, GraphBuilder, OpNode
from minitvm.graph.passes.fuse import fused_node
from minitvm.graph.shrink import ENOUGH, elements, shrink
from minitvm.lowering import to_units


def fused(graph: Graph) -> list[OpNode]:
    return [unit.node for unit in to_units(optimize_graph(graph, "cpu -width=512"))]


def shapes(node: OpNode) -> list[tuple[Any, ...]]:
    return [value.shape for value in node.inputs]


def convolution(channels: int, size: int, out: int, kernel: int, groups: int = 1, stride: int = 1) -> OpNode:
    """A convolution with a residual sum and a ReLU, in the layout that the CPU's passes give it."""
    b = GraphBuilder("net")
    data = b.input("data", (1, channels, size, size))
    weight = b.constant(np.ones((out, channels // groups, kernel, kernel), "float32"))
    pad = (kernel // 2,) * 4
    made = b.op("nn.conv2d", data, weight, strides=(stride, stride), padding=pad, groups=groups)
    made = b.op("nn.relu", b.op("add", made, b.constant(np.ones((out, 1, 1), "float32"))))
    nodes = fused(b.build(made))
    return next(node for node in nodes if any("conv2d" in inner.op for inner in node.graph.nodes))


@pytest.mark.parametrize(
    ("arguments", "pixels"),
    [((64, 56, 64, 3), 16), ((512, 28, 512, 3), 12), ((1024, 14, 256, 1), 7), ((64, 55, 256, 1), 23)],
)
def test_a_convolution_keeps_kernel_vectors_and_remainders(arguments: tuple[int, ...], pixels: int) -> None:
    node = convolution(*arguments)
    small = shrink(node)
    data, weight = shapes(small)[:2]
    assert data[2:] == (pixels, pixels, 16)
    assert pixels % 8 == arguments[1] % 8 or pixels < 8
    if node.graph.nodes[0].op == "nn.contrib_winograd_conv2d_NCHWc":
        panels, places, _, in_blocks, _, panel, _ = weight
        out_blocks = panels * panel
        assert weight[1:3] == (places, places) == shapes(node)[1][1:3]
        assert (weight[4], weight[6]) == (16, 16) == (shapes(node)[1][4], shapes(node)[1][6])
    else:
        out_blocks, in_blocks, *_ = weight
        assert weight[2:] == (arguments[3], arguments[3], 16, 16) == shapes(node)[1][2:]
    assert 2 <= data[1] == in_blocks <= 3 and 2 <= out_blocks <= 3
    assert elements(small) <= ENOUGH
    assert [n.op for n in small.graph.nodes] == [n.op for n in node.graph.nodes]


def test_a_depthwise_convolution_keeps_as_many_weights_as_channels() -> None:
    small = shrink(convolution(272, 14, 272, 3, groups=272, stride=2))
    data, weight = shapes(small)[:2]
    assert data[1] == weight[0] < 272
    assert weight[1:] == (1, 3, 3)


def test_what_is_small_stays() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (2, 7, 8, 16))
    (node,) = fused(b.build(b.op("nn.relu", x)))
    assert shapes(shrink(node)) == [(2, 7, 8, 16)]


def test_sizes_that_must_stay_in_proportion_do() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (4, 96, 56))
    (node,) = fused(b.build(b.op("nn.relu", b.op("reshape", x, newshape=(4, 48, 112)))))
    small = shrink(node)
    (shape,), (output,) = shapes(small), [value.shape for value in small.outputs]
    assert np.prod(shape) == np.prod(output)
    assert elements(small) < elements(node) / 3


def test_what_allows_no_smaller_sizes_is_left_as_it_was() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (4, 100))
    (node,) = fused(b.build(b.op("nn.relu", b.op("strided_slice", x, begin=(0, 99), end=(4, 100)))))
    assert shrink(node) is node


def test_the_last_block_of_channels_stays_as_full_as_it_was() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 5, 60, 70, 4))
    graph = b.build(b.op("layout.unblock_axis", x, axis=1, extent=18))
    small = shrink(fused(graph)[0])
    (blocks,), extent = shapes(small), small.outputs[0].shape[1]
    assert blocks[1] < 5 and extent == blocks[1] * 4 - 2


@pytest.mark.parametrize(("columns", "panel"), [(1500, 80), (1000, 16)])
def test_panels_hold_the_columns_that_are_left(columns: int, panel: int) -> None:
    b = GraphBuilder("scores")
    query, mask = b.input("q", (2, 600, 64)), b.input("m", (600, columns))
    keys = b.input("k", (2, -(-columns // panel), 64, panel))
    scores = b.op("nn.contrib_dense_packed", query, keys, units=columns)
    weights = b.op("nn.softmax", b.op("add", scores, mask), axis=-1)
    graph = b.build(b.op("nn.matmul", weights, b.input("v", (2, columns, 48))))
    small = shrink(fused_node(graph.nodes, {}))
    (product,) = (item for item in small.graph.nodes if item.op == "nn.contrib_dense_packed")
    _, panels, _, width = product.inputs[1].shape
    assert elements(small) < ENOUGH
    assert product.attrs["units"] == product.output.shape[-1] <= panels * width < product.output.shape[-1] + width
