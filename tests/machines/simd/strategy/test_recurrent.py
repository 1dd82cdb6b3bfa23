"""Loops over time: their schedule keeps their meaning, and one build serves every length and every batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import minitvm
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder
from minitvm.graph.lower import to_prim_func
from minitvm.reference import graph as interpreter
from minitvm.reference import kernel
from minitvm.strategy import registry
from minitvm.target import Target
from minitvm.tir.transform.pipeline import lower
from tests.drawing import Seeded
from tests.reference.graph_operators.calls import Call
from tests.reference.graph_operators.random_calls import recurrent
from tests.reference.graph_operators.runs import graph_of


def _close(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def _by_kernels(call: Call, target: Target) -> list[np.ndarray]:
    graph = graph_of(call)
    chosen = registry.chosen(to_prim_func(graph.nodes[0]), target)
    assert chosen.rule == "recurrent" and not chosen.choice.refused
    results = [np.full([int(d) for d in v.shape], np.nan, np.float32) for v in graph.outputs]  # type: ignore[arg-type]
    kernel.run(lower(chosen.schedule.func, target), *call.inputs, *results, threads=2)
    return results


@pytest.mark.parametrize(("mcpu", "hidden", "batch"), [("skylake-avx512", 21, 1), ("haswell", 9, 3)])
def test_kernels_of_drawn_layers(mcpu: str, hidden: int, batch: int) -> None:
    """Vectors that divide the gates and that stick out, of one row and of a group of rows."""
    target = Target({"kind": "cpu", "mcpu": mcpu})
    call = recurrent(Seeded(1, hidden, batch), hidden=(hidden,), batch=(batch,), steps=(3,))
    _close(_by_kernels(call, target), interpreter.run(graph_of(call), call.inputs))


@pytest.mark.full
@pytest.mark.parametrize("mcpu", ["skylake-avx512", "haswell"])
def test_kernels_of_many_layers(mcpu: str) -> None:
    target = Target({"kind": "cpu", "mcpu": mcpu})
    for seed in range(8):
        call = recurrent(Seeded(seed, *mcpu.encode()), hidden=(3, 16, 21, 40), batch=(1, 2, 4, 5, 7), steps=(0, 1, 3))
        _close(_by_kernels(call, target), interpreter.run(graph_of(call), call.inputs))


def _compare(batch: int | SizeVar, runs: Sequence[tuple[int, int]]) -> None:
    """One build of a layer of both directions, run at several lengths and batches."""
    rng = np.random.default_rng(0)
    hidden, b = 20, GraphBuilder()
    x = b.input("x", (SizeVar("steps"), batch, 2, hidden))
    r = b.constant((rng.standard_normal((2, hidden, hidden)) / 5).astype(np.float32))
    h, lengths = b.input("h", (2, batch, hidden)), b.input("lengths", (batch,), "int32")
    graph = b.build(b.op("nn.rnn", x, r, h, lengths, direction="bidirectional", lengths=True))
    module = minitvm.build(graph)
    for steps, rows in runs:
        shapes = {"x": (steps, rows, 2, hidden), "h": (2, rows, hidden)}
        arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        arrays["lengths"] = rng.integers(0, steps + 2, rows).astype(np.int32)
        _close(module(**arrays), interpreter.run(graph, arrays))


def test_one_build_for_every_length() -> None:
    _compare(2, [(steps, 2) for steps in (1, 2, 7, 100, 0)])


@pytest.mark.full
def test_one_build_for_every_length_and_batch() -> None:
    _compare(SizeVar("batch"), [(1, 1), (2, 7), (7, 2), (100, 1), (3, 64), (0, 3), (3, 0)])
