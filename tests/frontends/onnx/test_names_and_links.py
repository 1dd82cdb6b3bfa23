"""Models whose names or files are not what the standard, or the file system, leads one to expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.errors import ModelError
from minitvm.frontends import from_onnx

EYE = np.eye(3, dtype="float32")


def model(nodes: list[Any], weights: tuple[str, ...] = (), inputs: tuple[str, ...] = ("x",)) -> Any:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in (*inputs, "y")]
    tensors = [numpy_helper.from_array(EYE, name) for name in weights]
    graph = helper.make_graph(nodes, "g", values[:-1], values[-1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(operator: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def branch(output: str) -> Any:
    value = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph([node("Neg", "x", output)], output, [], [value])


@pytest.mark.parametrize(
    ("nodes", "weights", "inputs", "places"),
    [
        ([node("Relu", "x", "w"), node("MatMul", "x w", "y")], ("w",), ("x",), "initializers, and in operator Relu"),
        ([node("Relu", "x", "w"), node("Neg", "x", "w"), node("Neg", "w", "y")], (), ("x",), "Relu (node w), and"),
        ([node("Neg", "x", "x"), node("Relu", "x", "y")], (), ("x",), "the inputs, and in operator Neg"),
        ([node("MatMul", "x w", "y")], ("w", "w"), ("x",), "the initializers, and in the initializers"),
        ([node("Neg", "x", "y")], (), ("x", "x"), "the inputs, and in the inputs"),
        (
            [node("ReduceSum", "x", "s", keepdims=0), node("Cast", "s", "c", to=TensorProto.BOOL),
             node("If", "c", "y", then_branch=branch("t"), else_branch=branch("s"))],
            (), ("x",), "operator ReduceSum (node s), and in operator Neg",
        ),
    ],
)  # fmt: skip
def test_a_name_that_is_defined_twice_is_refused(nodes: Any, weights: Any, inputs: Any, places: str) -> None:
    with pytest.raises(ModelError) as error:
        from_onnx(model(nodes, weights, inputs))
    assert "the model defines the name " in str(error.value) and places in str(error.value)


def test_defaults_of_inputs_and_names_of_two_branches_are_no_second_definitions() -> None:
    from_onnx(model([node("MatMul", "x w", "y")], ("w",), ("x", "w")))
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Cast", "s", "c", to=TensorProto.BOOL),
        node("If", "c", "y", then_branch=branch("t"), else_branch=branch("t")),
    ]
    from_onnx(model(nodes))


def linked(folder: Path, weights_in: str) -> Path:
    """A model as Hugging Face's cache keeps it: links to the model and to its weights."""
    snapshot, blobs, other = folder / "snapshots" / "abc", folder / "blobs", folder / weights_in
    for each in (snapshot, blobs, other):
        each.mkdir(parents=True, exist_ok=True)
    whole = model([node("MatMul", "x w", "y")], ("w",))
    onnx.save_model(whole, blobs / "1", save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    (blobs / "model.onnx_data").rename(other / "2")
    (snapshot / "model.onnx").symlink_to("../../blobs/1")
    (snapshot / "model.onnx_data").symlink_to(f"../../{weights_in}/2")
    return snapshot / "model.onnx"


def test_weights_behind_a_link_to_the_folder_of_the_model_are_read(tmp_path: Path) -> None:
    path = linked(tmp_path, "blobs")
    x = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(minitvm.build(path, threads=1)(x), x)


def test_weights_behind_a_link_to_elsewhere_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="symbolic link.*\n  try:    cp -rL .*abc COPY, which copies what links name"):
        from_onnx(linked(tmp_path, "private"))


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_of_a_batch_of_0(operator: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [4, 0, 3]), ("y", None))
    ]
    weights = [
        numpy_helper.from_array(np.ones(s, "float32"), n)
        for n, s in (("w", (1, 2 * gates, 3)), ("r", (1, 2 * gates, 2)))
    ]
    graph = helper.make_graph([node(operator, "x w r", "y", hidden_size=2)], "g", values[:1], values[1:], weights)
    compiled = minitvm.build(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), threads=1
    )
    assert np.asarray(compiled(np.zeros((4, 0, 3), "float32"))).shape == (4, 1, 0, 2)


@pytest.mark.parametrize(("reduction", "expected"), [("add", 17.0), ("mul", 80.0), ("max", 10.0), ("none", 4.0)])
def test_scatters_of_empty_tuples_update_all_data(reduction: str, expected: float) -> None:
    shapes = {"x": (TensorProto.FLOAT, [1]), "i": (TensorProto.INT64, [3, 0]), "u": (TensorProto.FLOAT, [3, 1])}
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([node("ScatterND", "x i u", "y", reduction=reduction)], "g", inputs, [output])
    compiled = minitvm.build(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), threads=1
    )
    data = np.array([10], "float32"), np.zeros((3, 0), "int64"), np.array([[1], [2], [4]], "float32")
    assert np.asarray(compiled(*data)).tolist() == [expected]
