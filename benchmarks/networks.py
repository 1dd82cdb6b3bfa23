"""The networks of `minitvm.tools.models` at batch 1, beside ONNX Runtime and OpenVINO.

Run `python -m benchmarks.networks [resnet18 ...]`.
"""

from __future__ import annotations

import sys
from typing import Any

import minitvm
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.tools import models

from . import harness, peers

WANTED = {**dict.fromkeys(models.ALL, 0.95), **dict.fromkeys(("vgg16", "vgg19", "resnet18"), 1.4)}
# The networks whose ratios have one mean, and the least that it should be.
SETS = {
    "the networks that everybody measures": (models.NETWORKS, 1.15),
    "today's networks": (models.MORE, 1.2),
}


def timed(name: str, threads: int) -> tuple[Any, dict[str, Any], dict[str, float]]:
    """The module of a network, its inputs, and the medians of "ours" and each peer, after a check that they agree."""
    graph = models.get(name)
    inputs = models.example_inputs(graph)
    module = minitvm.build(graph, threads=threads)
    others = peers.all_of(to_onnx(graph), inputs, threads)
    return module, inputs, harness.beside(name, lambda: module(**inputs), others, threads=threads)


def measured(name: str, threads: int) -> list[harness.Row]:
    """One network beside each peer."""
    _, _, medians = timed(name, threads)
    ours = medians.pop("ours")
    asked = list(medians) if name in models.MORE else ["ONNX Runtime"]
    return [
        harness.Row(name, threads, ours, peer, who, WANTED[name] if who in asked else 0.0)
        for who, peer in medians.items()
    ]


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all of both sets, at one thread and at two."""
    means: dict[str, float] = {}
    rows: list[harness.Row] = []
    for title, (networks, wanted) in SETS.items():
        chosen = [name for name in networks if not names or name in names]
        if not chosen:
            continue
        measurements = [row for threads in (1, 2) for name in chosen for row in measured(name, threads)]
        harness.table(f"{title}, batch 1", measurements)
        means |= _means(title, measurements, wanted)
        rows += measurements
    harness.save("networks", rows, geometric_means=means)


def _means(title: str, rows: list[harness.Row], wanted: float) -> dict[str, float]:
    """The geometric means of a set beside each peer, and the faster of them, by threads; they are printed."""
    faster: dict[tuple[str, int], harness.Row] = {}
    for row in rows:
        best = faster.setdefault((row.name, row.threads), row)
        faster[row.name, row.threads] = min(best, row, key=lambda one: one.peer)
    sets = {who: [row for row in rows if row.peer_name == who] for who in dict.fromkeys(row.peer_name for row in rows)}
    means = {}
    for who, chosen in {**sets, "the faster": list(faster.values())}.items():
        for threads in (1, 2):
            key = f"{title} beside {who}, {threads} threads"
            means[key] = harness.geometric_mean([row.ratio for row in chosen if row.threads == threads])
            print(f"  geometric mean of {key}: {means[key]:.2f} (wanted {wanted})")
    return means


if __name__ == "__main__":
    main(sys.argv[1:])
