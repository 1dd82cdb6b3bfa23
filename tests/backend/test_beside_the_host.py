"""Operators that a target refuses run on its host, in one program with those that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.backend import Backend, register
from minitvm.backend import registry as table
from minitvm.errors import TargetError
from minitvm.events import Listener, Step
from minitvm.executable import CallKernel, Executable, Kernel
from minitvm.executable.serialize import blob, from_json, to_json
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import host_of, place
from minitvm.reference import executable as executable_interpreter
from minitvm.reference import graph as interpreter
from minitvm.runtime import load
from minitvm.target import KINDS, Kind, Target
from minitvm.tir.nodes import PrimFunc
from tests.toy_backend import program, schedule, source

KERNELS_RUN: list[str] = []


@dataclass(frozen=True)
class Coprocessor:
    """Takes products of matrices alone."""

    name: str = "coprocessor"


def hosted(kernel: Kernel, threads: int | None) -> Callable[[Sequence[Any], bool], None]:
    function = program._function(kernel)

    def run(arguments: Sequence[Any], parallel: bool) -> None:
        KERNELS_RUN.append(kernel.name)
        function(*arguments)

    return run


def refusal(func: PrimFunc, target: Target) -> str:
    return "" if "dense" in func.name else "no product of matrices"


@pytest.fixture(autouse=True)
def coprocessor() -> Iterator[None]:
    """A back end beside the host's; what a test registers is gone afterwards."""
    table.registered()
    kinds, backends = dict(KINDS), dict(table._BACKENDS)
    machine = Kind(("coprocessor",), Coprocessor, Coprocessor, "coprocessor")
    register(Backend(
        "coprocessor", machine=machine, rules=schedule.rules, passes=schedule.PASSES, language="numpy for two",
        generate=source.generate, program=program.Program, hosted=hosted, refusal=refusal,
    ))  # fmt: skip
    KERNELS_RUN.clear()
    yield
    for rows, before in ((KINDS, kinds), (table._BACKENDS, backends)):
        rows.clear()
        rows.update(before)  # type: ignore[arg-type]


def network(rows: Any = 3) -> Graph:
    b = GraphBuilder("two")
    rng = np.random.default_rng(0)
    x = b.input("x", (rows, 8))
    y = b.op("nn.softmax", b.op("nn.dense", x, rng.standard_normal((5, 8)).astype("float32")), axis=1)
    return b.build([b.op("nn.dense", y, rng.standard_normal((4, 5)).astype("float32")), y])


def data(rows: int = 3) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((rows, 8)).astype("float32")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_runs_on_two_machines(threads: int) -> None:
    module = minitvm.build(network(), target="coprocessor", threads=threads)
    languages = {kernel.language for kernel in module.executable.kernels}
    assert languages == {"numpy for two", "numba"} and module.executable.target.startswith("cpu")
    for _ in range(2):
        for actual, expected in zip(module(data()), interpreter.run(network(), [data()]), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert len(KERNELS_RUN) >= 4 and all("dense" in name for name in KERNELS_RUN)


def test_open_sizes_reach_both() -> None:
    module = minitvm.build(network(SizeVar("n")), target="coprocessor")
    for rows in (1, 7, 3):
        expected = interpreter.run(network(rows), [data(rows)])
        for actual, result in zip(module(data(rows)), expected, strict=True):
            np.testing.assert_allclose(actual, result, rtol=1e-5)


def test_each_operator_is_shown_for_its_machine() -> None:
    sources = minitvm.lower(network(), "coprocessor", stop_at="source")
    toys = {name: "import numpy as np" in text for name, text in sources.items()}
    assert toys == {name: "dense" in name for name in sources}


class _Steps(Listener):
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def step_begin(self, step: Step, time: float) -> None:
        self.kinds.append(step.name)


def test_listeners_and_stamps_see_all_steps() -> None:
    module = minitvm.build(network(), target="coprocessor", threads=1)
    calls = [step for step in module.executable.steps if isinstance(step, CallKernel)]
    steps = _Steps()
    module.listeners = [steps]
    module(data())
    assert len([name for name in steps.kinds if name != "barrier"]) == len(calls)
    module.listeners = []
    times = module.stamped(data()).times
    assert (np.diff(times[0]) >= 0).all() and times[0].all()


def test_the_executable_is_interpreted_and_read_back() -> None:
    made: Executable = minitvm.lower(network(), "coprocessor", stop_at="executable")
    expected = interpreter.run(network(), [data()])
    for actual, result in zip(executable_interpreter.run(made, {"x": data()}), expected, strict=True):
        np.testing.assert_allclose(actual, result, rtol=1e-5)
    again = from_json(to_json(made), b"".join(blob(made)[1]))
    assert [kernel.language for kernel in again.kernels] == [kernel.language for kernel in made.kernels]


def test_an_artifact_runs_on_both(tmp_path: Any) -> None:
    module = minitvm.build(network(), target="coprocessor")
    module.export(tmp_path / "two.mtvm")
    again = load(tmp_path / "two.mtvm")
    KERNELS_RUN.clear()
    for actual, expected in zip(again(data()), module(data()), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert KERNELS_RUN


def test_the_host_is_the_targets() -> None:
    assert host_of(Target("cpu -cores=3")).kind == "cpu"
    target = Target("coprocessor", host="cpu -vector_bits=128")
    assert host_of(target).description.vector_bits == 128
    func = next(iter(minitvm.lower(network(), stop_at="tir").values()))
    assert place(func, target).target == target and place(func, target).refusal == ""
    soft = [f for name, f in minitvm.lower(network(), stop_at="tir").items() if "softmax" in name]
    assert [place(f, target).refusal for f in soft] == ["no product of matrices"]
    assert place(soft[0], target).target == host_of(target)


def test_a_kernel_of_a_machine_without_the_hosts_memory_is_refused() -> None:
    made: Executable = minitvm.lower(network(), "coprocessor", stop_at="executable")
    table._BACKENDS["coprocessor"] = Backend(
        "coprocessor", language="numpy for two", generate=source.generate, program=program.Program
    )
    with pytest.raises(TargetError, match="is written in numpy for two; this runtime runs numba"):
        minitvm.runtime.GraphModule(made)
