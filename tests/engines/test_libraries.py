"""ncnn, ONNX Runtime and OpenVINO: random partitions keep the meaning, and artifacts need no compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.engines import engine as registry
from minitvm.engines import find, from_json, register, to_json
from minitvm.executable import ArenaSlice, CallExternal, Copy, verify
from minitvm.expr import SizeVar, structural_equal
from minitvm.graph import Graph, GraphBuilder, OpNode
from minitvm.graph.passes.partition import no_region
from minitvm.reference import graph as interpreter
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from tests.fewer import examples

LIBRARIES = ("ncnn", "onnxruntime", "openvino")


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(name)
    return name


def network() -> Graph:
    """Two convolutions around an operator that is left to us."""
    generator = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", (1, 8, 6, 6))
    for number in range(2):
        w = b.constant(generator.standard_normal((8, 8, 3, 3)).astype(np.float32), f"w{number}")
        x = b.op("nn.relu", b.op("nn.conv2d", x, w, padding=1))
        x = b.op("trunc", x) if number == 0 else x
    return b.build(x)


X = np.random.default_rng(1).standard_normal((1, 8, 6, 6)).astype(np.float32)


def places_of(module: Any, step: CallExternal) -> list[int]:
    base = module._program.arena(0, 0).ctypes.data
    return [base + int(a.offset) for a in step.args if isinstance(a, ArenaSlice)]  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["onnxruntime", "openvino"])  # of ncnn, test_ncnn.py asks more
def test_the_library_works_in_our_arena(library: str) -> None:
    pytest.importorskip(library)
    graph = network()
    module = minitvm.build(graph, engines=library, threads=1)
    verify(module.executable)
    steps = module.executable.steps
    assert not any(isinstance(step, Copy) for step in steps)
    calls = [(number, step) for number, step in enumerate(steps) if isinstance(step, CallExternal)]
    assert len(calls) == 2
    result = module(X)
    np.testing.assert_allclose(result, interpreter.run(graph, [X])[0], rtol=1e-4, atol=1e-4)
    for (number, step), ours in zip(calls, ([X.ctypes.data], [result.ctypes.data]), strict=True):
        bound = module._program.engine_call(number).run.run
        assert set(bound.places) == {*ours, *places_of(module, step)}
        (place,) = result_places(library, bound)
        assert place in bound.places


def result_places(library: str, bound: Any) -> set[int]:
    """The addresses at which the library itself says that its results are."""
    if library == "openvino":
        return {tensor.data.ctypes.data for tensor in bound.request.output_tensors}
    return {value.data_ptr() for value in bound.binding._iobinding.get_outputs()}


def test_other_memory_is_bound_again(library: str) -> None:
    module = minitvm.build(network(), engines=library, threads=1)
    arrays = [X, X * 2, X.copy()]
    results = [module(array) for array in arrays]
    np.testing.assert_array_equal(results[0], results[2])
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_allclose(result, interpreter.run(network(), [array])[0], rtol=1e-4, atol=1e-4)


FRESH = """
import sys
import numpy as np
from minitvm import runtime
module = runtime.load(sys.argv[3])
np.testing.assert_array_equal(module(np.load(sys.argv[1])), np.load(sys.argv[2]))
print([name for name in ("sympy", "numba", "minitvm.topi", "minitvm.tir") if name in sys.modules])
"""


def test_an_artifact_runs_its_engine_without_the_compiler(library: str, tmp_path: Path) -> None:
    module = minitvm.build(network(), engines=library, threads=1)
    module.export(tmp_path / "net.mtvm")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", module(X))
    arguments = [str(tmp_path / name) for name in ("x.npy", "y.npy", "net.mtvm")]
    ran = subprocess.run([sys.executable, "-c", FRESH, *arguments], capture_output=True, text=True, env=os.environ)
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


@pytest.mark.parametrize("name", LIBRARIES)
@given(case=graphs(largest=8, symbolic=False, empty=False), data=st.data())
@examples(4, 500)
def test_random_partitions_keep_the_meaning(name: str, case: RandomGraph, data: st.DataObject) -> None:
    """The engine gets some of the operators that it supports. Values on which it may round are compared loosely."""
    pytest.importorskip(name)
    partitioned(name, case, data)


@given(case=graphs(largest=8, symbolic=True), data=st.data())
@examples(4, 300)
def test_random_partitions_with_symbolic_sizes_keep_the_meaning(case: RandomGraph, data: st.DataObject) -> None:
    """The inputs may be empty, too."""
    pytest.importorskip("onnxruntime")
    partitioned("onnxruntime", case, data)


def partitioned(name: str, case: RandomGraph, data: st.DataObject) -> None:
    """Give an engine some of the operators of a graph, and compare the results with the interpreter."""
    ops = sorted({item.op for item in case.graph.nodes})
    taken = data.draw(st.sets(st.sampled_from(ops)) if ops else st.just(set()))
    original = find(name)

    def supports(item: OpNode) -> str:
        return original.supports(item) if item.op in taken else "it was not drawn"

    register(replace(original, supports=supports))
    try:
        module = minitvm.build(case.graph, engines=name, threads=1)
        verify(module.executable)
        results = module(*case.inputs.values())
    finally:
        registry._REGISTERED.pop(name)
    own = results if isinstance(results, tuple) else (results,)
    for a, b, tolerance in zip(own, interpreter.run(case.graph, case.inputs), case.tolerances, strict=True):
        wide = np.float64 if a.dtype.kind not in "biu" else a.dtype
        # ncnn's Winograd convolutions round sums that are exact as written.
        rounded = 1e-4 * (1 + np.abs(b).max(initial=0)) if name == "ncnn" and a.dtype == np.float32 else 0
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=0, atol=tolerance + rounded)


def open_network() -> Graph:
    """Two layers for any number of rows, whose results are reshaped."""
    b, n = GraphBuilder("rows"), SizeVar("n")
    w = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    y = b.op("nn.relu", b.op("nn.matmul", b.input("x", (n, 16)), w))
    joined = b.op("concatenate", y, y, axis=1)
    return b.build(b.op("nn.softmax", b.op("reshape", joined, newshape=(n, 4, 4))))


def test_onnx_runtime_computes_rows_of_any_number(tmp_path: Path) -> None:
    """One session computes all sizes, also in an artifact. Our kernels compute calls with empty arrays."""
    pytest.importorskip("onnxruntime")
    module = minitvm.build(open_network(), engines="onnxruntime", threads=1)
    module.export(tmp_path / "rows.tvm")
    for own in (module, minitvm.runtime.load(tmp_path / "rows.tvm")):
        (number,) = (k for k, step in enumerate(own.executable.steps) if isinstance(step, CallExternal))
        x = np.random.default_rng(1).standard_normal((7, 16)).astype(np.float32)
        for rows in (3, 5, 3, 0, 1, 7):
            expected = interpreter.run(open_network(), [x[:rows]])[0]
            np.testing.assert_allclose(own(x[:rows]), expected, rtol=1e-5, atol=1e-6)
        assert own._program.engine_call(number).run.reason == ""


def test_a_size_may_depend_on_data() -> None:
    """The engine computes the rows that are left, but not their number."""
    pytest.importorskip("onnxruntime")
    b, n = GraphBuilder("left"), SizeVar("n")
    x, count = b.input("x", (6, 4)), b.op("bind_size", b.input("count", (), "int64"), size=n, most=6)
    rows = b.op("nn.relu", b.op("add", b.op("leading", x, size=n), 1.0))
    graph = b.build([b.op("nn.matmul", rows, np.ones((4, 3), np.float32)), count])
    module = minitvm.build(graph, engines="onnxruntime", threads=1)
    data = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    for left in (3, 6, 0, 2):
        results = module(data, np.array(left))
        np.testing.assert_allclose(results[0], interpreter.run(graph, [data, np.array(left)])[0], rtol=1e-5)
    assert any(isinstance(step, CallExternal) for step in module.executable.steps)


def test_a_region_with_symbolic_sizes_is_read_back() -> None:
    graph = open_network()
    again = from_json(to_json(graph), {c.value.name: c.data for c in graph.constants})
    assert structural_equal(again, graph)


def test_the_others_name_the_symbolic_size() -> None:
    graph = open_network()
    for name in ("ncnn", "openvino"):
        pytest.importorskip(name)
        assert all("its sizes are symbolic" in no_region(item, find(name).symbolic) for item in graph.nodes)
    b, n = GraphBuilder(), SizeVar("n")
    spread = b.build([b.op("broadcast_to", b.input("y", (1, 4)), shape=(n, 4)), b.op("nn.relu", b.input("x", (n,)))])
    assert no_region(spread.nodes[0], symbolic=True) == "none of its inputs has the size n"


def test_an_input_of_which_only_the_shape_counts(library: str) -> None:
    b = GraphBuilder()
    x, y = b.input("x", (2, 3)), b.input("y", (3,))
    graph = b.build(b.op("add", b.op("cast", b.op("shape_of", x), dtype="float32"), b.op("sum", y)))
    module = minitvm.build(graph, engines=library, threads=1)
    np.testing.assert_allclose(module(np.ones((2, 3), np.float32), np.array([1, 2, 4], np.float32)), [9, 10])


def test_openvino_gets_no_type_that_it_would_narrow() -> None:
    """Its max pool of int64 returned -1 for the largest number: it computes in int32."""
    b = GraphBuilder()
    graph = b.build(b.op("nn.max_pool2d", b.input("x", (1, 1, 2, 2), "int64"), pool_size=(1, 1)))
    pytest.importorskip("openvino")
    assert find("openvino").supports(graph.nodes[0]) == "OpenVINO computes int64 in another way"
    module = minitvm.build(graph, engines="openvino", threads=1)
    array = np.full((1, 1, 2, 2), 2**63 - 1)
    np.testing.assert_array_equal(module(array), array)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*forked after its first use.*:RuntimeWarning")
def test_a_forked_child_does_not_wait_for_threads_of_its_parent(library: str) -> None:
    """The child runs the same module, and one of its own."""
    b = GraphBuilder("forked")
    x = b.input("x", (1, 8, 57, 57))
    w = np.random.default_rng(0).standard_normal((9, 8, 3, 3)).astype(np.float32)
    graph = b.build(b.op("nn.relu", b.op("nn.conv2d", x, w, padding=1)))
    data = np.random.default_rng(1).standard_normal((1, 8, 57, 57)).astype(np.float32)
    module = minitvm.build(graph, engines=library, threads=2)
    expected = module(data)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(240)
            for own in (module, minitvm.build(graph, engines=library, threads=2)):
                np.testing.assert_allclose(own(data), expected, rtol=1e-4, atol=1e-4)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_openvino_gets_no_sums_that_it_would_saturate() -> None:
    pytest.importorskip("openvino")
    b = GraphBuilder()
    x = b.input("x", (4,), "int8")
    graph = b.build(b.op("add", x, x))
    module = minitvm.build(graph, engines="openvino", threads=1)
    assert module(np.array([100, -100, 1, 0], np.int8)).tolist() == [-56, 56, 2, 0]


def test_openvino_gets_no_operator_whose_result_has_another_shape() -> None:
    """Its logarithm of a sum over one of two axes removes both, so the call raised an error."""
    pytest.importorskip("openvino")
    b = GraphBuilder()
    graph = b.build(b.op("log_sum", b.input("x", (2, 1)), axis=0))
    assert find("openvino").supports(graph.nodes[0]) == "its log_sum would have the shape [], not float32[1]"
    x = np.array([[1], [2]], np.float32)
    module = minitvm.build(graph, engines="openvino", threads=1)
    np.testing.assert_allclose(module(x), interpreter.run(graph, [x])[0], rtol=1e-6)
