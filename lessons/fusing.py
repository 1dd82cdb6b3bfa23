"""Fusion: a small network with two branches, and operators of random networks with their classes.

graph = network()
ops = [Op("conv", "complex", ("x", "w")), Op("relu", "element-wise", ("conv",))]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph


@dataclass(frozen=True, slots=True)
class Op:
    """An operator: its name, its class, and the names of the operators or of the network's inputs that it reads."""

    name: str
    kind: str
    inputs: tuple[str, ...]


def network(side: int = 8, channels: int = 16) -> Graph:
    """Convolutions with bias and relu: a stem, two branches that are added, and a skip connection."""
    b = GraphBuilder("net")
    rng = np.random.default_rng(7)

    def layer(value: object, width: int, size: int, name: str) -> object:
        inside = int(value.shape[1])  # type: ignore[attr-defined]
        weight = rng.integers(-1, 2, (width, inside, size, size)).astype("float32")
        product = b.op("nn.conv2d", value, weight, padding=size // 2, name=name)
        return b.op("nn.relu", b.op("add", product, rng.integers(-2, 3, (width, 1, 1)).astype("float32")))

    x = b.input("x", (1, channels, side, side))
    stem = layer(x, 4 * channels, 1, "stem")
    left = layer(stem, channels, 1, "left")
    right = layer(layer(layer(stem, channels, 3, "right_1"), 2 * channels, 1, "right_2"), channels, 1, "right_3")
    out = layer(b.op("add", left, right), channels, 3, "out")
    return b.build(b.op("add", out, x))
