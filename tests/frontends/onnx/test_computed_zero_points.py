"""Convolutions of bytes whose zero point is computed, with weights of any zero point: what ONNX Runtime gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.frontends import from_onnx
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(("groups", "zero"), [(1, 128), (1, 90), (8, 128), (8, 90)])
def test_convolutions_of_dynamically_quantised_data(groups: int, zero: int) -> None:
    """What `onnxruntime.quantization.quantize_dynamic` writes; padding is the zero point."""
    rng = np.random.default_rng(groups + zero)
    w = rng.integers(0, 256, (8, 8 // groups, 3, 3)).astype("uint8")
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(zero, "uint8"), "zw")]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "zw"], ["y"], pads=[1, 0, 2, 1], strides=[1, 2], group=groups),
    ]
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 6, 7))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = rng.uniform(-1, 3, (1, 8, 6, 7)).astype("float32")
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    imported = from_onnx(model)
    np.testing.assert_array_equal(interpreter.run(imported, [x])[0], expected)
    fused = optimize(imported, "cpu")
    np.testing.assert_array_equal(interpreter.run(fused, [x])[0], expected)
    if (groups, zero) == (1, 90):  # compiling takes seconds
        np.testing.assert_array_equal(np.asarray(minitvm.build(imported, threads=1)(x)), expected)
    found = {n.op for item in fused.nodes for n in item.graph.nodes}
    assert found & {"qnn.contrib_conv2d_NCHWc", "qnn.contrib_depthwise_conv2d_NCHWc"}
