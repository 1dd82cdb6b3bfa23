"""A schedule that makes too much code is given up for a simpler one, and you are told which."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import strategy, te, topi
from minitvm.errors import TooMuchCode
from minitvm.strategy.candidate import choice_of
from minitvm.target import Target
from minitvm.tir.nodes import Seq
from minitvm.tir.transform import growth, lower, pipeline
from minitvm.tir.transform.unroll import bind

CPU = Target("cpu -vector_bits=128 -vector_registers=16 -cores=2")


def product() -> Any:
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def copies_without_end(func: Any) -> Any:
    """What a faulty pass does with the code of one rule."""
    while choice_of(func).rule == "contraction":
        func = func.with_body(Seq.of(bind(func.body, {}), bind(func.body, {})))
    return func


def copies_too_often(func: Any) -> Any:
    if choice_of(func).rule != "contraction":
        return func
    return func.with_body(Seq.of(*[bind(func.body, {})] * 1000))


@pytest.fixture(params=[copies_without_end, copies_too_often])
def faulty(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    step = pipeline.Pass("faulty", lambda func, target: request.param(func), "copies")
    position = [p.name for p in pipeline.PASSES].index("unroll")
    passes = (*pipeline.PASSES[:position], step, *pipeline.PASSES[position:])
    monkeypatch.setattr(pipeline, "PASSES", passes)
    monkeypatch.setattr(growth, "LEAST", 100)


@pytest.mark.usefixtures("faulty")
def test_the_pass_and_the_function_are_named() -> None:
    scheduled = strategy.scheduled(product(), CPU)
    with pytest.raises(
        TooMuchCode, match="^main: the schedule makes too much code in the pass faulty\n  wanted: at most"
    ):
        lower(scheduled, CPU, limited=True)


@pytest.mark.usefixtures("faulty")
def test_a_simpler_schedule_is_lowered_and_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        b = minitvm.graph.GraphBuilder("layer")
        x, w = b.input("x", (8, 8)), b.input("w", (8, 8))
        compiled = minitvm.build(b.build(b.op("nn.matmul", x, w)), target=CPU, threads=1)
    (text,) = [str(w.message) for w in said if "too much code" in str(w.message)]
    assert "in the pass faulty" in text and text.endswith("matmul has a simpler schedule")
    a = np.arange(64, dtype="float32").reshape(8, 8)
    np.testing.assert_array_equal(compiled(a, np.eye(8, dtype="float32")), a)


def test_the_simpler_schedules_end_with_the_loops_as_written() -> None:
    func = product()
    first = choice_of(strategy.scheduled(func, CPU)).taken
    assert first is not None and first.rule == "contraction"
    second = choice_of(strategy.simpler(func, CPU, [first]))
    assert second.rule == "generic" and second.refused[0].rule == "contraction"
    assert second.taken is not None
    assert choice_of(strategy.simpler(func, CPU, [first, second.taken])).rule == ""
