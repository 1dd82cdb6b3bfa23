"""Programs on an OpenCL device, PoCL here: what they compute, what they keep, and how they refuse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.codegen.opencl import generate
from minitvm.errors import ExecutionError, TargetError, Unsupported
from minitvm.events import Listener
from minitvm.executable import CallKernel, Kernel
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as oracle
from minitvm.runtime.opencl import devices
from minitvm.runtime.opencl.kernels import compiled
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.transform import lower
from tests.codegen.test_backends import elementwise
from tests.runtime.test_states import log, row

pytest.importorskip("pyopencl")


def network(batch: Any = 2) -> Graph:
    """A convolution with its pads, a pool, a product of matrices, a softmax."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("network")
    x = b.input("x", (batch, 5, 9, 11))
    weight = rng.standard_normal((12, 5, 3, 3), dtype=np.float32)
    image = b.op("nn.relu", b.op("nn.conv2d", x, weight, padding=1))
    pooled = b.op("nn.max_pool2d", image, pool_size=(3, 3), strides=(2, 2))
    flat = b.op("reshape", pooled, newshape=(batch, 12 * 4 * 5))
    dense = b.op("nn.dense", flat, rng.standard_normal((7, 240), dtype=np.float32))
    return b.build(b.op("nn.softmax", dense))


def alike(graph: Graph, module: Any, **inputs: np.ndarray) -> None:
    wanted = oracle.run(graph, inputs)
    found = module(**inputs)
    for one, other in zip(found if isinstance(found, list | tuple) else [found], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["", " -device=mali", " -device=amd", " -device=pocl"])
def test_a_network_is_right_on_every_kind_of_device(device: str, rng: np.random.Generator) -> None:
    graph = network()
    module = minitvm.build(graph, target=f"opencl{device}")
    alike(graph, module, x=rng.standard_normal((2, 5, 9, 11), dtype=np.float32))


def test_devices_get_different_schedules() -> None:
    b = GraphBuilder("wide")
    x, weight = b.input("x", (1, 32, 8, 8)), np.ones((32, 32, 3, 3), np.float32)
    graph, texts = b.build(b.op("nn.conv2d", x, weight, padding=1)), {}
    for device in ("mali", "pocl"):
        kernels = minitvm.lower(graph, target=f"opencl -device={device}", stop_at="executable").kernels
        texts[device] = "".join(kernel.source for kernel in kernels)
    assert "float4" in texts["mali"] and "float8" not in texts["mali"]
    assert "float8" in texts["pocl"]


def test_an_open_batch_needs_no_second_compilation(rng: np.random.Generator) -> None:
    graph = network(SizeVar("n"))
    module = minitvm.build(graph, target="opencl")
    for n in (1, 3, 2, 5):
        alike(graph, module, x=rng.standard_normal((n, 5, 9, 11), dtype=np.float32))


def test_sizes_that_data_decide_are_read_back(rng: np.random.Generator) -> None:
    b = GraphBuilder("found")
    x = b.input("x", (6, 4))
    places, count = b.op("argwhere", x)
    size = SizeVar("found")
    b.op("bind_size", count, size=size, most=24, where="found")
    graph = b.build(b.op("multiply", b.op("leading", places, size=size), b.constant(np.array(3, np.int64))))
    module = minitvm.build(graph, target="opencl")
    for share in (0.0, 0.5, 1.0):
        data = (rng.random((6, 4)) < share).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(module(x=data)), np.argwhere(data) * 3)


def test_states_outlive_runs() -> None:
    module = minitvm.build(log(), target="opencl")
    assert module(**row(3, 1)).tolist() == [[3, 3]]
    assert module(**row(4, 2)).tolist() == [[7, 7]]
    assert module.state["rows"][0, :, 0].tolist() == [3, 4, 0, 0]
    module.reset()
    assert module(**row(5, 4)).tolist() == [[5, 5]]


def test_a_saved_module_brings_its_source(tmp_path: Path, rng: np.random.Generator) -> None:
    graph = network()
    minitvm.build(graph, target="opencl").export(tmp_path / "network.mtvm")
    loaded = minitvm.runtime.load(tmp_path / "network.mtvm", trust=True)
    alike(graph, loaded, x=rng.standard_normal((2, 5, 9, 11), dtype=np.float32))


def test_listeners_hear_of_each_kernel(rng: np.random.Generator) -> None:
    class Names(Listener):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def step_end(self, step: Any, now: float) -> None:
            self.seen.append(step.name)

    module, names = minitvm.build(network(), target="opencl"), Names()
    module.listeners = (names,)
    module(x=rng.standard_normal((2, 5, 9, 11), dtype=np.float32))
    calls = [step for step in module.executable.steps if isinstance(step, CallKernel)]
    assert [module.executable.kernels[step.kernel].name for step in calls] == [n for n in names.seen if "kernel" in n]
    assert all(len(step.grid) in (0, 6) for step in calls)


def test_a_run_with_time_stamps_tells_when_each_step_began(rng: np.random.Generator) -> None:
    module, x = minitvm.build(network(), target="opencl"), rng.standard_normal((2, 5, 9, 11), dtype=np.float32)
    run = module.stamped(x=x)
    assert run.times.shape == (1, len(module.executable.steps) + 1)
    assert (np.diff(run.times[0]) >= 0).all() and run.times[0, -1] > run.times[0, 0] > 0
    np.testing.assert_array_equal(run.outputs[0], module(x=x))


# -- what is refused


def test_without_pyopencl_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(TargetError, match=r"OpenCL needs the package pyopencl.*\n.*pip install 'minitvm\[opencl\]'"):
        devices.pyopencl()


def test_a_device_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.VARIABLE, "no such thing")
    with pytest.raises(TargetError, match="no OpenCL device is called 'no such thing'.*\n  found:  .*"):
        devices.current()


def test_what_the_drivers_compiler_rejects_is_shown_with_its_line() -> None:
    source = "__kernel void k(__global float *a) {\n    a[0] = nothing;\n}\n"
    with pytest.raises(TargetError) as refused:
        compiled(devices.current(), [Kernel("k", "opencl", source, "k", ())], None)
    assert "rejects kernel k" in str(refused.value)
    assert "a[0] = nothing;" in str(refused.value)


def test_a_kernel_of_another_language_is_refused() -> None:
    with pytest.raises(TargetError, match="kernel k is written in numba; this runtime runs opencl"):
        compiled(devices.current(), [Kernel("k", "numba", "def k(): pass", "k", ())], None)


def on_a_grid(threads: int) -> Any:
    sch = Schedule(elementwise(64, 64))
    whole = sch.fuse(*sch.get_loops(sch.get_block("C")))
    blocks, inner = sch.split(whole, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch


def test_a_block_of_too_many_threads_is_refused_with_the_limit() -> None:
    target = Target("opencl -max_threads_per_block=128")
    kernel = lower(on_a_grid(256).func, target, "main")["main_kernel_0"]
    with pytest.raises(Unsupported, match="a block of too many threads(.|\n)*at most 128 threads(.|\n)*256"):
        generate(kernel, target)


def test_too_much_shared_storage_is_refused_with_the_limit() -> None:
    sch = on_a_grid(64)
    copy = sch.cache_read(sch.get_block("C"), 0, "shared")
    sch.compute_at(copy, sch.get_loops(sch.get_block("C"))[0])
    target = Target("opencl -max_shared_memory_per_block=64")
    kernel = lower(sch.func, target, "main")["main_kernel_0"]
    with pytest.raises(Unsupported, match="too much shared storage(.|\n)*at most 64 bytes"):
        generate(kernel, target)


def test_a_failed_run_leaves_the_outputs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl

    module = minitvm.build(elementwise(8, 8), target="opencl")
    arrays = [np.ones((8, 8), np.float32), np.ones(8, np.float32), np.full((8, 8), 77, np.float32)]
    module(*[a.copy() for a in arrays])

    def fails(*args: Any, **options: Any) -> Any:
        raise pyopencl.RuntimeError("out of resources")

    monkeypatch.setattr(pyopencl, "enqueue_nd_range_kernel", fails)
    with pytest.raises(ExecutionError, match="main failed on .*: out of resources"):
        module(*arrays)
    assert (arrays[2] == 77).all()
    monkeypatch.undo()
    module(*arrays)
    assert (arrays[2] == 3).all()


def test_info_lists_the_devices(capsys: pytest.CaptureFixture[str]) -> None:
    from minitvm.cli import main

    assert main(["info"]) == 0
    assert any(line.startswith("opencl       ") for line in capsys.readouterr().out.splitlines())
