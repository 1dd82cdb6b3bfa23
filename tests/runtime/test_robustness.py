"""What a compiled model must bear: too many threads, two callers, a fork; and what a call costs in memory and time."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm.errors import MinitvmError
from minitvm.events import Listener
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as oracle
from minitvm.runtime import GraphModule
from minitvm.workers.cores import available_cores

SHAPE = (1, 16, 24, 24)


def network(seed: int = 0) -> Graph:
    """Two convolutions that are added, a pool and a dense layer: parallel and sequential kernels, and an arena."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(f"network{seed}")
    x = b.input("x", SHAPE)

    def weight(*shape: int) -> Any:
        return b.constant(rng.integers(-2, 3, shape).astype("float32"), f"w{len(shape)}{shape[0]}")

    left = b.op("nn.relu", b.op("nn.conv2d", x, weight(16, 16, 1, 1)))
    right = b.op("nn.conv2d", left, weight(16, 16, 1, 1))
    pooled = b.op("nn.global_avg_pool", b.op("add", left, right))
    flat = b.op("nn.batch_flatten", pooled)
    return b.build(b.op("nn.dense", flat, weight(32, 16)))


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, SHAPE).astype("float32")


@pytest.fixture(scope="module")
def executables() -> list[Any]:
    return [tvm.lower(network(seed), stop_at="executable") for seed in range(2)]


def expected(seed: int, x: np.ndarray) -> np.ndarray:
    return oracle.run(network(seed), {"x": x})[0]


def assert_same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("factor", [1, 2, 8])
def test_more_threads_than_cores(executables: list[Any], factor: int) -> None:
    module = GraphModule(executables[0], threads=len(available_cores()) * factor + 1)
    for seed in range(6):
        x = picture(seed)
        assert_same(module(x), expected(0, x))


def test_two_modules_run_at_once_from_two_python_threads(executables: list[Any]) -> None:
    """Each on a team of its own size, and both on one team."""
    for sizes in ((2, 3), (2, 2)):
        modules = [GraphModule(x, threads=n) for x, n in zip(executables, sizes, strict=True)]
        wanted = [[expected(k, picture(seed)) for seed in range(3)] for k in range(2)]
        failures: list[BaseException] = []
        start = threading.Barrier(2)

        def use(k: int, modules: list[GraphModule] = modules, wanted: Any = wanted, failures: Any = failures,
                start: Any = start) -> None:  # fmt: skip
            try:
                start.wait(60)
                for turn in range(60):
                    assert_same(modules[k](picture(turn % 3)), wanted[k][turn % 3])
            except BaseException as error:
                failures.append(error)

        users = [threading.Thread(target=use, args=(k,)) for k in range(2)]
        for user in users:
            user.start()
        for user in users:
            user.join(120)
        assert not failures and not any(user.is_alive() for user in users), failures


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_runs_the_same_module(executables: list[Any]) -> None:
    """Parent and child go on with the same module, in turns and at the same time."""
    module = GraphModule(executables[0], threads=3)
    x = picture(0)
    wanted = expected(0, x)
    assert_same(module(x), wanted)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            for _ in range(20):
                assert_same(module(x), wanted)
            status = 0
        finally:
            os._exit(status)
    for _ in range(20):
        assert_same(module(x), wanted)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_child_forked_in_the_middle_of_a_call_runs_the_same_module(executables: list[Any], threads: int) -> None:
    """The thread that made the call does not exist in the child, and neither do its locks."""
    module = GraphModule(executables[0], threads=threads)
    x = picture(0)
    wanted = expected(0, x)
    assert_same(module(x), wanted)
    inside, forked = threading.Event(), threading.Event()

    class Waits(Listener):
        def step_begin(self, step: Any, at: float) -> None:
            inside.set()
            assert forked.wait(60)

    module.listeners = [Waits()]
    caller = threading.Thread(target=module, args=(x,))
    caller.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            module.listeners = []
            for _ in range(20):
                assert_same(module(x), wanted)
            status = 0
        finally:
            os._exit(status)
    forked.set()
    caller.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_allocates_its_outputs_and_nothing_else(
    executables: list[Any], threads: int, collect: Callable[[], int]
) -> None:
    """An intermediate of this network takes 36 KiB: one that is allocated in a call would be seen."""
    module = GraphModule(executables[0], threads=threads)
    x, out = picture(0), np.empty((1, 32), np.float32)
    assert isinstance(module.memory.peak, int) and module.memory.peak > 60_000
    tracemalloc.start()
    try:
        for _ in range(20):  # what Python itself keeps for the next call is there by then
            module(x, out=out)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(50):
            module(x, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        assert peak - before < 16_000, "a call with out= allocates arrays"
        collect()
        after = tracemalloc.get_traced_memory()[0]
        assert after - before < 2048, "calls leave something behind"
        kept = [module(x) for _ in range(50)]
        grown = tracemalloc.get_traced_memory()[0] - after
        assert grown < 50 * (kept[0].nbytes + 512), "a call keeps more than the output that it returned"
    finally:
        tracemalloc.stop()


def tiny() -> Graph:
    b = GraphBuilder("tiny")
    return b.build(b.op("nn.relu", b.input("x", (8,))))


YARDSTICK = 40  # additions of eight floats by NumPy: 20 microseconds where one takes half a microsecond


def cost(call: Callable[[], Any], series: int) -> float:
    """What a call costs in additions of eight floats.

    The best of many short series of both, in turns: whatever else the machine does can only add to them, and a slow
    machine is slow at both.
    """
    best, of_addition, x = float("inf"), float("inf"), np.ones(8, np.float32)
    for _ in range(series):
        best = min(best, _timed(call))
        of_addition = min(of_addition, _timed(lambda: np.add(x, x)))
    return best / of_addition


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(10):
        call()
    return time.perf_counter() - start


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_of_a_tiny_graph_costs_microseconds(threads: int) -> None:
    module = tvm.build(tiny(), threads=threads)
    x = np.ones(8, np.float32)
    assert cost(lambda: module(x), 200) < YARDSTICK


def test_an_empty_graph_is_called_as_quickly() -> None:
    b = GraphBuilder("empty")
    x = b.input("x", (8,))
    module = tvm.build(b.build(x), threads=2)
    value = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(module(value), value)
    assert cost(lambda: module(value), 50) < YARDSTICK


def test_arrays_are_let_go_when_a_call_ends() -> None:
    """At once, not when the garbage collector comes: they may be large."""
    module = tvm.build(tiny(), threads=1)
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    held = [weakref.ref(x), weakref.ref(out)]
    gc.disable()
    try:
        module(x, out=out)
        module.set_input(0, x)
        module.run()
        del x, out
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


class CallsAgain(Listener):
    """Calls `again` when a step begins."""

    def __init__(self, again: Callable[[], Any]) -> None:
        self.again = again

    def step_begin(self, step: Any, time: float) -> None:
        self.again()


def test_a_run_is_not_started_from_within() -> None:
    """The second run would use the first one's memory: its arena, and the addresses of its arrays."""
    refused: list[str] = []
    calls: list[Callable[[], Any]] = []

    def again() -> None:
        for call in calls:
            with pytest.raises(MinitvmError) as error:
                call()
            refused.append(str(error.value))

    def sorted_after(x: np.ndarray, out: np.ndarray) -> None:
        again()
        np.copyto(out, np.sort(x))

    b = GraphBuilder("nested")
    x = b.input("x", (4,))
    module = tvm.build(b.build(b.op("add", b.call_packed(sorted_after, [x], ((4,), "float32")), x)))
    values, others = np.array([1, 2, -3, 4], np.float32), np.full(4, 7, np.float32)
    calls += [lambda: module(others), lambda: module(others, out=np.empty(4, np.float32)), lambda: module.run(x=others)]
    calls.append(lambda: module.stamped(others))
    for _ in range(3):
        np.testing.assert_array_equal(module(values), np.sort(values) + values)
    module.listeners = [CallsAgain(again)]
    np.testing.assert_array_equal(module(values), np.sort(values) + values)
    assert len(refused) > 4 * len(calls) and all("during its own run" in text for text in refused)
    module.listeners = [CallsAgain(lambda: 1 / 0)]
    with pytest.raises(ZeroDivisionError):
        module(values)
    calls.clear()
    module.listeners = []
    np.testing.assert_array_equal(module(values), np.sort(values) + values)


def test_a_function_is_not_called_from_within() -> None:
    a = tvm.te.placeholder((4,), name="A")
    function = tvm.build(tvm.te.create_prim_func([a, tvm.te.compute((4,), lambda i: a[i] + 1, name="B")]))
    values, result, other = np.arange(4, dtype=np.float32), np.empty(4, np.float32), np.zeros(4, np.float32)

    def again() -> None:
        with pytest.raises(MinitvmError, match="during its own run"):
            function(other, other.copy())

    function.listeners = [CallsAgain(again)]
    for _ in range(3):
        result[:] = 0
        function(values, result)
        np.testing.assert_array_equal(result, values + 1)
