"""Blocked layouts of narrow dtypes: integer networks mean the same to the last bit, and conversions stay blocked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.machines.simd.graph.blocked_layout import blocked_layout
from minitvm.reference import graph as interpreter
from minitvm.target import Target

CHANNELS = (1, 3, 4, 7, 8, 16)


class Network:
    """Values are int8 between operators; every operator is exact."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.b = GraphBuilder()
        size = draw(st.integers(3, 6))
        self.values = [self.b.input("x", (1, draw(st.sampled_from(CHANNELS)), size, size), "int8")]

    def pick(self) -> Value:
        return self.draw(st.sampled_from(self.values))

    def weights(self, *shape: Any, dtype: str = "int8") -> np.ndarray:
        return self.rng.integers(0 if dtype == "uint8" else -9, 9, shape).astype(dtype)

    def narrowed(self, total: Value) -> Value:
        factor = self.b.op("multiply", self.b.op("cast", total, dtype="float32"), np.float32(0.125))
        return self.b.op("qnn.quantize", factor, np.array(1, "float32"), np.array(2, "int8"), axis=0, out_dtype="int8")

    def conv(self) -> Value:
        x = self.pick()
        k, dtype = self.draw(st.sampled_from([1, 3])), self.draw(st.sampled_from(["int8", "uint8"]))
        weight = self.weights(self.draw(st.sampled_from(CHANNELS)), x.shape[1], k, k, dtype=dtype)
        total = self.b.op("nn.conv2d", x, weight, padding=k // 2, out_dtype="int32")
        bias = self.weights(weight.shape[0], dtype="int32")
        return self.narrowed(self.b.op("nn.bias_add", total, bias))

    def depthwise(self) -> Value:
        x = self.pick()
        groups = int(x.shape[1])  # type: ignore[arg-type]
        weight = self.weights(groups, 1, 3, 3)
        return self.narrowed(self.b.op("nn.conv2d", x, weight, padding=1, groups=groups, out_dtype="int32"))

    def pool(self) -> Value:
        return self.b.op("nn.max_pool2d", self.pick(), pool_size=2, padding=(0, 0, 1, 1))

    def add(self) -> Value:
        x = self.pick()
        other = self.draw(st.sampled_from([v for v in self.values if v.shape == x.shape]))
        return self.b.op("add", x, other)

    def shifted(self) -> Value:
        wide = self.b.op("subtract", self.b.op("cast", self.pick(), dtype="int16"), np.array(100, "int16"))
        return self.b.op("cast", self.b.op("clip", wide, a_min=-128, a_max=127), dtype="int8")

    def real(self) -> Value:
        x = self.b.op("qnn.dequantize", self.pick(), np.array(0.5, "float32"), np.array(3, "int8"), axis=0)
        half = self.b.op("nn.relu", self.b.op("cast", x, dtype="float16"))
        return self.b.op("cast", half, dtype="int8")

    def by_channel(self) -> Value:
        x = self.pick()
        scales = np.exp2(self.rng.integers(-2, 1, int(x.shape[1]))).astype("float32")  # type: ignore[arg-type]
        real = self.b.op("qnn.dequantize", x, scales, axis=1)
        return self.b.op("qnn.quantize", real, np.array(1, "float32"), axis=0, out_dtype="int8")

    def concatenate(self) -> Value:
        x = self.pick()
        return self.b.op("concatenate", x, self.b.op("negative", x), axis=1)


MOVES = [
    Network.conv, Network.conv, Network.depthwise, Network.pool, Network.add, Network.shifted, Network.real,
    Network.by_channel, Network.concatenate,
]  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    network = Network(draw)
    network.values.append(network.conv())
    for _ in range(draw(st.integers(1, 6))):
        network.values.append(draw(st.sampled_from(MOVES))(network))
    return network.b.build([network.values[-1], draw(st.sampled_from(network.values))])


@given(graph=networks(), lanes=st.sampled_from([4, 8, 16]), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_every_integer_network_means_the_same(graph: Graph, lanes: int, seed: int) -> None:
    after = blocked_layout(graph, Target(f"cpu -vector_bits={32 * lanes}"))
    verify_graph(after)
    x = np.random.default_rng(seed).integers(-128, 128, [int(d) for d in graph.inputs[0].shape]).astype("int8")  # type: ignore[arg-type]
    for found, wanted in zip(interpreter.run(after, [x]), interpreter.run(graph, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def quantised(rng: np.random.Generator) -> Graph:
    """Two convolutions with what quantised models have between them."""
    b = GraphBuilder()
    x = b.input("x", (1, 8, 4, 3), "uint8")
    total = b.op("nn.conv2d", x, rng.integers(-60, 60, (16, 8, 3, 3)).astype("int8"), padding=1, out_dtype="int32")
    total = b.op("nn.bias_add", total, rng.integers(-999, 999, 16).astype("int32"))
    factors = rng.uniform(1e-3, 2e-3, (16, 1, 1)).astype("float32")
    scaled = b.op("multiply", b.op("cast", total, dtype="float32"), factors)
    q = b.op("qnn.quantize", scaled, np.array(1, "float32"), np.array(128, "uint8"), axis=0, out_dtype="uint8")
    shifted = b.op("subtract", b.op("cast", q, dtype="int16"), np.array(128, "int16"))
    return b.build(
        b.op("nn.conv2d", shifted, rng.integers(-60, 60, (16, 1, 3, 3)).astype("int8"), groups=16, out_dtype="int32")
    )


def test_nothing_changes_its_layout_between_quantised_convolutions(rng: np.random.Generator) -> None:
    found = Counter(n.op for n in blocked_layout(quantised(rng), Target("cpu -vector_bits=256")).nodes)
    assert (found["nn.contrib_conv2d_NCHWc"], found["nn.contrib_depthwise_conv2d_NCHWc"]) == (1, 1)
    assert (found["layout.block_axis"], found["layout.unblock_axis"]) == (1, 1), "one at each border of the network"


def test_compiled_sums_are_exact_and_vectors(rng: np.random.Generator) -> None:
    graph = quantised(rng)
    x = rng.integers(0, 256, (1, 8, 4, 3)).astype("uint8")
    np.testing.assert_array_equal(minitvm.build(graph, threads=2)(x), interpreter.run(graph, [x])[0])
    source = "".join(minitvm.lower(graph, "cpu -vector_bits=256 -vector_registers=16", "source").values())
    assert "i32x8(" in source and "stack_i32" not in source, "accumulators are vectors of int32 in registers"
