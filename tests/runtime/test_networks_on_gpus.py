"""Whole networks with the schedules of NVIDIA's GPUs, run without one: the same limits and costs as OpenCL, on PoCL.

Rules ask a target for figures, not for its maker. So a target of OpenCL with an H100's figures gets the tiles, parts of
sums, Winograd's transforms and memory plan that CUDA gets, but for tensor cores, shuffles and asynchronous copies.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import minitvm
from minitvm import strategy
from minitvm.graph import Graph, GraphBuilder
from minitvm.target import Target
from minitvm.tools import models

pytest.importorskip("pyopencl")


def as_opencl(cuda: str) -> Target:
    """OpenCL with the figures of a CUDA device, as far as OpenCL has what they count."""
    figures = Target(cuda).export()
    shared = min(figures["max_shared_memory_per_block"], 48 << 10)
    lacks = {"kind": "opencl", "arch": "", "has_shuffles": False, "matrix_dtypes": (), "vector_widths": (2, 4, 8)}
    return Target({**figures, **lacks, "max_shared_memory_per_block": shared})


H100 = as_opencl("cuda -model=h100")


def small(rng: np.random.Generator) -> Graph:
    """Layers for which a GPU has rules of its own, the convolution large enough for tiles that blocks fetch."""

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    b = GraphBuilder("small")
    x = b.input("x", (1, 64, 8, 8))
    y = b.op("nn.max_pool2d", x, pool_size=(3, 3), strides=(1, 1), padding=(1, 1))
    y = b.op("nn.relu", b.op("nn.conv2d", y, weight(128, 64, 3, 3), padding=1))
    y = b.op("reshape", b.op("nn.global_avg_pool", y), newshape=(1, 128))
    return b.build(b.op("nn.softmax", b.op("nn.dense", y, weight(10, 128))))


def compared(graph: Graph, rng: np.random.Generator, tolerance: float) -> None:
    """The network with a GPU's schedules beside the same network for the CPU, twice: its memory is used again."""
    inputs = {v.name: rng.standard_normal([int(n) for n in v.shape], dtype=np.float32) for v in graph.inputs}
    wanted = np.asarray(minitvm.build(graph)(**inputs))
    module = minitvm.build(graph, target=H100)
    for _ in range(2):
        found = np.asarray(module(**inputs))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * float(np.abs(wanted).max()))


def test_a_network_is_right_with_the_schedules_of_a_gpu(rng: np.random.Generator) -> None:
    graph = small(rng)
    compared(graph, rng, 1e-4)
    rules: Counter[str] = Counter()
    for func in minitvm.lower(graph, target=H100, stop_at="schedule").values():
        choice = strategy.choice_of(func)
        rules[choice.rule] += 1
        knobs = choice.taken.knobs
        rules["implicit GEMM"] += "thread_rows" in knobs
        rules["parts"] += int(knobs.get("splits", 1)) > 1
        rules["ahead"] += int(knobs.get("stages", 1)) > 1
    assert {"contraction", "implicit GEMM", "parts", "ahead", "windows", "rows"} <= set(+rules), rules


@pytest.mark.full  # minutes each
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1", "inception_v3"])
def test_networks_are_right_with_the_schedules_of_a_gpu(name: str, rng: np.random.Generator) -> None:
    compared(models.get(name), rng, 3e-4)  # Winograd's algorithm with tiles of 4 x 4, through up to 94 layers
