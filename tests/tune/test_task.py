"""Tasks: each distinct operator once, with the number of its uses, under a key that a build finds again."""

from __future__ import annotations

import importlib
from math import inf
from pathlib import Path

import numpy as np
import pytest

from minitvm import te
from minitvm.build import compile_executable
from minitvm.compat.tvm.ir import IRModule
from minitvm.graph import GraphBuilder
from minitvm.lowering import placement
from minitvm.target import Target
from minitvm.tools.profile import Level, Machine
from minitvm.tune.measure import kept
from minitvm.tune.prepare import checked
from minitvm.tune.task import Task, extract, function_task, measure_clock
from minitvm.workers import worker_pool

from .programs import network, product

CPU = Target("cpu -cores=2")


def test_equal_operators_are_one_task_with_the_number_of_their_uses() -> None:
    tasks = extract(network(), CPU)
    assert [(task.name, task.weight) for task in tasks] == [("matmul_relu", 2), ("matmul_relu_2", 1)]
    assert len({task.key for task in tasks}) == 2


def test_uses_are_named_and_constants_are_known() -> None:
    b = GraphBuilder("two")
    x, rng = b.input("x", (8, 32)), np.random.default_rng(0)
    weights = [rng.standard_normal((32, 32), dtype=np.float32) for _ in range(2)]
    for one in weights:
        x = b.op("nn.relu", b.op("nn.matmul", x, one))
    (one,) = extract(b.build(x), CPU)
    assert one.operators == ("dense_packed_relu", "dense_packed_relu_1") and one.weight == 2
    assert one.constants == {1} and kept(one) == [0, 2]
    first, _ = extract(network(), CPU)  # whose weights are inputs
    assert first.constants == frozenset() and kept(first) == [0, 1, 2]
    assert kept(function_task(product(), CPU)) == []


def test_the_keys_are_those_that_a_build_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    lower = placement.lower_placed

    def spy(functions, *rest):  # type: ignore[no-untyped-def]
        asked.extend(function.key.hex() for function in functions)
        return lower(functions, *rest)

    monkeypatch.setattr(importlib.import_module("minitvm.lowering"), "lower_placed", spy)
    compile_executable(network(), CPU)
    assert set(asked) == {task.key for task in extract(network(), CPU)}


def test_a_cycle_is_as_long_as_this_machine_was_seen_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    module, asked = importlib.import_module("minitvm.tune.task"), list[int]()
    seen = Machine("paper", 1, 3e9, (Level("memory", inf, 1e10),), 2e9)
    here, there = Target("cpu"), Target("cpu -cores=61")
    monkeypatch.setattr(module, "known", lambda threads: seen)
    monkeypatch.setattr(module, "machine", asked.append)
    for target, clock in ((here, 1.5), (there, 1.0)):
        one = function_task(product(), target)
        assert one.seconds_a_cycle == pytest.approx(target.description.cycle_seconds / clock)
        measure_clock(target)
    assert asked == [here.description.cores]
    monkeypatch.setattr(module, "known", lambda threads: None)
    assert function_task(product(), here).seconds_a_cycle == here.description.cycle_seconds


def test_a_function_has_one_key_whatever_it_is_called() -> None:
    first, other = function_task(product(name="a"), CPU), function_task(product(name="b"), CPU)
    assert first.key == other.key and first.target_key == other.target_key
    assert function_task(product(33), CPU).key != first.key
    assert function_task(product(), Target("cpu -cores=1")).target_key != first.target_key


def test_a_module_of_functions_has_equal_ones_once() -> None:
    module = IRModule({"a": product(name="a"), "b": product(name="b"), "c": product(8, name="c")})
    assert [(task.name, task.weight) for task in extract(module, CPU)] == [("a", 2), ("c", 1)]


def test_sizes_that_stay_open_are_named() -> None:
    tasks: list[Task] = extract(network(open_size=True), CPU)
    assert [task.open_sizes for task in tasks] == [["n"]] * len(tasks)
    assert te.size_var("n").name == "n" and extract(network(), CPU)[0].open_sizes == []


def test_what_was_built_is_not_lowered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MINITVM_VERIFY", "0")
    tasks = extract(network(), CPU)
    assert [task.built for task in tasks] == ["", ""]
    compile_executable(network(), CPU)
    built = [task.built for task in tasks]
    assert all(built) and all(text.startswith('{"name": "matmul_relu') for text in built)
    first, other = checked([(task, None) for task in tasks], workers=1)
    assert (first.lowered, other.lowered) == tuple(built) and first.figures["flops"] > 0
    for file in tmp_path.glob("*.fn"):
        file.unlink()
    fresh = checked([(task, None) for task in tasks], workers=1)
    worker_pool.shutdown()
    assert [task.built for task in tasks] == [one.lowered for one in fresh]
    assert [one.code for one in fresh] == [first.code, other.code]
