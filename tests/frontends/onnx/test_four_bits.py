"""Integers of four bits: constants of DequantizeLinear, by axis and in blocks, and what QuantizeLinear makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

KINDS = {"int4": (TensorProto.INT4, -8, 8), "uint4": (TensorProto.UINT4, 0, 16)}


def packed(kind: str, name: str, values: np.ndarray) -> onnx.TensorProto:
    return helper.make_tensor(name, KINDS[kind][0], values.shape, values.reshape(-1).tolist())


def proto(nodes: list[onnx.NodeProto], shape: list[Any], constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "four", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def by_runtime(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()  # its rewriting to MatMulNBits would round x to bytes
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (y,) = ort.InferenceSession(made.SerializeToString(), options).run(None, {"x": x})
    return np.asarray(y)


@st.composite
def weights(draw: st.DrawFn) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product with a weight of four bits whose scale is one number, one for each place of an axis, or of a block."""
    kind, rows = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(1, 5))
    depth, units = draw(st.sampled_from([16, 32, 48])), draw(st.sampled_from([5, 8, 16, 33]))
    axis, block = draw(st.integers(0, 1)), draw(st.sampled_from([0, 0, 16]))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    _, low, high = KINDS[kind]
    shape: tuple[int, ...] = ((depth, units)[axis],)
    if block:
        axis, shape = 0, (depth // block, units)
    elif draw(st.booleans()):
        shape = ()
    constants = [
        packed(kind, "w", rng.integers(low, high, (depth, units))),
        numpy_helper.from_array(rng.uniform(0.01, 0.1, shape).astype(np.float32), "s"),
    ]
    names = ["w", "s"]
    if draw(st.booleans()):
        constants.append(packed(kind, "z", rng.integers(low, high, shape)))
        names.append("z")
    attrs = {"axis": axis} | ({"block_size": block} if block else {})
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], **attrs), helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]  # fmt: skip
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    return proto(nodes, ["rows" if draw(st.booleans()) else rows, depth], constants), x


@given(case=weights())
@settings(max_examples=40)
def test_weights_of_four_bits(case: tuple[onnx.ModelProto, np.ndarray]) -> None:
    made, x = case
    wanted = by_runtime(made, x)
    np.testing.assert_allclose(interpreter.run(from_onnx(made), [x])[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_compiled(kind: str) -> None:
    rng = np.random.default_rng(0)
    _, low, high = KINDS[kind]
    nodes = [
        helper.make_node("Constant", [], ["w"], value=packed(kind, "w", rng.integers(low, high, (32, 24)))),
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    made = proto(nodes, ["n", 32], [numpy_helper.from_array(rng.uniform(0.1, 1, (2, 24)).astype(np.float32), "s")])
    module = minitvm.build(made, threads=1)
    for rows in (1, 4):
        x = rng.standard_normal((rows, 32)).astype(np.float32)
        np.testing.assert_allclose(module(x), by_runtime(made, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("by", ["zero point", "attribute"])
def test_quantised_to_four_bits_and_back(kind: str, by: str) -> None:
    """What is beyond the range of four bits saturates there, not at that of a byte."""
    x = np.linspace(-40, 40, 33, dtype=np.float32).reshape(3, 11)
    scale = numpy_helper.from_array(np.float32(1.5), "s")
    zero = [packed(kind, "z", np.array(3))] if by == "zero point" else []
    attrs = {} if zero else {"output_dtype": KINDS[kind][0]}
    names = ["s", "z"] if zero else ["s"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], **attrs),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"]),
    ]
    made = proto(nodes, [3, 11], [scale, *zero])
    wanted = by_runtime(made, x)
    graph = from_onnx(made)
    np.testing.assert_array_equal(interpreter.run(graph, [x])[0], wanted)
    np.testing.assert_array_equal(minitvm.build(graph, threads=1)(x), wanted)
