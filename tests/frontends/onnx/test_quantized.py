"""ONNX's quantised operators: to the last integer what ONNX Runtime gives, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.frontends import from_onnx
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import GraphBuilder
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32, "float32": TensorProto.FLOAT}


def q(dtype: str, *shape: int, low: int | None = None) -> np.ndarray:
    """Quantised numbers; weights of seven bits, as kernels without VNNI saturate the sum of two products."""
    info = np.iinfo(dtype)
    return RNG.integers(info.min if low is None else low, 64 if low is not None else info.max + 1, shape).astype(dtype)


def weights(dtype: str, *shape: int) -> np.ndarray:
    return q(dtype, *shape, low=-64 if dtype == "int8" else 0)


def scale(*shape: int) -> np.ndarray:
    return RNG.uniform(0.01, 0.05, shape).astype("float32")


def model(
    op: str, data: np.ndarray, constants: list[np.ndarray | None], outputs: int = 1, opset: int = 18, **attrs: Any
) -> Any:
    """The operator on an input `x` and constants behind it, None where one is left out."""
    names = ["x", *("" if c is None else f"c{k}" for k, c in enumerate(constants))]
    made = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, made, **attrs)
    given = [numpy_helper.from_array(c, f"c{k}") for k, c in enumerate(constants) if c is not None]
    feed = helper.make_tensor_value_info("x", KINDS[str(data.dtype)], data.shape)
    graph = helper.make_graph([node], op, [feed], [onnx.ValueInfoProto(name=name) for name in made], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def by_runtime(proto: Any, x: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x}))


def agree(proto: Any, x: np.ndarray, steps: int = 0) -> list[np.ndarray]:
    """ONNX Runtime, the graph's interpreter and the compiled module; integers may differ by `steps` roundings."""
    wanted = by_runtime(proto, x)
    graph = from_onnx(proto)
    compiled = minitvm.build(graph, threads=1)(x)
    for found in (interpreter.run(graph, [x]), compiled if isinstance(compiled, tuple) else (compiled,)):
        for a, b in zip(found, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            if b.dtype.kind == "f" or not steps:
                np.testing.assert_array_equal(a, b)
            assert np.abs(a.astype("float64") - b.astype("float64")).max(initial=0) <= steps
    return wanted


CONVOLUTIONS = {
    "plain": ((1, 3, 9, 8), (5, 3, 3, 3), {}),
    "padded by the zero point": ((2, 4, 6, 6), (8, 4, 3, 3), {"pads": [1, 0, 2, 1]}),
    "strided and dilated": ((1, 16, 11, 12), (16, 16, 3, 3), {"strides": [2, 1], "dilations": [1, 2]}),
    "depthwise": ((1, 16, 7, 7), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
    "grouped": ((1, 6, 5, 5), (4, 3, 2, 2), {"group": 2}),
    "pointwise": ((1, 32, 5, 4), (24, 32, 1, 1), {}),
}


@pytest.mark.parametrize(
    ("case", "dtype"), [*((case, "uint8") for case in CONVOLUTIONS), ("plain", "int8"), ("depthwise", "int8")]
)
def test_qlinear_conv(case: str, dtype: str) -> None:
    shape, kernel, attrs = CONVOLUTIONS[case]
    x, w = q(dtype, *shape), weights("int8", *kernel)
    filters = kernel[0]
    zero = np.array(11 if dtype == "uint8" else -9, dtype)
    constants = [
        scale()[()], zero, w, scale(filters), np.zeros(filters, "int8"), np.float32(1.0), np.array(90, dtype)
        if dtype == "uint8" else np.array(3, dtype), RNG.integers(-900, 900, filters).astype("int32"),
    ]  # fmt: skip
    constants = [np.asarray(c) for c in constants]
    (y,) = agree(model("QLinearConv", x, constants, **attrs), x, steps=1)
    assert len(np.unique(y)) > 20, "the scales leave something to compare"


@pytest.mark.parametrize(
    ("case", "zero", "w_dtype", "w_zero"),
    [("plain", 128, "uint8", 7), ("padded by the zero point", 0, "int8", 0), ("pointwise", 3, "int8", 0),
     ("depthwise", 0, "uint8", 0)],
)  # fmt: skip
def test_conv_integer(case: str, zero: int, w_dtype: str, w_zero: int) -> None:
    shape, kernel, attrs = CONVOLUTIONS[case]
    x = q("uint8", *shape)
    constants = [weights(w_dtype, *kernel), np.array(zero, "uint8"), np.array(w_zero, w_dtype)]
    agree(model("ConvInteger", x, constants, **attrs), x)


@pytest.mark.parametrize(
    ("shapes", "a_zero", "b_dtype", "b_zero"),
    [(((3, 5), (5, 7)), 77, "uint8", 5), (((2, 3, 32), (32, 20)), 0, "int8", 0), (((1, 64), (64, 40)), 9, "int8", -3),
     (((2, 4, 6), (2, 6, 3)), 0, "uint8", 0)],
)  # fmt: skip
def test_matmul_integer_and_qlinear_matmul(shapes: Any, a_zero: int, b_dtype: str, b_zero: int) -> None:
    a, b = q("uint8", *shapes[0]), weights(b_dtype, *shapes[1])
    zeros = [np.array(a_zero, "uint8"), np.array(b_zero, b_dtype)]
    agree(model("MatMulInteger", a, [b, *zeros]), a)
    constants = [scale(), zeros[0], b, scale(), zeros[1], np.array(0.9, "float32"), np.array(60, "uint8")]
    agree(model("QLinearMatMul", a, constants), a, steps=1)


def test_quantised_data_stay_in_eight_bits() -> None:
    """Nothing is widened in memory where the zero points are 0: the sum converts as it reads."""
    x = q("int8", 1, 16, 8, 8)
    graph = from_onnx(model("ConvInteger", x, [weights("int8", 16, 16, 3, 3), np.array(0, "int8")]))
    assert [item.op for item in graph.nodes] == ["qnn.conv2d"]
    assert {str(v.dtype) for v in graph.nodes[0].inputs} == {"int8"} and graph.outputs[0].dtype == "int32"


EXTREMES = np.array(
    [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 127.5, -128.5, 1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, 1e-45],
    "float32",
)


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", 5)])
def test_quantize_rounds_to_even_and_saturates(dtype: str, zero: int) -> None:
    x = np.resize(EXTREMES, 64)
    steps = np.array([1.0, 0.5, 3.0], "float32")
    agree(model("QuantizeLinear", np.tile(x, (3, 1)), [steps, np.full(3, zero, dtype)], axis=0), np.tile(x, (3, 1)))


def test_quantize_gives_every_nan_one_integer() -> None:
    x = np.full(40, np.nan, "float32")
    agree(model("QuantizeLinear", x, [np.array(0.5, "float32"), np.array(3, "int8")]), x)


def test_dequantize() -> None:
    x = np.arange(256).astype("uint8").reshape(4, 64)
    agree(model("DequantizeLinear", x, [scale(), np.array(7, "uint8")]), x)
    scales, zeros = scale(4), q("uint8", 4)
    agree(model("DequantizeLinear", x, [scales, zeros], axis=0), x)


def test_a_scale_in_half_precision_is_multiplied_in_single() -> None:
    x = np.array([65535, 100000, 7, -2049], "int32")
    agree(model("DequantizeLinear", x, [np.array(0.001, "float16")], opset=21), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_of_an_axis_share_a_scale(axis: int) -> None:
    """Places need not fill the last block."""
    shape = [6, 10]
    shape[axis] = -(-shape[axis] // 4)
    real, integers = RNG.uniform(-9, 9, (6, 10)).astype("float32"), q("int8", 6, 10)
    parameters = [scale(*shape) + 0.05, q("int8", *shape, low=-5)]
    for op, x in (("QuantizeLinear", real), ("DequantizeLinear", integers)):
        graph = from_onnx(model(op, x, parameters, opset=21, axis=axis, block_size=4))
        wide = [np.repeat(p, 4, axis).take(range(x.shape[axis]), axis).astype("float32") for p in parameters]
        wanted = (x - wide[1]) * wide[0] if op[0] == "D" else np.clip(np.rint(x / wide[0]) + wide[1], -128, 127)
        for found in (interpreter.run(graph, [x])[0], minitvm.build(graph, threads=1)(x)):
            np.testing.assert_array_equal(found, wanted.astype(found.dtype))


@pytest.mark.parametrize("low_high", [(-3.0, 5.0), (0.5, 2.0), (-4.0, -1.0)])
def test_dynamic_quantize(low_high: tuple[float, float]) -> None:
    x = RNG.uniform(*low_high, (3, 50)).astype("float32")
    agree(model("DynamicQuantizeLinear", x, [], outputs=3), x)


def test_dynamic_quantize_of_zeros_is_finite() -> None:
    """Any scale will do (ONNX's reference and ONNX Runtime take different ones), but it is a number."""
    x = np.zeros((2, 3), "float32")
    graph = from_onnx(model("DynamicQuantizeLinear", x, [], outputs=3))
    for y, step, zero in (interpreter.run(graph, [x]), minitvm.build(graph, threads=1)(x)):
        assert not y.any() and zero == 0 and np.isfinite(step) and step > 0


def test_weights_stay_bytes_until_passes_have_looked_for_them() -> None:
    b = GraphBuilder("weights")
    weight = b.op("qnn.dequantize", b.constant(np.ones((4, 8), np.int8)), np.float32(0.5), np.int8(0))
    graph = from_onnx(to_onnx(b.build(b.op("nn.dense", b.input("x", (2, 8)), weight))))
    assert {c.data.dtype for c in graph.constants if c.data.size == 32} == {np.dtype("int8")}
