"""The backend interface itself: compiling for shapes and contents, and its refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minitvm.errors import InputError, UnsupportedOperator
from minitvm.graph import Graph
from minitvm.interop.onnx_backend import OnnxBackend, PreparedModel, Runner
from minitvm.reference import graph as interpreter

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def _reshape() -> onnx.ModelProto:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [
        helper.make_tensor_value_info("x", F32, ["n"]),
        helper.make_tensor_value_info("s", I64, [2]),
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_contents_that_decide_shapes_are_taken_from_the_call() -> None:
    compiled: list[Graph] = []

    def engine(graph: Graph) -> Runner:
        compiled.append(graph)
        return lambda inputs: interpreter.run(graph, inputs)

    prepared = PreparedModel(_reshape(), engine)
    x = np.arange(6, dtype=np.float32)
    for shape, kinds in (((2, 3), 1), ((3, 2), 2), ((2, 3), 2)):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))
        assert len(compiled) == kinds
    (y,) = prepared.run([x[:4], np.array((2, -1))])
    assert y.shape == (2, 2)


def test_run_node_compiles() -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"])
    (y,) = OnnxBackend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])])
    np.testing.assert_array_equal(y, [4, 6])


def test_inputs_named_like_arguments_are_fed() -> None:
    node = helper.make_node("Add", ["name", "value"], ["y"])
    (y,) = OnnxBackend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])])
    np.testing.assert_array_equal(y, [4, 6])


def test_what_cannot_be_imported_is_refused_when_prepared() -> None:
    graph = helper.make_graph(
        [helper.make_node("Bernoulli", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", F32, [3])],
        [onnx.ValueInfoProto(name="y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(UnsupportedOperator, match="Bernoulli"):
        OnnxBackend.prepare(model)
    assert not OnnxBackend.is_compatible(model)
    assert OnnxBackend.is_compatible(_reshape())


def test_devices_and_counts() -> None:
    assert OnnxBackend.supports_device("CPU") and OnnxBackend.supports_device("CPU:0")
    assert not OnnxBackend.supports_device("CUDA")
    with pytest.raises(InputError, match="CUDA"):
        OnnxBackend.prepare(_reshape(), "CUDA")
    with pytest.raises(InputError, match="takes 2 inputs"):
        OnnxBackend.prepare(_reshape()).run([np.zeros(6, np.float32)])
