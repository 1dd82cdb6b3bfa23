"""Single operators of shapes that no benchmark of whole networks has, beside ONNX Runtime and OpenVINO.

Each is a model of a node or a few: what a network's author may choose and a schedule's author did not think of. Run
`python -m benchmarks.cases [--threads N] [part of a name ...]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minitvm
from minitvm import frontends as frontend
from minitvm.errors import MinitvmError

from . import harness, peers

WANTED = 1.0
Shape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A model with random weights: `inputs` by name, an open dimension is a name which `sizes` gives an extent."""

    build: Callable[[Model], str]
    inputs: Mapping[str, Shape]
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str = "float32"


class Model:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        """Random weights, small enough that sums stay near 1."""
        fan = int(np.prod(shape[1:])) or 1
        return self.array(self.rng.standard_normal(shape).astype("float32") / np.float32(np.sqrt(fan)))

    def array(self, values: Any) -> str:
        """A constant."""
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> str:
        """A node; gives the name of its first result."""
        from onnx import helper

        name = f"v{len(self.nodes)}"
        results = [name, *(f"{name}_{k}" for k in range(1, outputs))]
        self.nodes.append(helper.make_node(op, list(inputs), results, **attrs))
        return name

    def finished(self, output: str, inputs: Mapping[str, Shape]) -> Any:
        """The ONNX model of one output; inputs are float32."""
        from onnx import TensorProto, helper

        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        graph = helper.make_graph(
            self.nodes, "case", infos, [helper.make_empty_tensor_value_info(output)], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _conv(out_channels: int, in_channels: int, *kernel: int, bias: bool = True, **attrs: Any) -> Callable[[Model], str]:
    def build(m: Model) -> str:
        parts = [m.weight(out_channels, in_channels // attrs.get("group", 1), *kernel)]
        return m.node("Conv", "x", *parts, *([m.weight(out_channels)] if bias else []), **attrs)

    return build


def _transposed(in_channels: int, out_channels: int, *kernel: int, **attrs: Any) -> Callable[[Model], str]:
    return lambda m: m.node("ConvTranspose", "x", m.weight(in_channels, out_channels, *kernel), **attrs)


def _matmul(k: int, n: int, bias: bool = True) -> Callable[[Model], str]:
    def build(m: Model) -> str:
        product = m.node("MatMul", "x", m.array(m.rng.standard_normal((k, n)).astype("float32")))
        return m.node("Add", product, m.weight(n)) if bias else product

    return build


def _top_k(m: Model) -> str:
    return m.node("TopK", "x", m.array(np.array([100])), outputs=2, axis=-1)


def _cumsum(axis: int) -> Callable[[Model], str]:
    return lambda m: m.node("CumSum", "x", m.array(np.array(axis)))


def _scatter(m: Model) -> str:
    indices = m.rng.permuted(np.tile(np.arange(2000), (64, 1)), axis=1)[:, :500]
    return m.node("ScatterElements", "x", m.array(indices), m.weight(64, 500), axis=1)


def _recurrent(op: str, direction: str = "forward") -> Callable[[Model], str]:
    features, hidden, gates = 64, 128, {"LSTM": 4, "GRU": 3}[op]
    ways = 2 if direction == "bidirectional" else 1

    def build(m: Model) -> str:
        weights = [m.weight(ways, gates * hidden, n) for n in (features, hidden)]
        return m.node(
            op, "x", *weights, m.weight(ways, 2 * gates * hidden), hidden_size=hidden, direction=direction, outputs=2
        )

    return build


def _pool(op: str, size: int, stride: int, pad: int = 0) -> Callable[[Model], str]:
    window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return lambda m: m.node(op, "x", **window)


def _windows() -> dict[str, Case]:
    """Pools and depthwise convolutions of images that are known, and open."""
    kinds: dict[str, tuple[Callable[[Model], str], int, int]] = {
        "max pool 3x3 s2": (_pool("MaxPool", 3, 2, 1), 64, 56),
        "average pool 3x3 s1": (_pool("AveragePool", 3, 1, 1), 64, 35),
        "max pool 2x2 s2": (_pool("MaxPool", 2, 2), 64, 112),
        "depthwise 5x5 s2": (_conv(64, 64, 5, 5, group=64, pads=[2] * 4, strides=[2, 2]), 64, 56),
        "depthwise 7x7": (_conv(96, 96, 7, 7, group=96, pads=[3] * 4), 96, 56),
    }
    cases = {}
    for name, (build, channels, side) in kinds.items():
        cases[name] = Case(build, {"x": (1, channels, side, side)})
        cases[f"{name} open image"] = Case(build, {"x": (1, channels, "h", "w")}, {"h": side, "w": side})
    return cases


def _resize(m: Model) -> str:
    sizes = m.array(np.array([1, 64, 224, 224]))
    return m.node("Resize", "x", "", "", sizes, mode="linear")


CASES: dict[str, Case] = {
    "transposed conv 2x2 s2": Case(_transposed(24, 24, 2, 2, strides=[2, 2]), {"x": (1, 24, 80, 80)}),
    "transposed conv 4x4 s2": Case(
        _transposed(64, 32, 4, 4, strides=[2, 2], pads=[1, 1, 1, 1]), {"x": (1, 64, 40, 40)}
    ),
    **{
        f"matmul n={n} open": Case(_matmul(256, 1024, bias=False), {"x": ("n", 256)}, {"n": n})
        for n in (1, 7, 64, 100, 384)
    },
    "conv open batch": Case(_conv(64, 64, 3, 3, pads=[1, 1, 1, 1]), {"x": ("n", 64, 56, 56)}, {"n": 2}),
    "conv open image": Case(_conv(64, 64, 3, 3, pads=[1, 1, 1, 1]), {"x": (1, 64, "h", "w")}, {"h": 60, "w": 56}),
    **_windows(),
    "conv1d 512->512 k3 s2 open": Case(_conv(512, 512, 3, strides=[2]), {"x": (1, 512, "n")}, {"n": 3199}),
    "conv1d 1->512 k10 s5 open": Case(_conv(512, 1, 10, strides=[5]), {"x": (1, 1, "n")}, {"n": 16000}),
    "conv1d 80->384": Case(_conv(384, 80, 3, pads=[1, 1]), {"x": (1, 80, 3000)}),
    "matmul 1500x384x384 + bias": Case(_matmul(384, 384), {"x": (1500, 384)}),
    "matmul 32x256x1024 + bias": Case(_matmul(256, 1024), {"x": (32, 256)}),
    "matmul 128x256x688 + bias": Case(_matmul(256, 688), {"x": (128, 256)}),
    "matmul 100x300x688": Case(_matmul(300, 688, bias=False), {"x": (100, 300)}),
    "matmul 77x512x512 + bias": Case(_matmul(512, 512), {"x": (77, 512)}),
    "matmul (197,1,384)x(384,1152)": Case(_matmul(384, 1152), {"x": (197, 1, 384)}),
    "matmul (8,49,96)x(96,288)": Case(_matmul(96, 288), {"x": (8, 49, 96)}),
    "matmul 197x1536x384": Case(_matmul(1536, 384), {"x": (197, 1536)}),
    "matmul 64x4096x512": Case(_matmul(4096, 512), {"x": (64, 4096)}),
    "batched q.k 12x197x64": Case(lambda m: m.node("MatMul", "x", "y"), {"x": (12, 197, 64), "y": (12, 64, 197)}),
    "gemm transposed b": Case(lambda m: m.node("Gemm", "x", "y", transB=1), {"x": (128, 512), "y": (512, 512)}),
    "conv image 1 wide": Case(_conv(128, 64, 3, 1, pads=[1, 0, 1, 0]), {"x": (1, 64, 400, 1)}),
    "conv 58 channels": Case(_conv(58, 58, 1, 1), {"x": (1, 58, 28, 28)}),
    "conv 21 channels": Case(_conv(21, 26, 3, 3, pads=[1, 1, 1, 1]), {"x": (1, 26, 40, 40)}),
    "conv depthwise 58": Case(_conv(58, 58, 3, 3, group=58, pads=[1, 1, 1, 1]), {"x": (1, 58, 28, 28)}),
    "conv grouped 8 of 240": Case(_conv(240, 240, 1, 1, group=3), {"x": (1, 240, 28, 28)}),
    "conv grouped 32x4d": Case(_conv(128, 128, 3, 3, group=32, pads=[1, 1, 1, 1]), {"x": (1, 128, 56, 56)}),
    "conv grouped regnet": Case(_conv(144, 144, 3, 3, group=9, pads=[1, 1, 1, 1]), {"x": (1, 144, 28, 28)}),
    "conv dilated 2": Case(_conv(64, 64, 3, 3, pads=[2, 2, 2, 2], dilations=[2, 2]), {"x": (1, 64, 40, 40)}),
    "conv3d": Case(_conv(32, 16, 3, 3, 3, pads=[1] * 6), {"x": (1, 16, 16, 28, 28)}),
    "TopK 100 of 8400": Case(_top_k, {"x": (1, 8400)}),
    "CumSum 64x2000": Case(_cumsum(1), {"x": (64, 2000)}),
    "CumSum 2000x64 axis 0": Case(_cumsum(0), {"x": (2000, 64)}),
    "Scatter 500 of 2000": Case(_scatter, {"x": (64, 2000)}),
    "LSTM 100 steps": Case(_recurrent("LSTM"), {"x": (100, 1, 64)}),
    "LSTM steps and batch open": Case(_recurrent("LSTM"), {"x": ("steps", "batch", 64)}, {"steps": 100, "batch": 7}),
    "LSTM both directions": Case(_recurrent("LSTM", "bidirectional"), {"x": (100, 1, 64)}),
    "GRU 100 steps": Case(_recurrent("GRU"), {"x": (100, 1, 64)}),
    "Resize linear 28->224": Case(_resize, {"x": (1, 64, 28, 28)}),
}


def model_of(case: Case) -> tuple[Any, dict[str, np.ndarray]]:
    """The ONNX model of a case and arrays to run it with."""
    m = Model()
    model = m.finished(case.build(m), case.inputs)
    arrays = {
        name: m.rng.standard_normal([case.sizes.get(n, n) for n in shape]).astype(case.dtype)  # type: ignore[call-overload]
        for name, shape in case.inputs.items()
    }
    return model, arrays


def measured(name: str, threads: int) -> list[harness.Row]:
    """One case beside the faster peer, after a check that they agree."""
    model, inputs = model_of(CASES[name])
    module = minitvm.build(frontend.from_onnx(model), threads=threads)
    others = peers.all_of(model, inputs, threads)
    medians = harness.beside(name, lambda: module(**inputs), others, at_least=0.01, threads=threads)
    who = min(others, key=lambda one: medians[one])
    return [harness.Row(name, threads, medians["ours"], medians[who], who, WANTED)]


def main(arguments: list[str] | None = None) -> None:
    """Measure the cases whose names have one of the parts given, or all of them."""
    arguments = list(arguments or [])
    counts = (1, 2)
    if "--threads" in arguments:
        at = arguments.index("--threads")
        counts = (int(arguments[at + 1]),)
        del arguments[at : at + 2]
    names = [name for name in CASES if not arguments or any(part in name for part in arguments)]
    rows: list[harness.Row] = []
    failed: list[str] = []
    for threads in counts:
        for name in names:
            try:
                rows += measured(name, threads)
            except (RuntimeError, MinitvmError) as error:
                failed.append(f"{name}: {str(error).splitlines()[0]}")
    harness.table("single operators", rows)
    means = {f"{t} threads": harness.geometric_mean([r.ratio for r in rows if r.threads == t]) for t in counts if rows}
    for threads, mean in means.items():
        print(f"  geometric mean, {threads}: {mean:.2f}")
    harness.save("cases", rows, geometric_means=means)
    if failed:
        raise RuntimeError("\n".join(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
