"""Random networks of convolutions and of what follows their layouts, before and after `ConvertLayout`."""

from __future__ import annotations

import numpy as np

from minitvm.compat.tvm.transform import ConvertLayout
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.reference import graph as interpreter
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
