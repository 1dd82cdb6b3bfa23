"""The convolutions of ResNet-18 (C1 to C12) and the depthwise ones of MobileNet (D1 to D9), one-layer models.

    python -m benchmarks.layers [C2 D1 ...]

Beside the faster of ONNX Runtime and OpenVINO at the same number of threads. From the TVM paper (OSDI'18), table 2.
"""

from __future__ import annotations

import sys

import numpy as np

import minitvm
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder

from . import harness, peers

# image, input channels, output channels, kernel, stride
CONVOLUTIONS = {
    "C1": (224, 3, 64, 7, 2), "C2": (56, 64, 64, 3, 1), "C3": (56, 64, 64, 1, 1), "C4": (56, 64, 128, 3, 2),
    "C5": (56, 64, 128, 1, 2), "C6": (28, 128, 128, 3, 1), "C7": (28, 128, 256, 3, 2), "C8": (28, 128, 256, 1, 2),
    "C9": (14, 256, 256, 3, 1), "C10": (14, 256, 512, 3, 2), "C11": (14, 256, 512, 1, 2), "C12": (7, 512, 512, 3, 1),
}  # fmt: skip
# image, channels, stride
DEPTHWISE = {
    "D1": (112, 32, 1), "D2": (112, 64, 2), "D3": (56, 128, 1), "D4": (56, 128, 2), "D5": (28, 256, 1),
    "D6": (28, 256, 2), "D7": (14, 512, 1), "D8": (14, 512, 2), "D9": (7, 1024, 1),
}  # fmt: skip
WANTED = {**dict.fromkeys(CONVOLUTIONS, 0.9), **dict.fromkeys(("C2", "C6", "C9"), 1.5), **dict.fromkeys(DEPTHWISE, 0.9)}
MEAN_WANTED = {"C": 1.15, "D": 1.1}


def layer(name: str) -> tuple[Graph, dict[str, np.ndarray]]:
    """The layer's model and an input for it. Data that a network would have: the layers in front are not there."""
    rng = np.random.default_rng(0)
    if name in CONVOLUTIONS:
        image, inner, outer, kernel, stride = CONVOLUTIONS[name]
        groups = 1
    else:
        (image, inner, stride), kernel = DEPTHWISE[name], 3
        outer = groups = inner
    b = GraphBuilder(name)
    data = b.input("data", (1, inner, image, image))
    weight = rng.standard_normal((outer, inner // groups, kernel, kernel), dtype=np.float32)
    made = b.op("nn.conv2d", data, weight, strides=stride, padding=kernel // 2, groups=groups)
    return b.build(made), {"data": rng.standard_normal((1, inner, image, image), dtype=np.float32)}


def measured(name: str, threads: int) -> harness.Row:
    """One layer beside all peers, after a check that they agree."""
    graph, inputs = layer(name)
    module = minitvm.build(graph, threads=threads)
    others = peers.all_of(to_onnx(graph), inputs, threads)
    medians = harness.beside(name, lambda: module(**inputs), others, at_least=0.005, threads=threads)
    fastest = min(others, key=lambda who: medians[who])
    return harness.Row(name, threads, medians["ours"], medians[fastest], fastest, WANTED[name])


def main(names: list[str] | None = None) -> None:
    """Measure the layers given, or all of them, at one thread and at two."""
    rows = [measured(name, threads) for threads in (1, 2) for name in names or WANTED]
    harness.table("convolutions, one layer, against the faster of ONNX Runtime and OpenVINO", rows)
    means = {}
    for kind, wanted in MEAN_WANTED.items():
        for threads in (1, 2):
            ratios = [row.ratio for row in rows if row.name.startswith(kind) and row.threads == threads]
            if ratios:
                means[f"{kind}, {threads} threads"] = harness.geometric_mean(ratios)
                print(f"  geometric mean of {kind}, {threads} threads: {means[f'{kind}, {threads} threads']:.2f}"
                      f" (wanted {wanted})")  # fmt: skip
    harness.save("layers", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
