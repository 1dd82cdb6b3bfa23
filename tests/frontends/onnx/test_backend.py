"""The backend interface itself: compiling for shapes and contents, and its refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends.onnx.backend import OnnxBackend, PreparedModel, Runner
from minitvm.graph import Graph
from minitvm.reference import graph as interpreter

F32 = TensorProto.FLOAT


def _enlarged() -> onnx.ModelProto:
    """By factors given by a tensor."""
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    inputs = [
        helper.make_tensor_value_info("x", F32, ["n", "m"]),
        helper.make_tensor_value_info("scales", F32, [2]),
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_contents_that_decide_shapes_are_taken_from_the_call() -> None:
    compiled: list[Graph] = []

    def engine(graph: Graph) -> Runner:
        compiled.append(graph)
        return lambda inputs: interpreter.run(graph, inputs)

    prepared = PreparedModel(_enlarged(), engine)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for factors, kinds in (((1, 2), 1), ((3, 1), 2), ((1, 2), 2)):
        (y,) = prepared.run([x, np.array(factors, np.float32)])
        np.testing.assert_array_equal(y, x.repeat(factors[0], 0).repeat(factors[1], 1))
        assert len(compiled) == kinds
    (y,) = prepared.run([x[:1], np.array([1, 4], np.float32)])
    assert y.shape == (1, 12)


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
    assert OnnxBackend.is_compatible(_enlarged())


def test_devices_and_counts() -> None:
    assert OnnxBackend.supports_device("CPU") and OnnxBackend.supports_device("CPU:0")
    assert not OnnxBackend.supports_device("CUDA")
    with pytest.raises(InputError, match="CUDA"):
        OnnxBackend.prepare(_enlarged(), "CUDA")
    with pytest.raises(InputError, match="takes 2 inputs"):
        OnnxBackend.prepare(_enlarged()).run([np.zeros(6, np.float32)])
