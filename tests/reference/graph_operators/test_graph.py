"""The interpreter of graphs: every operator against its te computation and its fold, and the refusals."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.events import Listener, Step
from minitvm.expr import SizeVar
from minitvm.graph import Constant, Graph, GraphBuilder, OpNode, Value
from minitvm.reference import graph as interpreter
from minitvm.reference.operators import OPERATORS
from minitvm.topi import registry

from .calls import CALLS, Call
from .runs import by_folding, by_graph, by_te

# The interpreter runs the loops or the body inside; tests/graph/test_call_tir.py and random graphs have examples.
BY_ITSELF = {"call_packed", "call_tir", "loop"}


def test_every_operator_has_a_reference_implementation() -> None:
    assert sorted(set(registry.names()) - set(OPERATORS) - BY_ITSELF) == []


def test_every_operator_has_an_example() -> None:
    assert sorted(set(registry.names()) - {call.op for call in CALLS} - BY_ITSELF) == []


def _assert_same(call: Call, found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        if call.exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_operator_equals_its_te_computation(call: Call) -> None:
    _assert_same(call, by_graph(call), by_te(call))


FOLDED = [call for call in CALLS if registry.get(call.op).fold or registry.get(call.op).fold_types]


@pytest.mark.parametrize("call", FOLDED, ids=str)
def test_operator_equals_its_fold(call: Call) -> None:
    _assert_same(call, by_folding(call), by_graph(call))


@pytest.mark.parametrize("call", [call for call in CALLS if registry.get(call.op).view], ids=str)
def test_a_view_is_its_input_in_another_shape(call: Call) -> None:
    (found,) = by_graph(call)
    assert found.tobytes() == np.ascontiguousarray(call.inputs[0]).tobytes()
    if call.op != "layout.words":
        assert found.dtype == call.inputs[0].dtype


def _relu_graph() -> Graph:
    builder = GraphBuilder()
    n = SizeVar("n")
    x = builder.input("x", (n, 3))
    return builder.build(builder.op("nn.relu", builder.op("add", x, np.ones(3, np.float32))))


def test_inputs_by_name_and_by_order_and_symbolic_dimensions() -> None:
    graph = _relu_graph()
    for rows in (1, 4):
        x = np.linspace(-3, 3, rows * 3, dtype=np.float32).reshape(rows, 3)
        wanted = np.maximum(x + 1, 0)
        np.testing.assert_array_equal(interpreter.run(graph, {"x": x})[0], wanted)
        np.testing.assert_array_equal(interpreter.run(graph, [x])[0], wanted)


def test_symbolic_attributes_take_their_values_from_the_inputs() -> None:
    builder = GraphBuilder()
    n = SizeVar("n")
    x = builder.input("x", (n, 4))
    graph = builder.build(builder.op("reshape", x, newshape=(n * 2, 2)))
    x_value = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(interpreter.run(graph, [x_value])[0], x_value.reshape(6, 2))


def test_an_open_size_that_is_zero_copies_no_dimension() -> None:
    n = SizeVar("n")
    b = GraphBuilder("g")
    x = b.input("x", (3, n, 4))
    graph = b.build([b.op("reshape", x, newshape=(n * 3, 4)), b.op("reshape", x, newshape=(0, n * 4))])
    for size in (0, 2):
        flat, rows = interpreter.run(graph, [np.zeros((3, size, 4), np.float32)])
        assert flat.shape == (3 * size, 4) and rows.shape == (3, 4 * size)


def test_all_values_are_kept_on_request() -> None:
    graph = _relu_graph()
    x = np.zeros((2, 3), np.float32)
    values = interpreter.evaluate(graph, [x])
    assert set(values) == set(graph.values())
    np.testing.assert_array_equal(values[graph.nodes[0].output], np.ones((2, 3), np.float32))


def test_a_fused_group_runs_its_inner_graph() -> None:
    outer = Value("x", (2,))
    inner_x = Value("a", (2,))
    doubled, result = Value("b", (2,)), Value("c", (2,))
    one = Value("one", (1,))
    inner = Graph(
        (inner_x,),
        (Constant(one, np.ones(1, np.float32)),),
        (OpNode("add", (inner_x, inner_x), {}, (doubled,)), OpNode("add", (doubled, one), {}, (result,))),
        (result,),
    )
    y = Value("y", (2,))
    graph = Graph((outer,), (), (OpNode("fused", (outer,), {"graph": inner}, (y,)),), (y,))
    np.testing.assert_array_equal(interpreter.run(graph, [np.array([1, 2], np.float32)])[0], [3, 5])


def test_an_unknown_operator_is_refused() -> None:
    x, y = Value("x", (2,)), Value("y", (2,))
    graph = Graph((x,), (), (OpNode("no.such", (x,), {}, (y,)),), (y,))
    with pytest.raises(Unsupported, match="no.such"):
        interpreter.run(graph, [np.zeros(2, np.float32)])


def test_a_result_unlike_the_declaration_is_an_error() -> None:
    x, y = Value("x", (2,)), Value("y", (3,))
    graph = Graph((x,), (), (OpNode("copy", (x,), {}, (y,)),), (y,))
    with pytest.raises(ExecutionError, match=r"wanted: float32\[3\]"):
        interpreter.run(graph, [np.zeros(2, np.float32)])


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "x is missing"),
        ({"x": np.zeros((2, 3), np.float32), "y": 1}, "no input y"),
        ({"x": np.zeros((2, 3))}, "float64"),
        ({"x": np.zeros((2, 4), np.float32)}, r"\(2, 4\)"),
        ([], "takes 1 inputs"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        interpreter.run(_relu_graph(), inputs)  # type: ignore[arg-type]


def test_listeners_hear_every_operator() -> None:
    heard: list[str] = []

    class Names(Listener):
        def step_begin(self, step: Step, time: float) -> None:
            heard.append(step.name)

    interpreter.run(_relu_graph(), [np.zeros((1, 3), np.float32)], listeners=[Names()])
    assert heard == ["add", "nn.relu"]
