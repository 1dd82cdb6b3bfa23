"""Candidates for devices: measured where they lie, by the device's clock, in a process that ends with a fault."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.backend import registered
from minitvm.errors import TargetError
from minitvm.link import link_function
from minitvm.lowering import lower_function
from minitvm.machines.scratchpad.topi import conv2d_elements, requantize_elements
from minitvm.records.database import Database
from minitvm.runtime import Function
from minitvm.runtime.artifact.export import export
from minitvm.runtime.device import clock
from minitvm.strategy import candidate_of, scheduled
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tune import runner as program
from minitvm.tune import tune, tune_func
from minitvm.tune.measure import Asked as Measurement
from minitvm.tune.measure import Runner, request_of
from minitvm.tune.runner import Child
from minitvm.tune.task import extract, function_task
from tests.machines.cuda.runtime import fake_cuda
from tests.machines.cuda.runtime.fake_cuda import FakeDriver
from tests.machines.vta.test_networks import SMALL
from tests.patience import PATIENCE

from .programs import SHORT, network, product

POCL = "opencl -model=pocl"
CUDA = "cuda -arch=sm_80"
ADD = 64


def plus(number: float = 1.0) -> PrimFunc:
    """Each element and a number."""
    a = te.placeholder((ADD,), name="A")
    return te.create_prim_func([a, te.compute((ADD,), lambda i: a[i] + number, name="C")])


def linked(func: PrimFunc, target: str) -> Any:
    machine = Target(target)
    return link_function(lower_function(scheduled(func, machine), machine), machine.brief)


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    """The driver of a machine with a CUDA device."""
    pytest.importorskip("numba_cuda")
    with fake_cuda.plugged() as fake:
        yield fake


def arguments(function: Function, count: int) -> list[list[Any]]:
    """Arguments of `plus` on the function's device, several times."""
    pairs = [(np.full(ADD, k, np.float32), np.zeros(ADD, np.float32)) for k in range(count)]
    return [[function.to_device(array) for array in pair] for pair in pairs]


# -- the device's clock


def test_a_call_takes_what_the_clock_of_the_device_says(driver: FakeDriver) -> None:
    function = Function(linked(plus(), CUDA))
    copies = arguments(function, 3)
    driver.kernel_seconds, driver.gap_seconds = (
        4e-5,
        1e-3,
    )  # a slow host
    timed = function.clock(copies)
    assert timed is not None and driver.alive["event"] == 0
    assert [timed(number) for number in range(3)] == pytest.approx([4e-5] * 3)
    assert driver.alive["event"] == 0, "events are given back"
    assert all((c.numpy() == a.numpy() + 1).all() for a, c in copies), "each copy had its turn"


@pytest.mark.parametrize(
    ("seconds", "copies", "groups"),
    [
        (clock.SAMPLE, 3, [1, 1, 1]),
        (clock.SAMPLE / 2, 5, [2, 2, 1]),
        (clock.SAMPLE / 4, 3, [6]),  # whole rounds: an argument comes again after all others
        (1e-9, 2, [clock.MOST]),
    ],
)
def test_calls_are_timed_in_groups_that_are_long_enough(
    seconds: float, copies: int, groups: list[int], driver: FakeDriver
) -> None:
    function = Function(linked(plus(), CUDA))
    driver.kernel_seconds = seconds * 1.001
    timed = function.clock(arguments(function, copies))
    assert timed is not None and [count for _, count in timed._groups] == groups
    driver.commands.clear()
    assert timed(0) == pytest.approx(driver.kernel_seconds)
    assert driver.commands.count("cuGraphLaunch") == 2, "a group before it keeps the device busy"


def test_long_calls_are_timed_alone(driver: FakeDriver) -> None:
    function = Function(linked(plus(), CUDA))
    driver.kernel_seconds = 2 * clock.LONG
    timed = function.clock(arguments(function, 2))
    driver.commands.clear()
    assert timed is not None and timed(0) == pytest.approx(2 * clock.LONG)
    assert driver.commands.count("cuGraphLaunch") == 1


def test_opencl_times_commands_from_the_first_to_the_last() -> None:
    pytest.importorskip("pyopencl")
    function = Function(linked(product(), POCL))
    copies = [[function.to_device(np.ones(s, np.float32)) for s in ((32, 16), (16, 48), (32, 48))] for _ in range(2)]
    timed = function.clock(copies)
    assert timed is not None
    start = time.perf_counter()
    seconds = timed(0)
    assert 0 < seconds * timed._groups[0][1] < time.perf_counter() - start
    assert all((c.numpy() == 16).all() for *_, c in copies)
    function(*copies[0])  # its usual queue is there again


def test_a_simulated_machine_counts_its_cycles() -> None:
    from minitvm.machines.vta.program import timed as timeline

    image = te.placeholder((1, 1, 2, 5, 2, 4), "int8", name="image")
    filters = te.placeholder((1, 1, 3, 3, 4, 4), "int8", name="filters")
    sums = conv2d_elements(image, filters, padding=1)
    func = te.create_prim_func([image, filters, requantize_elements(sums, shift=3)])
    function = Function(linked(func, SMALL))
    shapes = [[int(n) for n in buffer.shape] for buffer in func.params]
    counted = function.clock([[function.to_device(np.zeros(shape, np.int8)) for shape in shapes]])
    kernels = function.executable.kernels
    assert counted is not None
    assert counted(0) == pytest.approx(sum(timeline(k, Target(SMALL)).milliseconds for k in kernels) * 1e-3)


def test_functions_of_the_cpu_have_no_device() -> None:
    function = Function(linked(plus(), "cpu"))
    array = np.zeros(ADD, np.float32)
    assert function.clock([[array, array]]) is None and function.to_device(array) is array


def test_pieces_of_memory_without_addresses_are_apart() -> None:
    pytest.importorskip("pyopencl")
    function = Function(linked(plus(), POCL))
    a, c = (function.to_device(np.zeros(ADD, np.float32)) for _ in range(2))
    function(a, c)  # handles lie closer together than the memory that they stand for is long
    assert (c.numpy() == 1).all()
    with pytest.raises(minitvm.errors.InputError, match="shares memory"):
        function(c, c)


# -- measuring


def request(path: Path, key: bytes, results: Path, target: str, **others: Any) -> dict[str, Any]:
    task = function_task(plus(), Target(target))
    made = request_of(Measurement(task, [path], results), SHORT)
    paths = {"artifacts": [str(path)], "key": key.hex(), "results": str(results)}
    return {**made, **paths, "expected": str(results) if results.exists() else "", **others}


def test_a_measurement_is_right_or_wrong_and_as_long_as_the_device_says(driver: FakeDriver, tmp_path: Path) -> None:
    key, results = b"k" * 32, tmp_path / "right.npz"
    for name, number in (("good", 1.0), ("bad", 1.5)):
        export(linked(plus(number), CUDA), tmp_path / name, key=key)
    driver.kernel_seconds = 3e-5
    first = program.measured(request(tmp_path / "good", key, results, CUDA))
    assert first["outcome"] == "ok" and first["seconds"][0] == pytest.approx([3e-5] * len(first["seconds"][0]))
    bad = program.measured(request(tmp_path / "bad", key, results, CUDA))
    assert bad["outcome"] == "wrong"


def test_what_a_device_has_too_little_of_is_refused_and_a_fault_ends_the_process(
    driver: FakeDriver, tmp_path: Path
) -> None:
    key = b"k" * 32
    export(linked(plus(), CUDA), tmp_path / "good", key=key)
    asked = request(tmp_path / "good", key, tmp_path / "right.npz", CUDA)
    driver.registers = 4096
    refused = program.measured(asked)
    assert refused["outcome"] == "refused" and "4096 registers" in refused["message"]
    driver.registers = 32
    driver.fails = {"cuLaunchKernel"}
    with pytest.raises(minitvm.errors.ExecutionError):
        program.measured(asked)


def test_the_memory_of_a_device_has_no_limit_of_addresses(tmp_path: Path) -> None:
    on_cpu, on_device = (request(tmp_path, b"", tmp_path / "r", target) for target in ("cpu", CUDA))
    assert (on_cpu["memory"], on_cpu["device"]) == (SHORT.memory, "")
    assert (on_device["memory"], on_device["device"]) == (0, "cuda")


# -- the process that has the device open


@contextmanager
def ended() -> Iterator[dict[str, Child]]:
    """The children of a runner, which end with it."""
    made: dict[str, Child] = {}
    yield made
    for child in made.values():
        child.end()


@pytest.fixture
def children() -> Iterator[dict[str, Child]]:
    with ended() as made:
        yield made


def doing(
    does: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch, children: dict[str, Child]
) -> Callable[..., Any]:
    """Ask the process of a device, in which each measurement `does` this."""
    monkeypatch.setattr(program, "measured", does)
    return lambda **about: program.on_a_device({"device": "cuda", "memory": 0, "limit": PATIENCE, **about}, children)


def test_one_process_measures_until_a_candidate_ends_it(
    monkeypatch: pytest.MonkeyPatch, children: dict[str, Child]
) -> None:
    def does(request: Any) -> Any:
        if request["what"] == "fault":
            faulthandler.disable()  # pytest's own has the last word otherwise
            os.write(2, b"an illegal address\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        if request["what"] == "hang":
            time.sleep(100)
        return {"outcome": "ok", "number": os.getpid()}

    ask = doing(does, monkeypatch, children)
    first = ask(what="good")["number"]
    assert first != os.getpid() and ask(what="good")["number"] == first
    fault = ask(what="fault")
    assert (fault["outcome"], fault["message"]) == ("crashed", "SIGSEGV: an illegal address")
    second = ask(what="good")["number"]
    assert second != first
    assert ask(what="hang", limit=0.2)["outcome"] == "hung"
    assert ask(what="good")["number"] not in (first, second)


def test_what_one_candidate_wrote_is_not_said_of_the_next(
    monkeypatch: pytest.MonkeyPatch, children: dict[str, Child]
) -> None:
    def does(request: Any) -> Any:
        os.write(2, request["says"].encode())
        if not request["says"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"outcome": "ok"}

    ask = doing(does, monkeypatch, children)
    assert ask(says="a warning\n")["outcome"] == "ok"
    assert ask(says="")["message"] == "SIGKILL"


def test_a_process_that_ended_by_itself_is_replaced(
    monkeypatch: pytest.MonkeyPatch, children: dict[str, Child]
) -> None:
    ask = doing(lambda request: {"outcome": "ok", "number": os.getpid()}, monkeypatch, children)
    number = ask()["number"]
    os.kill(number, signal.SIGKILL)
    while not children["cuda"].has_ended:
        time.sleep(0.01)
    assert ask()["number"] != number


# -- from end to end


def test_without_a_device_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setenv("MINITVM_OPENCL_DEVICE", "no such device")
    with pytest.raises(TargetError, match="nothing can be measured for opencl: no OpenCL device is called"):
        tune(plus(), POCL, trials=1, db=str(tmp_path / "r.db"))
    with Database.open(str(tmp_path / "r.db")) as database:
        assert database.count() == 0


def test_code_is_for_the_architecture_of_the_device(driver: FakeDriver) -> None:
    reply = program.opened("cuda")
    assert reply["outcome"] == "ok" and reply["architectures"] == ["sm_80"] and reply["name"] == "NVIDIA Pretended"
    with Runner(SHORT) as runner:
        runner._devices["cuda"] = reply["architectures"]
        assert runner.architectures(Target("cuda")) == ["sm_80"] and runner.architectures(Target("cpu")) == ()


def test_back_ends_whose_devices_are_opened() -> None:
    assert {kind for kind, one in registered().items() if one.opened is not None} >= {"cuda", "opencl"}


def test_what_a_target_refuses_is_a_task_for_its_host() -> None:
    machines = {task.target.kind for task in extract(network(), f"{POCL} -on_host=nn.matmul")}
    assert machines == {"cpu"}
    assert {task.target.kind for task in extract(network(), POCL)} == {"opencl"}


@pytest.mark.full
def test_a_product_is_tuned_on_opencl_and_a_build_takes_what_won(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    db, func = str(tmp_path / "records.db"), product(64, 96, 64)
    with ExitStack() as stack:
        best = tune_func(func, POCL, 60.0, trials=3, db=db, runs=10**12, limits=SHORT)
        database = stack.enter_context(Database.open(db))
        records = list(database.records())
    assert best.trace and {record.outcome for record in records} <= {"ok", "paired", "refused"}
    measured = [record for record in records if record.outcome == "ok"]
    assert measured and all(candidate_of(func, Target(POCL), record.decision) for record in measured)
