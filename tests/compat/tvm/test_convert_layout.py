"""ConvertLayout: the same meaning in every layout, changes of layout only where layouts meet, nonsense refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.compat.tvm.transform import ConvertLayout
from minitvm.errors import InputError
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter
from tests.drawing import Seeded
from tests.graph.layout_networks import feed, means_the_same


def test_every_network_means_the_same() -> None:
    for seed in range(400):
        means_the_same(Seeded(seed))


@pytest.mark.full
def test_many_networks_mean_the_same() -> None:
    for seed in range(400, 4000):
        means_the_same(Seeded(seed))


def ops(graph: Graph) -> Counter[str]:
    return Counter(n.op for n in graph.nodes)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape).astype("float32")


def residual() -> Graph:
    """What residual networks are made of, down to the classifier."""
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 3, 12, 12)), weights(8, 3, 3, 3), padding=1, strides=2)
    x = b.op("nn.relu", b.op("nn.batch_norm", x, weights(8), weights(8), weights(8), np.ones(8, "float32")))
    x = b.op("nn.max_pool2d", x, pool_size=2, strides=2)
    y = b.op("nn.relu", b.op("nn.bias_add", b.op("nn.conv2d", x, weights(8, 1, 3, 3), padding=1, groups=8), weights(8)))
    x = b.op("nn.relu", b.op("add", b.op("nn.conv2d", y, weights(8, 8, 1, 1)), x))
    x = b.op("concatenate", x, b.op("nn.avg_pool2d", x, pool_size=3, padding=1), axis=1)
    x = b.op("nn.batch_flatten", b.op("nn.global_avg_pool", x))
    return b.build(b.op("nn.dense", x, weights(10, 16)))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW4c", "NCHW"])
def test_one_change_of_layout_at_the_border(layout: str) -> None:
    graph = residual()
    after = ConvertLayout({"nn.conv2d": [layout, "default"]})(graph)
    found = ops(after)
    if layout == "NCHW":
        assert found == ops(graph), "nothing to do"
        return
    first = 1  # behind the pooling to one pixel there is nothing left to move: a reshape
    assert found["layout_transform"] == first, after
    assert {n.attrs["data_layout"] for n in after.nodes if n.op == "nn.conv2d"} <= {layout, "NCHW"}
    inputs = feed(graph)
    np.testing.assert_array_equal(minitvm.build(after, threads=1)(*inputs), minitvm.build(graph, threads=1)(*inputs))


def test_blocks_leave_out_what_does_not_divide() -> None:
    after = ConvertLayout({"nn.conv2d": ["NCHW4c", "default"]})(residual())
    assert ops(after)["nn.conv2d"] == 1, "three channels are no blocks of 4"
    assert ops(after)["nn.contrib_conv2d_NCHWc"] == ops(after)["nn.contrib_depthwise_conv2d_NCHWc"] == 1


def test_filters_are_constants_in_their_layout() -> None:
    after = ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(residual())
    kernels = {n.attrs["kernel_layout"] for n in after.nodes if n.op == "nn.conv2d"}
    assert kernels == {"HWIO", "HWOI"}
    assert all(n.inputs[1] in after.arrays() for n in after.nodes if n.op == "nn.conv2d")
    after = ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]})(residual())
    assert {n.attrs["kernel_layout"] for n in after.nodes if n.op == "nn.conv2d"} == {"OHWI"}


def test_filters_that_are_computed_are_transformed_once() -> None:
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 5, 5)), b.input("w", (4, 4, 3, 3))
    graph = b.build(b.op("nn.conv2d", b.op("nn.conv2d", x, w, padding=1), w))
    after = ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(graph)
    assert ops(after)["layout_transform"] == 3, "x, w, and the result"
    np.testing.assert_array_equal(interpreter.run(after, feed(graph))[0], interpreter.run(graph, feed(graph))[0])


def test_there_and_back_again() -> None:
    """A model in NHWC becomes one in NCHW, and then nothing is in between."""
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 6, 6, 3)), weights(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO")
    x = b.op("nn.max_pool2d", b.op("nn.bias_add", x, weights(4), axis=3), pool_size=2, layout="NHWC")
    graph = b.build(b.op("nn.conv2d", x, weights(1, 1, 4, 4), data_layout="NHWC", kernel_layout="HWIO"))
    after = ConvertLayout({"nn.conv2d": ["NCHW", "default"]})(graph)
    assert [n.op for n in after.nodes] == [
        "layout_transform", "nn.conv2d", "nn.bias_add", "nn.max_pool2d", "nn.conv2d", "layout_transform",
    ]  # fmt: skip
    assert (after.nodes[0].attrs["src_layout"], after.nodes[0].attrs["dst_layout"]) == ("NHWC", "NCHW")
    assert after.nodes[3].attrs["layout"] == "NCHW"
    np.testing.assert_array_equal(interpreter.run(after, feed(graph))[0], interpreter.run(graph, feed(graph))[0])


def test_batch_norm_folds_into_filters_in_any_layout() -> None:
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 5, 5, 4)), weights(3, 3, 4, 8), data_layout="NHWC", kernel_layout="HWIO")
    graph = b.build(b.op("nn.batch_norm", x, weights(8), weights(8), weights(8), np.ones(8, "float32"), axis=3))
    fused = optimize(graph, "cpu")
    assert [inner.op for n in fused.nodes for inner in n.graph.nodes] == ["nn.conv2d", "nn.bias_add"]
    found, wanted = (interpreter.run(g, feed(graph))[0] for g in (fused, graph))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_compiler_keeps_the_layout_that_was_asked_for() -> None:
    after = optimize(ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(residual()), "cpu")
    inner = [n for group in after.nodes for n in group.graph.nodes]
    assert [n.attrs["data_layout"] for n in inner if n.op == "nn.conv2d"] == ["NHWC"] * 3
    assert not any("NCHWc" in n.op for n in inner)


REFUSED: list[tuple[Any, str]] = [
    ({"nn.conv3d": ["NDHWC", "default"]}, r"nn\.conv3d has no layouts to choose; did you mean nn\.conv2d"),
    ({"nn.conv2d": "NHWC"}, r"has the layouts of data and kernel\n  wanted: a list of 2, such as"),
    ({"nn.conv2d": ["NHWC", "HWIO", "NHWC"]}, "wanted: a list of 2"),
    ({"nn.max_pool2d": ["NHWC", "default"]}, r"wanted: a list of 1, such as \['NHWC'\]"),
    ({"nn.conv2d": ["NHWX", "default"]}, "'NHWX' is no layout of its data\n  wanted: the axes N, C, H, W"),
    ({"nn.conv2d": ["NHC", "default"]}, "'NHC' is no layout of its data"),
    ({"nn.conv2d": ["NHWWC", "default"]}, "'NHWWC' is no layout\n  wanted: each axis once"),
    ({"nn.conv2d": ["NCHWc", "default"]}, "'NCHWc' is no layout\n  wanted: each axis once, a block behind its axis"),
    ({"nn.conv2d": ["NHWC", "NHWC"]}, "'NHWC' is no layout of its kernel\n  wanted: the axes O, I, H, W"),
    ({"nn.conv2d": ["NHWC8c", "default"]}, "has blocks that there are no operators for\n  wanted: NCHW8c"),
    ({"nn.conv2d": ["NHWC", "OIHW8i8o"]}, "has blocks that there are no operators for"),
    ({"nn.conv2d": ["NCHW8c", "OIHW"]}, "the kernel OIHW does not go with data in NCHW8c\n  wanted: OIHW8i8o, or"),
    ({"nn.conv2d": ["default", "HWIO"]}, "a layout of the kernel goes with one of the data"),
    (["nn.conv2d", "NHWC"], "takes a dictionary"),
]


@pytest.mark.parametrize(("desired", "text"), REFUSED)
def test_nonsense_is_refused_before_a_graph_is_seen(desired: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        ConvertLayout(desired)


def test_operators_refuse_layouts_that_are_none() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 4, 5, 6))
    with pytest.raises(InputError, match="nn.conv2d data_layout: 'NHCX' is no layout of the axes N, C, H, W"):
        b.op("nn.conv2d", x, weights(4, 4, 1, 1), data_layout="NHCX")
    with pytest.raises(InputError, match="nn.max_pool2d layout: 'NCH'"):
        b.op("nn.max_pool2d", x, pool_size=2, layout="NCH")
    for source, target, text in (
        ("NCHW", "NCHW8c", "the axis C of 4 does not divide into blocks of 8"),
        ("NCHW", "NCDW", "NCHW and NCDW have different axes"),
        ("NCH", "NHC", "NCH has 3 axes, found a shape of 4"),
        ("NC4h", "NC", "is no layout"),
    ):
        with pytest.raises(InputError, match=text):
            b.op("layout_transform", x, src_layout=source, dst_layout=target)
