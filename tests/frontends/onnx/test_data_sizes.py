"""Sizes that data decide, in ONNX models: every level against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import minitvm as tvm
from minitvm.frontends import from_onnx
from minitvm.graph import verify_graph
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from .data_sizes import data_sizes

Case = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def by_onnx_runtime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape, (a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@given(case=data_sizes())
@examples(65, 200)
def test_the_graph_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case
    graph = from_onnx(model)
    verify_graph(graph)
    assert_same(interpreter.run(graph, inputs), by_onnx_runtime(model, inputs))


@given(case=data_sizes())
@examples(4, 10)
def test_the_module_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case
    wanted = by_onnx_runtime(model, inputs)
    assert_same(executables.run(tvm.lower(model, stop_at="executable"), inputs), wanted)
    module = tvm.build(model, threads=2)
    for _ in range(2):
        results = module(**inputs)
        assert_same(list(results) if isinstance(results, tuple) else [results], wanted)


ends = st.lists(st.sampled_from([-9, -4, -1, 0, 1, 2, 3, 5, 2**40, -(2**40)]), min_size=2, max_size=2)


@given(
    starts=ends,
    lasts=ends,
    known=st.sampled_from(["", "starts", "ends"]),
    openly=st.booleans(),
    dtype=st.sampled_from(["int64", "int32"]),
)
@examples(7, 20)
def test_a_slice_at_ends_that_are_data(
    starts: list[int], lasts: list[int], known: str, openly: bool, dtype: str
) -> None:
    small = [np.clip(np.array(e), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype) for e in (starts, lasts)]
    arrays = {"starts": small[0], "ends": small[1], "axes": np.array([1, -2], dtype)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"] if openly else [4, 3])]
    infos += [helper.make_tensor_value_info(name, kind, [2]) for name in ("starts", "ends") if name != known]
    node = helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    constants = [onnx.numpy_helper.from_array(arrays[name], name) for name in (known, "axes") if name]
    graph = helper.make_graph([node], "slice", infos, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}
    inputs |= {name: arrays[name] for name in ("starts", "ends") if name != known}
    wanted = by_onnx_runtime(model, inputs)
    assert_same(interpreter.run(from_onnx(model), inputs), wanted)
    assert_same([tvm.build(model, threads=1)(**inputs)], wanted)
