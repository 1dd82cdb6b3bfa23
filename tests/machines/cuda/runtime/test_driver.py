"""NVIDIA's driver as `cuda.runtime.driver` calls it, without a device: what it is asked, in which order, with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.build import code_target
from minitvm.errors import ExecutionError, TargetError
from minitvm.executable import Kernel
from minitvm.expr import SizeVar
from minitvm.machines.cuda.runtime import devices, driver
from minitvm.script import from_source
from minitvm.target import Target
from tests.machines.cuda.runtime import fake_cuda
from tests.machines.cuda.runtime.fake_cuda import FakeDriver
from tests.runtime.test_devices import alike, network, pooled
from tests.runtime.test_states import log, row

pytest.importorskip("numba_cuda")
PLUS_ONE = """
@T.prim_func
def main(A: T.Buffer((512,)), B: T.Buffer((512,))):
    for b in T.thread_binding(512 // 256, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(512, b * 256 + t)
                B[vi] = A[vi] + T.float32(1)
"""
Plug = Callable[..., FakeDriver]


@pytest.fixture
def plugged() -> Iterator[Plug]:
    """A machine with a device: `plugged(arch)` is its driver."""
    with ExitStack() as open_until_the_end:
        yield lambda *about, **options: open_until_the_end.enter_context(fake_cuda.plugged(*about, **options))


def test_a_network_is_right_and_becomes_a_graph(plugged: Plug, rng: np.random.Generator) -> None:
    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda")
    for _ in range(4):
        alike(graph, module, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))
    kernels = sum(type(step).__name__ == "CallKernel" for step in module.executable.steps)
    assert fake.commands.count("cuStreamBeginCapture") == fake.commands.count("cuGraphInstantiate") == 1
    assert fake.commands.count("cuGraphLaunch") == 3
    assert fake.commands.count("cuLaunchKernel") == 2 * kernels  # in the first run, and once more to record them


def test_between_steps_of_the_host_a_network_becomes_graphs(plugged: Plug, rng: np.random.Generator) -> None:
    """The steps are kernel, 2 kernels, a copy, the host's kernel, a copy, 3 kernels: two graphs."""
    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda -on_host=nn.max_pool3d", threads=1)
    for _ in range(4):
        alike(graph, module, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))
    assert fake.commands.count("cuGraphInstantiate") == 2
    assert fake.commands.count("cuGraphLaunch") == 2 * 3
    assert fake.commands.count("cuLaunchKernel") == 2 * 6  # in the first run, and once more to record them


def test_open_sizes_and_states(plugged: Plug, rng: np.random.Generator) -> None:
    plugged()
    graph = pooled(SizeVar("n"))
    module = minitvm.build(graph, target="cuda")
    for n in (1, 2, 1, 1):
        alike(graph, module, x=rng.standard_normal((n, 2, 5, 6), dtype=np.float32))
    module = minitvm.build(log(), target="cuda")
    assert module(**row(3, 1)).tolist() == [[3, 3]]
    assert module(**row(4, 2)).tolist() == [[7, 7]]


def test_all_memory_is_given_back(plugged: Plug, rng: np.random.Generator, collect: Callable[[], int]) -> None:
    fake = plugged()
    module = minitvm.build(network(), target="cuda")
    module(rng.standard_normal((2, 2, 5, 6), dtype=np.float32))
    assert fake.memory
    del module
    collect()
    assert not fake.memory


def test_what_is_garbage_is_not_freed_while_a_graph_is_recorded(
    plugged: Plug, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc

    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda")
    x = rng.standard_normal((2, 2, 5, 6), dtype=np.float32)
    module(x)
    dropped, launch = [driver.Memory(devices.current(), 64)], FakeDriver._cuLaunchKernel

    def dropping(self: FakeDriver, *args: Any) -> None:
        if dropped:
            cycle: list[Any] = [dropped.pop()]
            cycle.append(cycle)
            del cycle
        assert len([[] for _ in range(10)]) == 10  # enough for the collector, if it is at work
        launch(self, *args)

    monkeypatch.setattr(FakeDriver, "_cuLaunchKernel", dropping)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        alike(graph, module, x=x)
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled() and not dropped and "cuGraphLaunch" in fake.commands


def test_too_little_memory_is_said_with_the_device(plugged: Plug) -> None:
    plugged(total=600)
    with pytest.raises(
        TargetError, match="needs .* bytes of the device's memory\n  found:  NVIDIA Pretended"
    ) as refused:
        minitvm.build(network(), target="cuda")(np.zeros((2, 2, 5, 6), np.float32))
    assert "\n  try:    a smaller batch" in str(refused.value)


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyDtoHAsync"])
def test_a_run_that_fails_names_the_device_and_the_module_stays_usable(plugged: Plug, function: str) -> None:
    fake, graph = plugged(), network()
    module, x = minitvm.build(graph, target="cuda"), np.ones((2, 2, 5, 6), np.float32)
    fake.fails = {function}
    with pytest.raises(ExecutionError, match="network failed on NVIDIA Pretended: CUDA_ERROR_INVALID_VALUE: the words"):
        module(x)
    fake.fails = set()
    alike(graph, module, x=x)


def test_kernels_for_a_newer_device_are_refused(plugged: Plug) -> None:
    plugged("sm_80")
    with pytest.raises(TargetError, match=r"cannot run on NVIDIA Pretended: the kernels were generated for sm_90a"):
        minitvm.build(network(), target="cuda -arch=sm_90a")


def test_kernels_for_one_architecture_are_compiled_for_it(plugged: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    plugged("sm_90")
    asked: set[str] = set()

    def compiling(jobs: Sequence[Any], *about: Any) -> list[bytes]:
        asked.update(arch for _, _, arch in jobs)
        return fake_cuda.cubins(jobs)

    monkeypatch.setattr(driver, "cubins", compiling)
    for target in ("cuda -arch=sm_75", "cuda -arch=sm_90a"):
        minitvm.build(network(), target=target)
    assert asked == {"sm_90", "sm_90a"}
    asked.clear()
    minitvm.build(network(), target="cuda")
    assert asked == {"sm_90a"}, "the device at hand, with what only it has"


@pytest.mark.parametrize(
    ("arch", "text"),
    [
        ("sm_80", "cuda -arch=sm_80 -multiprocessors=2"),
        ("sm_90", "cuda -arch=sm_90a -multiprocessors=2"),
        ("sm_87", "cuda -arch=sm_87 -model=sm_86 -max_shared_memory_per_block=166912 -multiprocessors=2"),
        ("sm_61", "cuda -arch=sm_61 -max_shared_memory_per_block=166912 -multiprocessors=2"),
    ],
)
def test_a_target_that_names_no_device_is_the_one_at_hand(
    plugged: Plug, arch: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generic = Target("cuda")
    monkeypatch.setenv(devices.VARIABLE, devices.SIMULATOR)
    assert code_target("cuda") == generic, "the simulator runs whatever it is given"
    plugged(arch)
    assert code_target("cuda") == code_target(generic) == Target(text) == Target(devices.current().target)
    assert code_target("cuda -allow_tf32=true -multiprocessors=7 -host=cpu") == Target(
        text.replace("=2", "=7") + " -allow_tf32=true", "cpu"
    )
    for named in ("cuda -arch=sm_75", "cuda -model=a100", "cpu"):
        assert code_target(named) == Target(named)
    # What is kept under a target says which device that was, on every machine.
    executable = minitvm.lower(network(), target="cuda", stop_at="executable")
    assert arch in executable.target and Target(executable.target) == Target(text)
    assert Target("cuda") == generic


def test_without_a_device_a_target_is_what_its_text_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices.VARIABLE, raising=False)
    monkeypatch.setattr(driver, "found", list)
    assert code_target("cuda") == Target("cuda") and not Target("cuda").arch


def test_a_kernel_of_another_language_is_refused(plugged: Plug) -> None:
    from dataclasses import replace

    plugged()
    executable = minitvm.lower(network(), target="cuda", stop_at="executable")
    other = replace(executable, kernels=(Kernel("k", "opencl", "", "k", ()),))
    with pytest.raises(TargetError, match="kernel k is written in opencl; this runtime runs numba-cuda"):
        driver.CudaDevice(0).compiled(other, None, None)


def test_a_block_with_too_many_registers_is_refused_before_it_is_launched(plugged: Plug) -> None:
    fake = plugged()
    fake.registers = 250
    func = from_source(PLUS_ONE.replace("512 // 256", "1").replace("256", "512"))
    module = minitvm.build(func, target="cuda")
    with pytest.raises(
        TargetError, match="kernel main_kernel_0 has blocks of 512 threads, each with 250 registers"
    ) as e:
        module(np.zeros(512, np.float32), np.zeros(512, np.float32))
    assert "runs up to 256 such threads" in str(e.value) and "cuLaunchKernel" not in fake.commands
    fake.registers = 32
    result = np.zeros(512, np.float32)
    module(np.ones(512, np.float32), result)
    assert (result == 2).all()  # the process, and the module, stay usable


def test_a_grid_beyond_the_device_is_refused_before_it_is_launched(plugged: Plug) -> None:
    fake = plugged()
    fake.attributes["MAX_GRID_DIM_Y"] = 3
    module = minitvm.build(
        from_source(PLUS_ONE.replace("blockIdx.x", "blockIdx.y").replace("512", "1024")), target="cuda"
    )
    with pytest.raises(TargetError, match=r"a grid of 1 x 4 x 1 groups\n.*up to 2147483647 x 3 x 65535"):
        module(np.zeros(1024, np.float32), np.zeros(1024, np.float32))
    assert "cuLaunchKernel" not in fake.commands
