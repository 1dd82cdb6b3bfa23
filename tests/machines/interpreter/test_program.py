"""`build(..., target="interpreter")`: what it returns behaves like every other module, and it judges as it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import minitvm as tvm
from minitvm import te
from minitvm.errors import ExecutionError, InputError, TargetError, Unsupported
from minitvm.events import Listener, Step
from minitvm.executable import CallExternal
from minitvm.expr import SizeVar
from minitvm.graph import Graph
from minitvm.reference import graph as oracle
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from minitvm.runtime import Function, GraphModule, load
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from tests.executable.loop_graphs import CASES, listed, same
from tests.executable.test_bind_size import X, expected, first_rows
from tests.runtime.test_states import log, row

TARGET = "interpreter"


def scaled_sum() -> PrimFunc:
    """C = A * 2 + B, of any length, by tensor expressions."""
    n = SizeVar("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return te.create_prim_func([a, b, te.compute((n,), lambda i: a[i] * 2.0 + b[i], name="C")])


def test_a_function_of_tensor_expressions_runs() -> None:
    function = tvm.build(scaled_sum(), target=TARGET)
    assert isinstance(function, Function)
    for length in (3, 5, 3, 0):
        a, b = np.arange(length, dtype=np.float32), np.ones(length, np.float32)
        c = np.empty_like(a)
        function(a, b, c)
        np.testing.assert_array_equal(c, a * 2 + 1)
    with pytest.raises(InputError, match="the shape of B does not fit: dimension 0 is 4, wanted 3"):
        function(np.zeros(3, np.float32), np.zeros(4, np.float32), np.zeros(3, np.float32))


@T.prim_func
def add_scaled(A: T.Buffer((4,), "float32"), alpha: T.float32, C: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = C[v] + A[v] * alpha


def test_a_function_takes_scalars_and_updates_its_argument_in_place() -> None:
    function = tvm.build(add_scaled, target=TARGET)
    a, c = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    for times in (1, 2):
        function(a, 0.5, c)
        np.testing.assert_array_equal(c, 1 + times * a * 0.5)


@T.prim_func
def race(C: T.Buffer((1,), "float32")) -> None:
    for i in T.parallel(4):
        C[0] = T.cast(i, "float32")


@T.prim_func
def half_written(C: T.Buffer((4,), "float32")) -> None:
    B = T.alloc_buffer((4,))
    for i in range(2):
        with T.sblock("B"):
            v = T.axis.spatial(2, i)
            B[v] = 1.0
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]


def test_it_judges_as_it_runs_and_leaves_the_result_alone() -> None:
    result = np.full(1, 7, np.float32)
    with pytest.raises(ExecutionError, match="race"):
        tvm.build(race, target=TARGET)(result)
    assert result == 7
    with pytest.raises(ExecutionError, match="uninitialised"):
        tvm.build(half_written, target=TARGET)(np.empty(4, np.float32))


@given(graphs())
@settings(deadline=None)
def test_a_random_network_is_right(case: RandomGraph) -> None:
    results = listed(tvm.build(case.graph, target=TARGET)(**case.inputs))
    for result, wanted, tolerance in zip(results, oracle.run(case.graph, case.inputs), case.tolerances, strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["swapped", "nested", "rows"])
def test_loops_of_a_network_run(name: str) -> None:
    make, runs = CASES[name]
    module = tvm.build(make(), target=TARGET)
    for inputs in runs:
        same(listed(module(**inputs)), oracle.run(make(), inputs))


def test_outputs_have_the_shape_that_data_decide() -> None:
    module = tvm.build(first_rows(), target=TARGET)
    for count in (2, 0, 4):
        for a, b in zip(module(X, np.array(count)), expected(count), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(InputError):
        module(X, np.array(5))


def test_a_state_outlives_the_run_but_not_one_that_fails() -> None:
    module = tvm.build(log(), target=TARGET)
    assert module(**row(3, 1)).tolist() == [[3, 3]]
    assert module(**row(4, 2)).tolist() == [[7, 7]]
    with pytest.raises(InputError, match="wanted: at from 1 to 4"):
        module(**row(7, 5))
    assert module.state["rows"][0, :, 0].tolist() == [3, 4, 0, 0]
    module.reset()
    assert module(**row(5, 4)).tolist() == [[5, 5]]


def softmax() -> Graph:
    b = tvm.graph.GraphBuilder("small")
    x = b.input("x", (4, 9))
    return b.build(b.op("nn.softmax", b.op("add", x, b.op("nn.relu", x)), axis=1))


class _Steps(Listener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def step_begin(self, step: Step, time: float) -> None:
        self.names.append(step.name)


def test_a_saved_module_runs_from_its_text(tmp_path: Path) -> None:
    module = tvm.build(softmax(), target=TARGET)
    assert isinstance(module, GraphModule)
    assert {(k.language, k.source) for k in module.executable.kernels} == {
        ("tvmscript", k.script) for k in module.executable.kernels
    }
    module.export(tmp_path / "small.mtvm")
    x = np.linspace(-1, 3, 36, dtype="float32").reshape(4, 9)
    saved = load(tmp_path / "small.mtvm")
    assert all(kernel.func is None for kernel in saved.executable.kernels)
    steps = _Steps()
    saved.listeners = [steps]
    np.testing.assert_array_equal(saved(x), module(x))
    assert len(steps.names) == len(module.executable.steps)


def test_kernels_of_other_machines_and_engines_are_refused() -> None:
    executable = tvm.lower(softmax(), TARGET, stop_at="executable")
    foreign = replace(executable, kernels=tuple(replace(k, language="numba") for k in executable.kernels))
    with pytest.raises(TargetError, match="is written in numba; the interpreter runs tvmscript"):
        GraphModule(foreign)
    engine = CallExternal("toy.engine", (), (), ())
    with pytest.raises(Unsupported, match=r"calls no external engine, found toy\.engine"):
        GraphModule(replace(executable, steps=(*executable.steps, engine)))
    with pytest.raises(Unsupported, match="cannot be profiled"):
        tvm.build(softmax(), target=TARGET).stamped(np.zeros((4, 9), np.float32))
