"""The networks of `minitvm.models` at batch 1, beside ONNX Runtime and OpenVINO.

Run `python -m benchmarks.networks [resnet18 ...]`.
"""

from __future__ import annotations

import sys

import minitvm
from minitvm import models
from minitvm.interop.to_onnx import to_onnx

from . import harness, peers

WANTED = {**dict.fromkeys(models.NETWORKS, 0.95), **dict.fromkeys(("vgg16", "vgg19", "resnet18"), 1.4)}
MEAN_WANTED = 1.15


def measured(name: str, threads: int) -> list[harness.Row]:
    """One network beside each peer, after a check that they agree."""
    graph = models.get(name)
    inputs = models.example_inputs(graph)
    module = minitvm.build(graph, threads=threads)
    others = peers.all_of(to_onnx(graph), inputs, threads)
    medians = harness.beside(name, lambda: module(**inputs), others, threads=threads)
    return [
        harness.Row(name, threads, medians["ours"], medians[who], who, WANTED[name] if who == "ONNX Runtime" else 0.0)
        for who in others
    ]


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all of them, at one thread and at two."""
    rows = [row for threads in (1, 2) for name in names or models.NETWORKS for row in measured(name, threads)]
    harness.table("networks, batch 1", rows)
    means = {}
    for who in dict.fromkeys(row.peer_name for row in rows):
        for threads in (1, 2):
            key = f"{who}, {threads} threads"
            means[key] = harness.geometric_mean(
                [row.ratio for row in rows if (row.peer_name, row.threads) == (who, threads)]
            )
            print(f"  geometric mean beside {key}: {means[key]:.2f} (wanted {MEAN_WANTED})")
    harness.save("networks", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
