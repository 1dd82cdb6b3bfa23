"""MatMulNBits beside ONNX Runtime, at every level of accuracy, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")


def model(rows: int | str, depth: int, columns: int, bits: int, block: int, level: int, zeros: bool, bias: bool) -> Any:
    rng = np.random.default_rng([depth, columns, bits])
    blocks = -(-depth // block)
    constants = {
        "B": rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype("uint8"),
        "scales": rng.uniform(0.01, 0.1, (columns, blocks)).astype("float32"),
    }
    if zeros:
        constants["zeros"] = rng.integers(0, 256, (columns, -(-blocks * bits // 8))).astype("uint8")
    if bias:
        constants["bias"] = rng.standard_normal(columns).astype("float32")
    names = ["x", "B", "scales", "zeros" if zeros else "", "", "bias" if bias else ""]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block,
        accuracy_level=level,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "blocks", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, depth))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "bits", "block", "zeros", "bias"),
    [
        (1, 64, 32, 4, 32, False, False), (1, 128, 40, 4, 16, True, True), (5, 96, 48, 4, 32, True, False),
        (3, 128, 16, 8, 32, False, True), (2, 128, 20, 8, 64, True, False), (2, 80, 24, 4, 32, False, False),
    ],
)  # fmt: skip
def test_beside_onnx_runtime(
    level: int, rows: int, depth: int, columns: int, bits: int, block: int, zeros: bool, bias: bool
) -> None:
    proto = model(rows, depth, columns, bits, block, level, zeros, bias)
    x = np.random.default_rng(1).standard_normal((rows, depth)).astype("float32")
    (expected,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    graph = from_onnx(proto)
    compiled = minitvm.build(graph, threads=1)(x)
    # Both round data to 127 steps: sums of products differ by what a step is, not by more.
    off = 0.02 if level == 4 else 1e-4
    for found in (interpreter.run(graph, [x])[0], np.asarray(compiled)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=off * np.abs(expected).max())
    np.testing.assert_allclose(compiled, interpreter.run(graph, [x])[0], rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_products_of_bytes_are_used_where_the_model_allows() -> None:
    graph = from_onnx(model(1, 64, 32, 4, 32, 4, False, False))
    assert "qnn.contrib_dense_of_blocks" in {item.op for item in graph.nodes}
    exact = from_onnx(model(1, 64, 32, 4, 32, 1, False, False))
    assert "qnn.contrib_dense_of_blocks" not in {item.op for item in exact.nodes}


def test_rows_may_be_open() -> None:
    proto = model("rows", 64, 40, 4, 32, 4, True, True)
    module = minitvm.build(from_onnx(proto), threads=1)
    session = ort.InferenceSession(proto.SerializeToString())
    for rows in (1, 2, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 64)).astype("float32")
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_allclose(module(x), expected, rtol=0, atol=0.02 * np.abs(expected).max())
