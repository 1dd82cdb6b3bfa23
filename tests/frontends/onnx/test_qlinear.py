"""ONNX Runtime's quantised operators (com.microsoft) beside ONNX Runtime itself, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT, "bool": TensorProto.BOOL}
RNG = np.random.default_rng(0)


def q(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(value: float) -> np.ndarray:
    return np.array(value, "float32")


def model(op: str, arrays: list[np.ndarray | None], feeds: int, **attrs: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The operator on arrays, the first `feeds` of those that are no scalars as inputs, the others as constants."""
    names, inputs, constants, fed = [], [], [], {}
    for k, array in enumerate(arrays):
        names.append("" if array is None else f"x{k}")
        if array is None:
            continue
        if array.ndim and len(fed) < feeds:
            fed[f"x{k}"] = array
            inputs.append(helper.make_tensor_value_info(f"x{k}", KINDS[str(array.dtype)], array.shape))
        else:
            constants.append(numpy_helper.from_array(array, f"x{k}"))
    node = helper.make_node(op, names, ["y"], domain="com.microsoft", **attrs)
    graph = helper.make_graph([node], op, inputs, [onnx.ValueInfoProto(name="y")], constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), fed


def agree(proto: Any, feeds: dict[str, np.ndarray], steps: int = 1) -> None:
    """Integers to so many steps: a quotient between two of them may be rounded to either."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = ort.InferenceSession(proto.SerializeToString(), options).run(None, feeds)
    graph = from_onnx(proto)
    compiled = minitvm.build(graph, threads=1)(**feeds)
    for found in (interpreter.run(graph, list(feeds.values()))[0], np.asarray(compiled)):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        else:
            off = np.abs(found.astype(int) - expected.astype(int))
            assert off.max(initial=0) <= steps and np.mean(off > 0) <= 0.05


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_two_tensors(op: str, dtype: str) -> None:
    """No sum of these scales is half of a step: about halves rounding decides, and each system divides elsewhere."""
    zeros = [np.array(z, dtype) for z in (3, 100, 7)]
    arrays = [q(dtype, 2, 5, 4), scale(0.1), zeros[0], q(dtype, 5, 4), scale(0.05), zeros[1], scale(0.31), zeros[2]]
    agree(*model(op, arrays, 2))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearSigmoid", {}), ("QLinearSoftmax", {"opset": 13, "axis": -1})],
)
def test_one_tensor(op: str, attrs: dict[str, Any], dtype: str) -> None:
    zero = np.array(10, dtype)
    agree(*model(op, [q(dtype, 3, 8), scale(0.05), zero, scale(1 / 128), np.array(0, dtype)], 1, **attrs))


@pytest.mark.parametrize("last", [0, 1])
def test_global_pool(last: int) -> None:
    arrays = [q("uint8", 1, 6, 5, 4), scale(0.1), np.array(9, "uint8"), scale(0.05), np.array(2, "uint8")]
    agree(*model("QLinearGlobalAveragePool", arrays, 1, channels_last=last))


def test_pool() -> None:
    arrays = [q("uint8", 1, 6, 7, 8), scale(0.1), np.array(9, "uint8"), scale(0.08), np.array(2, "uint8")]
    agree(*model("QLinearAveragePool", arrays, 1, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]))


def test_concat() -> None:
    one, two = (
        [q("uint8", 2, 3), scale(0.1), np.array(4, "uint8")],
        [q("uint8", 2, 5), scale(0.2), np.array(90, "uint8")],
    )
    agree(*model("QLinearConcat", [scale(0.15), np.array(20, "uint8"), *one, *two], 2, axis=1))


def test_where() -> None:
    parts = [q("uint8", 4, 5), scale(0.1), np.array(4, "uint8"), q("uint8", 4, 5), scale(0.2), np.array(9, "uint8")]
    condition = RNG.integers(0, 2, (4, 5)).astype(bool)
    agree(*model("QLinearWhere", [condition, *parts, scale(0.15), np.array(20, "uint8")], 3))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("quantised", [True, False])
def test_gemm(dtype: str, quantised: bool) -> None:
    product = [
        q(dtype, 3, 16),
        scale(0.02),
        np.array(5, dtype),
        q("int8", 20, 16) // 2,
        scale(0.03),
        np.array(0, "int8"),
    ]
    bias = RNG.integers(-500, 500, 20).astype("int32")
    result = [scale(0.4), np.array(7, dtype)] if quantised else []
    agree(*model("QGemm", [*product, bias, *result], 1, transB=1, alpha=1.5))


def test_products_of_integers_as_floats() -> None:
    a, b = q("uint8", 3, 16), q("int8", 16, 24) // 2
    zeros = [np.array(100, "uint8"), np.array(0, "int8")]
    bias = RNG.standard_normal(24).astype("float32")
    agree(*model("MatMulIntegerToFloat", [a, b, scale(0.02), scale(0.03), *zeros, bias], 1))


def test_a_product_that_quantises_its_data() -> None:
    x = RNG.standard_normal((5, 16)).astype("float32")
    b = q("int8", 16, 24) // 2
    agree(*model("DynamicQuantizeMatMul", [x, b, scale(0.03), np.array(0, "int8")], 1))
