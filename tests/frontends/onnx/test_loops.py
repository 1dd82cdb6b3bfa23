"""Loops in ONNX models: every level against ONNX Runtime, and against ONNX's own interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from onnx import helper
from onnx.reference import ReferenceEvaluator

import minitvm as tvm
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.executable import Loop, verify
from minitvm.frontends import from_onnx
from minitvm.graph import Graph, verify_graph
from minitvm.graph.nodes import LOOP
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from .loop_models import BOOL, F32, I64, MOST, Case, info, loop_models
from .test_data_sizes import by_onnx_runtime


def imported(case: Case) -> tuple[Graph, dict[str, Any]]:
    """The graph, with a bound of iterations where the model needs one."""
    try:
        return from_onnx(case.model), {}
    except UnsupportedOperator as error:
        assert "nothing bounds how many there are" in str(error)
        return from_onnx(case.model, max_length=MOST), {"max_length": MOST}


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray], where: str = "") -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype, where
        if not (
            a.shape[:1] == b.shape[:1] == (0,)
        ):  # ONNX Runtime does not know the shape of rows that there are none of
            assert a.shape == b.shape, where
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=where)


@given(case=loop_models())
@examples(8, 40)
def test_the_graph_is_what_onnx_runtime_computes(case: Case) -> None:
    graph, more = imported(case)
    verify_graph(graph)
    fused = tvm.lower(case.model, stop_at="fused", **more)
    verify_graph(fused)
    for inputs in case.runs:
        wanted = by_onnx_runtime(case.model, inputs)
        assert_same(interpreter.run(graph, inputs), wanted, "graph")
        assert_same(interpreter.run(fused, inputs), wanted, "fused")


@given(case=loop_models())
@settings(max_examples=4)
def test_the_module_is_what_onnx_runtime_computes(case: Case) -> None:
    graph, more = imported(case)
    assume(any(item.op == LOOP for item in graph.nodes))
    executable = tvm.lower(graph, stop_at="executable")
    verify(executable)
    modules = [tvm.build(case.model, threads=threads, **more) for threads in (1, 3)]
    for inputs in case.runs:
        wanted = by_onnx_runtime(case.model, inputs)
        assert_same(executables.run(executable, inputs), wanted, "executable")
        for module in modules:
            results = module(**inputs)
            assert_same(list(results) if isinstance(results, tuple) else [results], wanted, f"{module.threads} threads")


def powers(limit: str = "n", condition: str = "", rows: bool = True) -> onnx.ModelProto:
    """x doubled until an element is above 100; `limit` and `condition` are inputs, or left out."""
    nodes = [
        helper.make_node("Add", ["v", "v"], ["twice"]),
        helper.make_node("ReduceMax", ["twice"], ["top"], keepdims=0),
        helper.make_node("Less", ["top", "hundred"], ["again"]),
        helper.make_node("Identity", ["v"], ["row"]),
    ]
    outputs = [info("again", BOOL, None), info("twice", F32, None), *([info("row", F32, None)] if rows else [])]
    hundred = onnx.numpy_helper.from_array(np.array(100, np.float32), "hundred")
    inner = [info("i", I64, []), info("going", BOOL, []), info("v", F32, [2])]
    body = helper.make_graph(nodes, "body", inner, outputs, [hundred])
    node = helper.make_node("Loop", [limit, condition, "x"], ["end", "rows"] if rows else ["end"], body=body)
    inputs = [
        info("x", F32, [2]),
        *([info("n", I64, [])] if limit else []),
        *([info("c", BOOL, [])] if condition else []),
    ]
    graph = helper.make_graph([node], "powers", inputs, [info(o, F32, None) for o in node.output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.array([1, 3], np.float32)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_graph_is_what_onnx_itself_computes(count: int) -> None:
    model = powers(condition="c")
    inputs = {"x": X, "n": np.array(count), "c": np.array(True)}
    wanted = ReferenceEvaluator(model).run(None, inputs)
    assert_same(interpreter.run(from_onnx(model, max_length=9), inputs), wanted)
    assert_same(list(tvm.build(model, max_length=9, threads=1)(**inputs)), wanted)


def test_rows_need_a_bound_and_the_error_says_which() -> None:
    for model, why in ((powers(), "the number of steps is data"), (powers(limit=""), "a condition ends it")):
        with pytest.raises(UnsupportedOperator, match=rf"{why}, and nothing bounds how many there are\n.*max_length="):
            from_onnx(model)
    assert from_onnx(powers(limit="", rows=False)).nodes[-1].op == LOOP
    assert from_onnx(powers(rows=False), max_length=3).nodes[-1].op == LOOP  # it may be given for every model


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_beyond_its_bound_stops_the_run(threads: int) -> None:
    model = powers(limit="")
    module = tvm.build(model, max_length=4, threads=threads)
    small = {"x": np.array([8, 16], np.float32)}
    for _ in range(2):
        np.testing.assert_array_equal(module(**small)[1], [[8, 16], [16, 32], [32, 64]])
        for run in (
            lambda: module(x=X), lambda: interpreter.run(from_onnx(model, max_length=4), [X]),
            lambda: executables.run(module.executable, {"x": X}),
        ):  # fmt: skip
            with pytest.raises(InputError, match="more than 4"):
                run()


def test_a_loop_that_is_known_to_be_short_is_written_out_and_a_long_one_is_not() -> None:
    for count, is_loop in ((0, False), (16, False), (17, True), (3000, True)):
        graph = from_onnx(_counted(count))
        assert any(item.op == LOOP for item in graph.nodes) == is_loop
        np.testing.assert_array_equal(interpreter.run(graph, [X])[0], X + count)


def _counted(count: int) -> onnx.ModelProto:
    """x + 1, so many times."""
    nodes = [helper.make_node("Identity", ["going"], ["again"]), helper.make_node("Add", ["v", "one"], ["w"])]
    one = onnx.numpy_helper.from_array(np.array(1, np.float32), "one")
    inner = [info("i", I64, []), info("going", BOOL, []), info("v", F32, [2])]
    body = helper.make_graph(nodes, "body", inner, [info("again", BOOL, None), info("w", F32, None)], [one])
    node = helper.make_node("Loop", ["n", "", "x"], ["end"], body=body)
    limit = onnx.numpy_helper.from_array(np.array(count), "n")
    graph = helper.make_graph([node], "counted", [info("x", F32, [2])], [info("end", F32, None)], [limit])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_value_that_doubles_needs_a_bound_of_its_own() -> None:
    nodes = [helper.make_node("Identity", ["going"], ["again"]), helper.make_node("Concat", ["v", "v"], ["w"], axis=0)]
    inner = [info("i", I64, []), info("going", BOOL, []), info("v", F32, [2])]
    body = helper.make_graph(nodes, "body", inner, [info("again", BOOL, None), info("w", F32, None)])
    node = helper.make_node("Loop", ["n", "", "x"], ["end"], body=body)
    graph = helper.make_graph([node], "grows", [info("x", F32, [2]), info("n", I64, [])], [info("end", F32, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedOperator, match="no bound of entries . 2 after many iterations\n.*max_length="):
        from_onnx(model)
    written_out = from_onnx(model, values={"n": np.array(3)})
    assert written_out.outputs[0].shape == (16,)


def test_an_iteration_runs_in_the_executable() -> None:
    (loop,) = (s for s in tvm.lower(powers(), stop_at="executable", max_length=4).steps if isinstance(s, Loop))
    assert loop.steps >= 3 and loop.most == 4
