"""Modules in pickles: what comes out computes the same bits, in other processes too, and shares nothing."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm.errors import Unsupported
from minitvm.executable import CallExternal, Executable, Input, Output, TensorSpec
from minitvm.expr import DType, SizeVar
from minitvm.graph import GraphBuilder
from minitvm.runtime import GraphModule
from minitvm.script import tir as T

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "oldest protocol": lambda module: pickle.loads(pickle.dumps(module, protocol=0)),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
}


@pytest.fixture(autouse=True)
def own_cache() -> None:
    """Not the one of this folder's other tests, which are about compiling: the cache that stays between runs."""


def product() -> Any:
    """Rows of an open number, times weights."""
    b = GraphBuilder("product")
    x = b.input("x", (SizeVar("n"), 16))
    weights = np.random.default_rng(0).standard_normal((16, 5)).astype(np.float32)
    return b.build(b.op("nn.relu", b.op("nn.matmul", x, b.constant(weights))))


def total() -> Any:
    """A state of two elements: each run adds to it, and returns it."""
    b = GraphBuilder("total")
    old, x = b.input("old", (2,)), b.input("x", (2,))
    new = b.op("add", old, x)
    return b.build(b.op("negative", new), states={old: new})


@T.prim_func
def doubled(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    for i in range(8):
        y[i] = x[i] * T.float32(2)


@pytest.mark.parametrize("way", WAYS)
def test_a_module_computes_the_same_bits(way: str) -> None:
    module = tvm.build(product(), threads=2)
    other = WAYS[way](module)
    assert type(other) is GraphModule and other is not module
    assert repr(other) == repr(module) and other.threads == module.threads
    for n in (3, 1, 7):
        x = np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)
        np.testing.assert_array_equal(other(x), module(x))
    assert all(spec.data.ctypes.data % 64 == 0 for spec in other.executable.constants)


@pytest.mark.parametrize("way", WAYS)
def test_a_function_comes_back(way: str) -> None:
    other = WAYS[way](tvm.build(doubled))
    y = np.empty(8, np.float32)
    other(np.arange(8, dtype=np.float32), y)
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize("way", WAYS)
def test_states_go_along_and_are_apart_from_then_on(way: str) -> None:
    module = tvm.build(total())
    module(np.array([1, 2], np.float32))
    other = WAYS[way](module)
    assert other.state["old"].tolist() == [1, 2]
    assert other(np.array([10, 10], np.float32)).tolist() == [-11, -12]
    assert module.state["old"].tolist() == [1, 2]
    values = WAYS[way](other.state)
    module.state.update(values)
    assert module.state["old"].tolist() == [11, 12]
    module.reset()
    assert values["old"].tolist() == [11, 12]


def called(task: tuple[Any, Any]) -> Any:
    module, x = task
    return module(x)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_pool_of_processes_takes_a_module(start: str) -> None:
    module = tvm.build(product(), threads=1)
    inputs = [np.full((n, 16), n, np.float32) for n in (1, 4, 2)]
    wanted = [module(x) for x in inputs]
    with multiprocessing.get_context(start).Pool(2) as pool:
        for one, other in zip(pool.map(called, [(module, x) for x in inputs]), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_cannot_be_exported_says_so() -> None:
    spec = TensorSpec("x", DType("float32"), (3,))
    call = CallExternal("nowhere", (Input(0), Output(0)), ("r", "w"), (spec, spec), {"scale": object()})
    program = Executable("outside", "cpu", (spec,), (replace(spec, name="y"),), (), (), (), (call,))
    with pytest.raises(Unsupported, match="cannot be saved as JSON"):
        pickle.dumps(GraphModule(program, threads=1))
