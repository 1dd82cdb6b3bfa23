"""Each builtin operator in a model of its own: what minitvm computes, and what LiteRT's kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.frontends import from_tflite
from minitvm.frontends.tflite import registry
from minitvm.reference import graph as interpreter
from minitvm.tools.cli.litert import Peer

from .cases import CASES
from .writing import Case, Graph, Node, Tensor, constant, written

TOLERANCE = 1e-5  # of the largest element

# Tested by the networks, or below.
_ELSEWHERE = {"ASSIGN_VARIABLE", "CALL_ONCE", "DENSIFY", "IF", "READ_VARIABLE", "VAR_HANDLE", "WHILE"}


def _agree(arrays: Any, expected: list[np.ndarray]) -> None:
    results = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
    assert len(results) == len(expected)
    for array, other in zip(results, expected):
        assert array.shape == other.shape and array.dtype == other.dtype
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, other)
        else:
            assert np.abs(array - other).max(initial=0) <= TOLERANCE * np.abs(other).max(initial=0)


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case}" for k, case in enumerate(CASES)])
def test_interpreted(case: Case) -> None:
    """Two runs, so that states are left for the second one. Integers are equal, also those that are quantised."""
    model = case.model()
    graph, peer, states = from_tflite(model), Peer(model, optimised=case.optimised), {}
    for seed in (0, 1):
        arrays = case.arrays(seed)
        _agree(interpreter.run(graph, arrays, states=states), peer(*arrays))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case}" for k, case in enumerate(CASES)])
def test_compiled(case: Case) -> None:
    model = case.model()
    peer, module = Peer(model, optimised=case.optimised), minitvm.build(from_tflite(model))
    for seed in (0, 1):
        arrays = case.arrays(seed)
        _agree(module(*arrays), peer(*arrays))


def test_every_operator_has_a_case() -> None:
    tested = {case.op for case in CASES} | _ELSEWHERE
    assert {name for name in registry.converters() if not name.startswith("STABLEHLO_")} == tested
    assert len(registry.converters()) >= 120


def _branches(then: str, otherwise: str) -> bytes:
    """A model that applies one of two operators to x [2, 3], by a flag."""
    x, flag = Tensor((2, 3)), Tensor((), "bool")
    node = Node("IF", [0, 1], [2], "IfOptions", {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2})
    sides = [Graph([x, x], [Node(op, [0], [1])], [0], [1]) for op in (then, otherwise)]
    return written(Graph([flag, x, x], [node], [0, 1], [2]), *sides)


def test_a_branch() -> None:
    model = _branches("NEG", "EXP")
    graph, peer = from_tflite(model), Peer(model)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for taken in (True, False):
        flag = np.array(taken)
        _agree(interpreter.run(graph, [flag, x]), peer(flag, x))
    known = from_tflite(model, values={"t0": np.array(False)})
    assert [node.op for node in known.nodes] == ["exp"]


def _loop() -> bytes:
    """A model that doubles x [2] and counts, while the count is below a limit."""
    count, x, flag = Tensor((), "int32"), Tensor((2,)), Tensor((), "bool")
    node = Node("WHILE", [0, 1, 2], [3, 4, 5], "WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2})
    going = Graph([count, count, x, flag], [Node("LESS", [0, 1], [3], "LessOptions")], [0, 1, 2], [3])
    one, two = constant(np.array(1, "int32")), constant(np.array(2, "float32"))
    body = Graph(
        [count, count, x, one, two, count, x],
        [Node("ADD", [0, 3], [5], "AddOptions"), Node("MUL", [2, 4], [6], "MulOptions")], [0, 1, 2], [5, 1, 6],
    )  # fmt: skip
    return written(Graph([count, count, x, count, count, x], [node], [0, 1, 2], [3, 4, 5]), going, body)


def test_a_loop() -> None:
    model = _loop()
    graph, peer = from_tflite(model), Peer(model)
    for limit in (0, 1, 7):
        arrays = [np.array(0, np.int32), np.array(limit, np.int32), np.array([1.5, -2], "float32")]
        _agree(interpreter.run(graph, arrays), peer(*arrays))
