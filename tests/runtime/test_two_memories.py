"""Networks on a device and its host: kernels on both sides, copies between their memories, and one artifact.

On OpenCL by PoCL, on CUDA by the simulator.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import MinitvmError
from minitvm.events import Listener, Step
from minitvm.executable import CallKernel, Copy, Executable, verify
from minitvm.executable.memory_report import memory_plan
from minitvm.executable.serialize import blob, from_json, to_json
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import place
from minitvm.machines.cpu.runtime import hosted as cpu_hosted
from minitvm.machines.cuda.runtime.devices import SimulatedDevice
from minitvm.machines.gpu.strategy.refusal import LEAST, refusal
from minitvm.reference import executable as interpreter
from minitvm.reference import graph as oracle
from minitvm.runtime import load
from minitvm.runtime.artifact import format
from minitvm.runtime.device.device import Bytes, Launch, Place
from minitvm.target import Target
from tests.executable.loop_graphs import X, rows
from tests.runtime.test_artifact import own_cache, own_config
from tests.runtime.test_devices import alike, device, network, pooled
from tests.runtime.test_states import log, row

__all__ = ["device", "own_cache", "own_config"]


def image(batch: int = 2) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).standard_normal((batch, 2, 5, 6)).astype("float32")}


def kernels_on(executable: Executable) -> list[str]:
    """The languages of the kernels that are called, in order, each run of one language once."""
    languages = [executable.kernels[s.kernel].language for s in executable.steps if isinstance(s, CallKernel)]
    return [one for k, one in enumerate(languages) if k == 0 or one != languages[k - 1]]


class _Names(Listener):
    def __init__(self) -> None:
        self.steps: list[str] = []

    def step_begin(self, step: Step, time: float) -> None:
        self.steps.append(step.kind)


@pytest.mark.parametrize("on_host", ["nn.dense", "nn.relu,nn.softmax"])
def test_a_network_runs_on_both(device: str, on_host: str) -> None:
    graph = network()
    module = minitvm.build(graph, target=f"{device} -on_host={on_host}")
    verify(module.executable)
    assert "numba" in kernels_on(module.executable) and len(kernels_on(module.executable)) > 1
    assert [arena.target for arena in module.executable.arenas] == ["", "cpu"]
    for _ in range(3):
        alike(graph, module, **image())
    for one, other in zip(interpreter.run(module.executable, image()), oracle.run(graph, image()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_copies_are_steps_which_show_prints_and_listeners_see(device: str) -> None:
    module = minitvm.build(network(), target=f"{device} -on_host=nn.dense")
    copies = [step for step in module.executable.steps if isinstance(step, Copy)]
    text = str(module.executable)
    assert len(copies) == 2
    assert f"# from {device} to cpu" in text and f"# from cpu to {device}" in text
    assert "cpu_arena = arena(" in text and text.count("  # on cpu") == 3  # the arena, the kernel and its step
    (line,) = [line for line in text.splitlines() if " = kernel(" in line and "  # on cpu" in line]
    assert line.endswith("  # on cpu: the target's option on_host names nn.dense"), "and why"
    module.listeners = [names := _Names()]
    module(**image())
    assert names.steps.count("Copy") == 2
    module.listeners = []
    assert (np.diff(module.stamped(**image()).times[0]) >= 0).all()
    plan = memory_plan(module.executable)
    assert plan.peak == sum(arena.size for arena in module.executable.arenas)  # type: ignore[misc]


def test_open_sizes_states_and_loops_reach_both(device: str) -> None:
    graph = pooled(SizeVar("n"))
    module = minitvm.build(graph, target=f"{device} -on_host=nn.dense")
    for batch in (1, 3, 2):
        alike(graph, module, **image(batch))
    for on_host in ("nn.cache_update", "sum"):
        module = minitvm.build(log(), target=f"{device} -on_host={on_host}")
        assert len(kernels_on(module.executable)) > 1
        assert module(**row(3, 1)).tolist() == [[3, 3]] and module(**row(4, 2)).tolist() == [[7, 7]]
    for on_host in ("sum", "add"):
        module = minitvm.build(rows(), target=f"{device} -on_host={on_host}")
        alike(rows(), module, x=X, n=np.array(7))


def test_an_executable_is_read_back(device: str) -> None:
    made: Executable = minitvm.lower(network(), f"{device} -on_host=nn.dense", stop_at="executable")
    again = from_json(to_json(made), b"".join(blob(made)[1]))
    assert again.arenas == made.arenas and str(again) == str(made)


def test_an_artifact_holds_both(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = minitvm.build(network(), target=f"{device} -on_host=nn.dense")
    module.export(tmp_path / "two.mtvm")
    index = json.loads(bytes(format.read(tmp_path / "two.mtvm").sections["code"]))
    machines = [part["target"].split()[0] for part in index]
    assert machines == (["cuda", "cpu"] if device == "cuda" else ["cpu"])
    monkeypatch.setattr("minitvm.machines.cpu.runtime.hosted._loaded", lambda kernel: pytest.fail("it is compiled"))
    again = load(tmp_path / "two.mtvm")
    np.testing.assert_array_equal(again(**image()), module(**image()))


def test_show_prints_each_operator_for_its_machine(device: str) -> None:
    sources = minitvm.lower(network(), f"{device} -on_host=nn.softmax", stop_at="source")
    on_cpu = {
        name for name, text in sources.items() if "minitvm.machines.simd.vectors.simd" in text and "cuda" not in text
    }
    assert on_cpu == {"softmax"}


def test_an_operator_that_there_is_not_is_refused() -> None:
    with pytest.raises(MinitvmError, match="operator nn.softmaxx is not registered; did you mean nn.softmax"):
        minitvm.lower(network(), "cuda -on_host=nn.softmaxx", stop_at="executable")


def sorting(rows: Any, columns: int) -> Graph:
    b = GraphBuilder("sorting")
    return b.build(b.op("argsort", b.input("x", (rows, columns))))


def refused_are_few_and_long() -> None:
    for count, columns, is_refused in ((2, LEAST, True), (2, 100, False), (64, LEAST, False)):
        func = minitvm.lower(sorting(count, columns), "cuda", stop_at="tir")["argsort"]
        reason = refusal(func, Target("cuda"))
        assert bool(reason) == is_refused and (not is_refused or "by_digits is 2 tasks of" in reason)
        assert place(func, Target("cuda")).target.kind == ("cpu" if is_refused else "cuda")
        assert refusal(func, Target("opencl -device=pocl")) == ""  # there, a thread is a core


def test_long_tasks_that_are_few_run_on_the_host() -> None:
    refused_are_few_and_long()


class Late(SimulatedDevice):
    """Nothing happens before somebody waits for it."""

    def __init__(self) -> None:
        self.queued: list[Callable[[], None]] = []

    def write(self, place: Place, data: Bytes) -> None:
        self.queued.append(lambda: SimulatedDevice.write(self, place, data))

    def read(self, data: Bytes, place: Place) -> None:
        self.queued.append(lambda: SimulatedDevice.read(self, data, place))

    def launch(self, *about: Any) -> Launch:
        run = super().launch(*about)
        return lambda: self.queued.append(run)

    def finish(self) -> None:
        for command in self.queued:
            command()
        self.queued.clear()


def kernels_of_the_host_wait() -> None:
    """The first operator fills memory that the third one, also on the host, uses again."""
    b = GraphBuilder("in_turn")
    x = b.input("x", (4, 8))
    for name in ("nn.softmax", "tanh", "nn.softmax", "tanh", "nn.softmax"):
        x = b.op(name, x)
    graph = b.build(x)
    data = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitvm.machines.cuda.runtime.program.current", lambda wanted: Late())
        module = minitvm.build(graph, target="cuda -on_host=nn.softmax")
        for _ in range(2):
            alike(graph, module, x=data)


def test_threads_of_build_are_those_of_the_kernels_of_the_host(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    teams: list[int] = []
    shared = cpu_hosted.shared_team
    monkeypatch.setattr(cpu_hosted, "shared_team", lambda threads: [teams.append(threads), shared(threads)][1])
    for threads in (1, 3):
        alike(network(), minitvm.build(network(), target=f"{device} -on_host=nn.dense", threads=threads), **image())
    assert teams == [1, 3]


def test_kernels_of_the_host_wait() -> None:
    pytest.importorskip("numba_cuda")
    kernels_of_the_host_wait()


def test_a_sort_that_is_refused_is_right(device: str) -> None:
    b = GraphBuilder("sorted")
    x = b.input("x", (2, 1 << 14))
    graph = b.build(b.op("negative", b.op("argsort", b.op("negative", x))))
    module = minitvm.build(graph, target=device)
    assert kernels_on(module.executable)[1:-1] == ["numba"]
    alike(graph, module, x=np.random.default_rng(0).standard_normal((2, 1 << 14)).astype("float32"))
