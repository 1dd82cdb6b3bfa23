"""Random networks as quantisers write them: bytes between operators, which compute and move floats."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.reference import graph as interpreter

SHAPE = (1, 4, 4, 6)
SCALES = (0.25, 0.3, 0.5, 1.7)


class Network:
    """Values are uint8 of one shape, each with a scale and a zero point."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.b = draw, GraphBuilder("quantised")
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.values = [(self.b.input(f"x{k}", SHAPE, "uint8"), self.step()) for k in range(2)]
        self.outputs: list[Value] = []

    def step(self) -> tuple[float, int]:
        return self.draw(st.sampled_from(SCALES)), self.draw(st.sampled_from((0, 7, 128)))

    def parameters(self, step: tuple[float, int]) -> tuple[np.ndarray, np.ndarray]:
        return np.array(step[0], "float32"), np.array(step[1], "uint8")

    def floats(self) -> Value:
        """One of the values, dequantised; sometimes it is used elsewhere, too."""
        value, step = self.draw(st.sampled_from(self.values))
        real: Value = self.b.op("qnn.dequantize", value, *self.parameters(step), axis=0)
        if self.draw(st.integers(0, 9)) == 0:
            self.outputs.append(real)
        return real

    def operator(self) -> Value:
        """Something of two values, of the shape of all."""
        b, x = self.b, self.floats()
        kind = self.draw(st.sampled_from(KINDS))
        constant = self.rng.uniform(0.5, 2, (1, 4, 1, 1)).astype("float32")
        if kind in ("add", "subtract", "multiply"):
            return b.op(kind, x, self.draw(st.sampled_from([self.floats(), constant])))
        if kind == "max_pool":
            return b.op("nn.max_pool2d", x, pool_size=3, padding=1)
        if kind == "avg_pool":
            return b.op("nn.avg_pool2d", x, pool_size=3, padding=1)
        if kind == "clip":
            return b.op("clip", x, a_min=-3.0, a_max=self.draw(st.sampled_from([6.0, None])))
        if kind == "turn":
            turned = b.op("transpose", b.op("reshape", x, newshape=(4, 24)), axes=(1, 0))
            return b.op("reshape", turned, newshape=SHAPE)
        if kind == "concatenate":
            halves = [b.op("strided_slice", v, begin=(0,), end=(2,), axes=(1,)) for v in (x, self.floats())]
            return b.op("concatenate", *halves, axis=1)
        return b.op(kind, x)

    def grow(self) -> None:
        """A chain of operators whose result is quantised."""
        x, step = self.operator(), self.step()
        for kind in self.draw(st.lists(st.sampled_from(("nn.relu", "add", "negative", "sigmoid")), max_size=2)):
            x = self.b.op(kind, x, np.float32(0.7)) if kind == "add" else self.b.op(kind, x)
        if self.draw(st.integers(0, 9)) == 0:
            self.outputs.append(x)
        q = self.b.op("qnn.quantize", x, *self.parameters(step), axis=0, out_dtype="uint8")
        self.values.append((q, step))


KINDS = ("add", "subtract", "multiply", "max_pool", "avg_pool", "clip", "turn", "concatenate", "nn.relu", "sigmoid")


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """One to three operators between bytes; the outputs are the last bytes, and floats that others read as well."""
    network = Network(draw)
    for _ in range(draw(st.integers(1, 3))):
        network.grow()
    return network.b.build([network.values[-1][0], *dict.fromkeys(network.outputs)])


def inputs(graph: Graph, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, SHAPE).astype("uint8") for _ in graph.inputs]


def same_results(new: Graph, graph: Graph) -> None:
    """Every result of a changed network is that of the network, to the last bit."""
    verify_graph(new)
    for found, expected in zip(interpreter.run(new, inputs(new)), interpreter.run(graph, inputs(graph)), strict=True):
        np.testing.assert_array_equal(found, expected)
