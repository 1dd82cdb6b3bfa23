"""Who has the objects of a driver: each is freed once, in its context, also after errors; several devices; resets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import ExecutionError, InputError, MinitvmError, TargetError
from minitvm.machines.cuda.runtime import devices, driver
from minitvm.runtime import from_dlpack
from minitvm.runtime.device.owned import Owned, Owner
from minitvm.script import from_source
from tests.machines.cuda.runtime.fake_cuda import FakeDriver, Tensor
from tests.machines.cuda.runtime.test_driver import PLUS_ONE, Plug, plugged  # noqa: F401 (a fixture)
from tests.runtime.test_devices import alike, network

pytest.importorskip("numba_cuda")
X = np.ones((2, 2, 5, 6), np.float32)


def alive(fake: FakeDriver) -> dict[str, int]:
    """What the driver handed out and did not get back."""
    return {kind: count for kind, count in fake.alive.items() if count}


# -- the mechanism


@contextmanager
def nothing() -> Any:
    yield


def test_an_object_is_freed_once_by_whoever_is_first() -> None:
    freed: list[Any] = []
    owner = Owner(nothing)
    things = [Owned(owner, k, freed.append) for k in range(5)]
    things[3].free()
    del things[0]
    assert freed == [3, 0] and len(owner) == 3
    owner.close()
    assert freed == [3, 0, 4, 2, 1], "the newest goes first"
    things.clear()
    assert len(freed) == 5 and len(owner) == 0


def test_objects_that_the_driver_destroyed_are_not_freed_again() -> None:
    freed: list[Any] = []
    owner = Owner(nothing)
    things = [Owned(owner, k, freed.append) for k in range(3)]
    owner.lose()
    things.clear()
    assert not freed and len(owner) == 0


# -- CUDA


def timed_and_run() -> None:
    """Build a module, run it until its launches are a graph, and time it."""
    module = minitvm.build(from_source(PLUS_ONE), target="cuda")
    arrays = [np.ones(512, np.float32), np.zeros(512, np.float32)]
    for _ in range(3):
        module(*arrays)
    clock = module.clock([[module.to_device(a) for a in arrays]])
    assert clock is not None and clock(0) > 0


@pytest.mark.parametrize("fails", ["", "cuGraphInstantiate", "cuEventElapsedTime", "cuModuleGetFunction"])
def test_a_module_that_is_gone_leaves_nothing_alive(plugged: Plug, collect: Callable[[], int], fails: str) -> None:  # noqa: F811
    fake = plugged()
    devices.current()
    before = alive(fake)
    assert before == {"stream": 1}
    fake.fails = {fails}
    if fails:
        with pytest.raises(MinitvmError, match="CUDA_ERROR_INVALID_VALUE"):
            timed_and_run()
    else:
        timed_and_run()
    collect()
    assert alive(fake) == before and not fake.memory


def test_graphs_go_with_the_memory_that_they_use(plugged: Plug, collect: Callable[[], int]) -> None:  # noqa: F811
    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda")
    for _ in range(3):
        alike(graph, module, x=X)
    assert fake.alive["executable graph"] == 1 and fake.alive["graph"] == 0
    del module
    collect()
    assert alive(fake) == {"stream": 1} and not fake.memory


def test_memory_is_freed_by_threads_without_a_context(plugged: Plug, collect: Callable[[], int]) -> None:  # noqa: F811
    fake = plugged()
    held = [driver.Memory(devices.current(), 64)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    collect()
    assert not fake.memory


def test_freeing_leaves_the_context_of_others_current(plugged: Plug) -> None:  # noqa: F811
    fake = plugged(devices=2)
    memory = driver.Memory(devices.current("0"), 64)
    devices.current("1").enter()
    del memory
    assert not fake.memory and fake.context == "context 1"


def test_a_device_that_is_closed_gives_everything_back(plugged: Plug) -> None:  # noqa: F811
    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda")
    alike(graph, module, x=X)
    devices.current().close()
    assert not alive(fake) and not fake.memory and not +fake.retained
    with pytest.raises(ExecutionError, match=r"the device lost what the program has there \(it was closed\)"):
        module(X)
    alike(graph, minitvm.build(graph, target="cuda"), x=X)


def test_after_an_error_that_stays_the_device_is_reset(plugged: Plug, collect: Callable[[], int]) -> None:  # noqa: F811
    fake, graph = plugged(), network()
    module = minitvm.build(graph, target="cuda")
    kept = from_dlpack(minitvm.build(from_source(PLUS_ONE), target="cuda").to_device(X))
    fake.breaks = True
    with pytest.raises(ExecutionError, match="network failed on NVIDIA Pretended: CUDA_ERROR_ILLEGAL_ADDRESS"):
        module(X)
    with pytest.raises(ExecutionError, match=r"lost what the program has(.|\n)*ILLEGAL(.|\n)*try:    build or load it"):
        module(X)
    again = minitvm.build(graph, target="cuda")
    alike(graph, again, x=X)
    with pytest.raises(MinitvmError):
        again(kept)  # its memory is gone
    del module, kept, again
    collect()
    assert alive(fake) == {"stream": 1} and not fake.memory


def test_modules_run_on_several_devices(plugged: Plug) -> None:  # noqa: F811
    fake, graph = plugged(devices=2), network()
    modules = [minitvm.build(graph, target="cuda", device=number) for number in (0, 1, "pretended 1")]
    assert devices.current("1") is devices.current("pretended 1") is not devices.current()
    for _ in range(2):
        for module in modules:
            alike(graph, module, x=X)
    assert set(fake.places.values()) == {"context 0", "context 1"}
    there = from_dlpack(Tensor(fake, X, (2, 1)))
    np.testing.assert_array_equal(modules[1](there), modules[0](X))
    with pytest.raises(InputError, match="it is on NVIDIA Pretended 1, and programs run on NVIDIA Pretended 0"):
        modules[0](there)


def test_a_device_that_is_not_there_is_refused_with_those_that_are(plugged: Plug) -> None:  # noqa: F811
    plugged(devices=2)
    with pytest.raises(
        TargetError, match=r"no CUDA device is called '2'(.|\n)*found:  NVIDIA Pretended 0\n +NVIDIA Pre"
    ):
        minitvm.build(network(), target="cuda", device=2)


def test_a_program_of_the_cpu_has_no_device() -> None:
    with pytest.raises(InputError, match=r"device=1: a program for cpu runs on this machine's\n  try:    no device="):
        minitvm.build(network(), target="cpu", device=1)
