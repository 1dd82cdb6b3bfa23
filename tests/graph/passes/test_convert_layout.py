"""ConvertLayout: the same meaning in every layout, changes of layout only where layouts meet, nonsense refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import InputError
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter
from minitvm.transform import ConvertLayout
from tests.drawing import Seeded

CHANNELS = (1, 3, 4, 8)
LAYOUTS = ("NHWC", "NCHW", "CHWN", "NCHW4c", "NCHW2c")


class Network:
    """A network drawn operator by operator over small integers, so that every order of summation agrees exactly."""

    def __init__(self, d: Seeded, layout: str) -> None:
        self.d, self.layout, self.rng = d, layout, d.rng
        self.b = GraphBuilder()
        size = d.int(2, 4)
        self.values = [self.b.input("x", self.shape(2, d.one(*CHANNELS), size, size + 1))]

    def shape(self, *nchw: int) -> tuple[int, ...]:
        return tuple(nchw["NCHW".index(letter)] for letter in self.layout)

    def pick(self) -> Value:
        return self.d.one(*self.values)

    def channels(self, x: Value) -> int:
        return int(x.shape[self.layout.index("C")])  # type: ignore[arg-type]

    def weights(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-1, 2, shape).astype("float32")

    def conv(self) -> Value:
        x, k = self.pick(), self.d.one(1, 3)
        out, groups = self.d.one(*CHANNELS), 1
        kind = self.d.one("plain", "depthwise", "grouped")
        if kind == "depthwise":
            out = groups = self.channels(x)
        elif kind == "grouped" and self.channels(x) % 2 == 0:
            out, groups = 4, 2
        kernel = self.d.one("OIHW", "HWIO")
        oihw = (out, self.channels(x) // groups, k, k)
        weight = self.weights(*(oihw["OIHW".index(letter)] for letter in kernel))
        return self.b.op(
            "nn.conv2d", x, weight, padding=k // 2, strides=self.d.one(1, (1, 2)), groups=groups,
            data_layout=self.layout, kernel_layout=kernel,
        )  # fmt: skip

    def pool(self) -> Value:
        op = self.d.one("nn.max_pool2d", "nn.avg_pool2d")
        return self.b.op(op, self.pick(), pool_size=(2, 1), padding=(1, 0), layout=self.layout)

    def add(self) -> Value:
        x = self.pick()
        other = self.d.one(*(v for v in self.values if _broadcast(v, x)))
        return self.b.op("add", *self.d.permuted([x, other]))

    def constant(self) -> Value:
        x = self.pick()
        a, b, c, d = (int(n) for n in x.shape)  # type: ignore[arg-type]
        shape = self.d.one((), (d,), (c, 1), (b, 1, 1), (1, b, 1, 1), (a, 1, c, d), (1, 1, 1, 1))
        return self.b.op("multiply", x, self.weights(*shape))

    def row(self) -> Value:
        """An operand of fewer axes that is computed."""
        x = self.pick()
        row = self.b.op("sum", x, axis=(0, 1))
        return self.b.op("subtract", x, self.b.op("clip", row, a_min=-2.0, a_max=2.0))

    def bias(self) -> Value:
        x, axis = self.pick(), self.d.int(-4, 3)
        return self.b.op("nn.bias_add", x, self.weights(int(x.shape[axis])), axis=axis)  # type: ignore[arg-type]

    def concatenate(self) -> Value:
        x = self.pick()
        return self.b.op("concatenate", x, self.b.op("nn.relu", x), axis=self.d.int(-4, 3))

    def reduce(self) -> Value:
        axis = self.d.one((2, 3), (1, 2), 1, -1, -1, 2, None, (0, 3))
        kind = self.d.one("max", "max", "min", "sum", "mean")
        small = self.b.op("clip", self.pick(), a_min=-9.0, a_max=9.0)
        made = self.b.op(kind, small, axis=axis, keepdims=self.d.flag())
        return made if made.ndim == 4 else self.b.op("reshape", made, newshape=(-1, 1, 1, 1))

    def pad(self) -> Value:
        """By a constant, which may be a tensor, or by what is there; what is below zero crops."""
        x, mode = self.pick(), self.d.one("constant", "constant", "edge")
        widths = ((0, 0), (0, 1), (1, 0), (0, 2))
        if mode == "edge":
            return self.b.op("nn.pad", x, pad_width=widths, pad_mode=mode)
        turned = [(a, -1 if int(n) > 1 and self.d.flag() else b) for (a, b), n in zip(widths, x.shape)]  # type: ignore[arg-type]
        if self.d.flag():
            return self.b.op("nn.pad", x, np.array(2, "float32"), pad_width=turned)
        return self.b.op("nn.pad", x, pad_width=turned, pad_value=float(self.d.int(-1, 1)))

    def pool_all(self) -> Value:
        return self.b.op(self.d.one("nn.global_max_pool", "nn.global_avg_pool"), self.pick())

    def along(self) -> Value:
        """An operator with one axis, from either end, and one parameter along it or none."""
        x, axis = self.pick(), self.d.int(-4, 3)
        kind = self.d.one("nn.prelu", "nn.softmax", "nn.log_softmax")
        slope = [self.weights(int(x.shape[axis]))] if kind == "nn.prelu" else []  # type: ignore[arg-type]
        return self.b.op(kind, self.b.op("clip", x, a_min=-2.0, a_max=2.0), *slope, axis=axis)

    def to_bytes(self) -> Value:
        """Quantized and back, with one scale or one a place along an axis; of a value that nothing has rounded."""
        x, axis = self.values[1], self.d.int(-4, 3)
        shape = self.d.one((), (1,), (int(x.shape[axis]),))  # type: ignore[arg-type]
        scale = np.exp2(self.rng.integers(-2, 2, shape)).astype("float32")
        small = self.b.op("round", self.b.op("clip", x, a_min=-9.0, a_max=9.0))
        q = self.b.op("qnn.quantize", small, scale, np.array(3, "int8"), axis=axis, out_dtype="int8")
        return self.b.op("qnn.dequantize", q, scale, np.array(3, "int8"), axis=axis)

    def turn(self) -> Value:
        return self.b.op("transpose", self.pick(), axes=(0, 2, 1, 3))

    def normal(self) -> Value:
        x, axis = self.pick(), self.d.int(0, 3)
        n = int(x.shape[axis])  # type: ignore[arg-type]
        return self.b.op("nn.batch_norm", x, *(self.weights(n) for _ in range(3)), np.ones(n, "float32"), axis=axis)


def _broadcast(a: Value, b: Value) -> bool:
    return a.ndim == b.ndim and all(x == y or 1 in (x, y) for x, y in zip(a.shape, b.shape, strict=True))


MOVES = [
    Network.conv, Network.conv, Network.conv, Network.pool, Network.add, Network.constant, Network.row, Network.bias,
    Network.concatenate, Network.reduce, Network.reduce, Network.pad, Network.pad, Network.turn, Network.normal,
    Network.pool_all, Network.along, Network.to_bytes,
]  # fmt: skip


def random_network(d: Seeded) -> Graph:
    network = Network(d, d.one("NCHW", "NHWC"))
    network.values.append(network.conv())
    for _ in range(d.int(1, 7)):
        network.values.append(d.one(*MOVES)(network))
    # With all that is computed returned, nothing is wrong unseen; with one value, forms are those that readers ask for.
    return network.b.build(network.values[1:] if d.flag() else [network.values[-1], d.one(*network.values)])


def feed(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-2, 3, [int(d) for d in v.shape]).astype("float32") for v in graph.inputs]  # type: ignore[arg-type]


def means_the_same(d: Seeded) -> None:
    """A random network before and after the pass."""
    graph, layout = random_network(d), d.one(*LAYOUTS)
    desired = {"nn.conv2d": [layout, "default"]}
    if d.flag():
        desired |= {"nn.max_pool2d": [layout], "nn.avg_pool2d": [layout]}
    after = ConvertLayout(desired)(graph)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.inputs] == [(v.name, v.type) for v in graph.inputs]
    assert [v.type for v in after.outputs] == [v.type for v in graph.outputs]
    inputs = feed(graph, d.int(0, 99))
    for found, wanted in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * scale, err_msg=f"{layout}\n{graph}")


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
]  # fmt: skip


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
