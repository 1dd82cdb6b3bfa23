"""Amounts and axes given by tensors, kernels of open extents, loops whose values grow: against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.graph import verify_graph
from minitvm.graph.nodes import LOOP
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter

from .data_amounts import FAMILIES, GROWING, MOST, Case, cases
from .test_data_sizes import by_onnx_runtime


def outcome(case: Case, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What ONNX Runtime makes of it; None where it refuses the sizes."""
    try:
        return by_onnx_runtime(case.model, inputs)
    except Exception:
        return None


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray], where: str) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, (where, a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=where)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=12)
def test_the_graph_is_what_onnx_runtime_computes(family: str, data: st.DataObject) -> None:
    case = data.draw(cases(family))
    graph = from_onnx(case.model, max_length=MOST)
    verify_graph(graph)
    for inputs in case.runs:
        wanted = outcome(case, inputs)
        if wanted is not None:
            assert_same(interpreter.run(graph, inputs), wanted, str({k: v.shape for k, v in inputs.items()}))


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=2)
def test_the_module_is_what_onnx_runtime_computes(family: str, data: st.DataObject) -> None:
    case = data.draw(cases(family))
    module = tvm.build(case.model, threads=2, max_length=MOST)
    for inputs in case.runs:
        wanted = outcome(case, inputs)
        if wanted is not None:
            results = module(**inputs)
            assert_same(list(results) if isinstance(results, tuple) else [results], wanted, "module")
            assert_same(executables.run(module.executable, inputs), wanted, "executable")


def _loop(step: str, trip: str = "k") -> onnx.ModelProto:
    text = f"""g (float[n, 2] x, int64 k) => (float[m, 2] y) {{ c = Constant<value=bool{{1}}>()
        long = Constant<value_int=300>()
        y = Loop({trip}, c, x)<body = b (int64 i, bool go, float[a, 2] s) => (bool g2, float[a2, 2] t) {{
        g2 = Identity(go) ax = Constant<value_ints=[0]>() bx = Constant<value_ints=[1]>() {step} }}> }}"""
    return Case(text, ()).model


def test_what_grows_without_a_bound_names_the_node_and_the_way_out() -> None:
    for kind in ("a row behind", "all of x", "some of x"):
        with pytest.raises(
            UnsupportedOperator, match=r"Loop \(node y\): memory for what the loop carries.*is data.*\n.*max_length="
        ):
            from_onnx(_loop(GROWING[kind]))
    for kind in ("some of its own", "without the first", "at most four"):  # bounded by what they begin with
        from_onnx(_loop(GROWING[kind]))
    with pytest.raises(UnsupportedOperator, match=r"Pad \(node y\): the pads depends on the contents of the input p\n"):
        from_onnx(Case("p (float[n] x, int64[2] p) => (float[m] y) { y = Pad(x, p) }", ()).model)
    text = "r (float[n, m] x, int64[k] a) => (float[q] y) { y = ReduceSum<keepdims=0>(x, a) }"
    with pytest.raises(UnsupportedOperator, match=r"ReduceSum \(node y\): the number k of axes .* decides the rank"):
        from_onnx(Case(text, ()).model)


def test_the_bound_of_what_grows_is_its_growth_times_the_iterations() -> None:
    """300 iterations of one row; a run that goes on beyond `max_length` stops."""
    graph = from_onnx(_loop(GROWING["a row behind"], trip="long"))
    (item,) = (item for item in graph.nodes if item.op == LOOP)
    (room,) = (v for v in item.inputs if v.ndim == 2 and v.shape[1] == 2)
    assert str(room.shape[0]) == "n + 300"
    module = tvm.build(_loop(GROWING["a row behind"]), max_length=4, threads=1)
    x = np.ones((3, 2), np.float32)
    assert module(x=x, k=np.array(4)).shape == (7, 2)
    for run in (module, lambda **inputs: executables.run(module.executable, inputs)):
        with pytest.raises(InputError, match=r"Loop \(node y\)(.|\n)*0 to 7"):
            run(x=x, k=np.array(6))
    assert module(x=x, k=np.array(2)).shape == (5, 2)
