"""Programs on devices with memory of their own: what they compute, what they keep, what listeners hear.

On OpenCL by PoCL, on CUDA by the simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.events import Listener
from minitvm.executable import CallKernel
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.nodes import Value
from minitvm.reference import graph as oracle
from tests.runtime.test_states import log, row


@pytest.fixture(params=["opencl", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """The target of a program."""
    pytest.importorskip({"opencl": "pyopencl", "cuda": "numba_cuda"}[request.param])
    target: str = request.param
    return target


def network(batch: Any = 2) -> Graph:
    """A convolution with its pads, a pool, a product of matrices, a softmax."""
    b = GraphBuilder("network")
    x = b.input("x", (batch, 2, 5, 6))
    weight = np.random.default_rng(0).standard_normal((4, 2, 3, 3), dtype=np.float32)
    return b.build(_answer(b, b.op("nn.relu", b.op("nn.conv2d", x, weight, padding=1)), batch))


def pooled(batch: Any) -> Graph:
    """The same without the convolution, which takes Python most of the time."""
    b = GraphBuilder("pooled")
    return b.build(_answer(b, b.op("nn.relu", b.input("x", (batch, 2, 5, 6))), batch))


def _answer(b: GraphBuilder, image: Value, batch: Any) -> Value:
    pool = b.op("nn.max_pool2d", image, pool_size=(3, 3), strides=(2, 2))
    places = 4 * int(image.shape[1])
    flat = b.op("reshape", pool, newshape=(batch, places))
    weight = np.random.default_rng(1).standard_normal((3, places), dtype=np.float32)
    answer: Value = b.op("nn.softmax", b.op("nn.dense", flat, weight))
    return answer


def alike(graph: Graph, module: Any, **inputs: np.ndarray) -> None:
    wanted = oracle.run(graph, inputs)
    found = module(**inputs)
    for one, other in zip(found if isinstance(found, list | tuple) else [found], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=1e-5)


def test_a_network_is_right(device: str, rng: np.random.Generator) -> None:
    graph = network()
    module = minitvm.build(graph, target=device)
    for _ in range(3):  # the second run of a device that records is the first of its recording
        alike(graph, module, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))


@pytest.mark.parametrize("device", ["opencl -device=mali", "opencl -device=amd", "opencl -device=pocl"])
def test_a_network_is_right_on_every_kind_of_opencl_device(device: str, rng: np.random.Generator) -> None:
    pytest.importorskip("pyopencl")
    graph = network()
    module = minitvm.build(graph, target=device)
    alike(graph, module, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))


@pytest.mark.parametrize("network", [pooled, pytest.param(network, marks=pytest.mark.full)])
def test_an_open_batch_needs_no_second_compilation(device: str, network: Any, rng: np.random.Generator) -> None:
    graph = network(SizeVar("n"))
    module = minitvm.build(graph, target=device)
    for n in (1, 3, 2):
        alike(graph, module, x=rng.standard_normal((n, 2, 5, 6), dtype=np.float32))


def test_sizes_that_data_decide_are_read_back(device: str, rng: np.random.Generator) -> None:
    b = GraphBuilder("found")
    x = b.input("x", (6, 4))
    places, count = b.op("argwhere", x)
    size = SizeVar("found")
    b.op("bind_size", count, size=size, most=24, where="found")
    graph = b.build(b.op("multiply", b.op("leading", places, size=size), b.constant(np.array(3, np.int64))))
    module = minitvm.build(graph, target=device)
    for share in (0.0, 0.5, 1.0):
        data = (rng.random((6, 4)) < share).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(module(x=data)), np.argwhere(data) * 3)


def test_states_outlive_runs(device: str) -> None:
    module = minitvm.build(log(), target=device)
    assert module(**row(3, 1)).tolist() == [[3, 3]]
    assert module(**row(4, 2)).tolist() == [[7, 7]]
    assert module.state["rows"][0, :, 0].tolist() == [3, 4, 0, 0]
    module.reset()
    assert module(**row(5, 4)).tolist() == [[5, 5]]


def test_a_saved_module_brings_its_source(device: str, tmp_path: Path, rng: np.random.Generator) -> None:
    graph = network()
    minitvm.build(graph, target=device).export(tmp_path / "network.mtvm")
    loaded = minitvm.runtime.load(tmp_path / "network.mtvm", trust=True)
    alike(graph, loaded, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))


def test_listeners_hear_of_each_kernel(device: str, rng: np.random.Generator) -> None:
    class Names(Listener):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def step_end(self, step: Any, now: float) -> None:
            self.seen.append(step.name)

    module, names = minitvm.build(network(), target=device), Names()
    module.listeners = (names,)
    module(x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))
    calls = [step for step in module.executable.steps if isinstance(step, CallKernel)]
    assert [module.executable.kernels[step.kernel].name for step in calls] == [n for n in names.seen if "kernel" in n]
    assert all(len(step.grid) in (0, 6) for step in calls)


def test_a_run_with_time_stamps_tells_when_each_step_began(device: str, rng: np.random.Generator) -> None:
    module, x = minitvm.build(network(), target=device), rng.standard_normal((2, 2, 5, 6), dtype=np.float32)
    run = module.stamped(x=x)
    assert run.times.shape == (1, len(module.executable.steps) + 1)
    assert (np.diff(run.times[0]) >= 0).all() and run.times[0, -1] > run.times[0, 0] > 0
    np.testing.assert_array_equal(run.outputs[0], module(x=x))
