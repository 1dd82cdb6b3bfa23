"""Chains of int8 whose scales are powers of two become integers and shifts; others stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.frontends import from_onnx
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.passes.shifted_scales import exponent_of, shifted_scales
from minitvm.graph.verify import verify_graph
from minitvm.reference import graph as interpreter

from .shifted_networks import chain, dequantized, quantized

FLOATS = ("float16", "float32", "float64")


@settings(max_examples=150)
@given(st.data())
def test_integers_and_shifts_are_the_exact_chain_with_halves_rounded_up(data: Any) -> None:
    case = chain(data.draw)
    after = shifted_scales(case.graph)
    verify_graph(after)
    assert not [item for item in after.nodes if item.output.dtype in FLOATS]
    np.testing.assert_array_equal(interpreter.run(after, list(case.inputs))[0], case.result)


@settings(max_examples=60)
@given(st.data())
def test_what_floats_compute_differs_at_halves_alone(data: Any) -> None:
    case = chain(data.draw)
    before = interpreter.run(case.graph, list(case.inputs))[0]
    assert np.abs(before.astype(int) - case.result).max() <= 1
    assert (before <= case.result).all()  # to even is down or up, ours is up


def product(
    *, data_scale: Any = 0.5, weight_scale: Any = 0.25, zero: int = 0, dtype: str = "int8", size: int = 3,
    result_scale: float | None = 1.0, bias: float = 0.0,
) -> Graph:  # fmt: skip
    """A dense layer between a dequantisation and a quantisation."""
    b = GraphBuilder("product")
    x = b.op("qnn.dequantize", b.input("x", (2, size), dtype), np.float32(data_scale), np.array(zero, dtype), axis=0)
    w = b.constant(np.full((4, size), 127, np.int8), "w")
    zeros = np.zeros(np.shape(weight_scale), np.int8)
    y = b.op("nn.dense", x, b.op("qnn.dequantize", w, np.asarray(weight_scale, "float32"), zeros, axis=0))
    if bias:
        y = b.op("nn.bias_add", y, np.full(4, bias, "float32"), axis=1)
    if result_scale is None:
        return b.build(y)
    return b.build(b.op("qnn.quantize", y, np.float32(result_scale), np.int8(0), axis=0, out_dtype="int8"))


def operators(graph: Graph) -> list[str]:
    return [item.op for item in graph.nodes]


def test_a_product_between_powers_of_two() -> None:
    after = shifted_scales(product())
    assert operators(after) == ["qnn.dense", "add", "right_shift", "clip", "cast"]


@pytest.mark.parametrize(
    "change",
    [
        {"data_scale": 0.3}, {"weight_scale": 0.3}, {"result_scale": 0.3}, {"zero": 1}, {"dtype": "uint8"},
        {"weight_scale": [0.25, 0.5, 0.25, 0.25]}, {"size": 140_000}, {"bias": 2.0**31}, {"result_scale": 2.0**-40},
    ],
    ids=lambda change: "-".join(change),
)  # fmt: skip
def test_other_scales_and_sums_beyond_int32_stay(change: dict[str, Any]) -> None:
    graph = product(**change)
    after = shifted_scales(graph)
    assert "qnn.quantize" in operators(after) and "right_shift" not in operators(after)


def test_equal_scales_of_all_columns_are_one() -> None:
    assert "right_shift" in operators(shifted_scales(product(weight_scale=[0.25] * 4)))


def test_a_product_that_is_not_quantised_ends_in_floats() -> None:
    graph = product(result_scale=None, bias=3.0)
    after = shifted_scales(graph)
    assert operators(after) == ["qnn.dense", "cast", "multiply", "nn.bias_add"]
    x = np.array([[1, -2, 3], [-128, 127, 5]], np.int8)
    np.testing.assert_array_equal(interpreter.run(after, [x])[0], interpreter.run(graph, [x])[0])


def test_tensors_of_two_scales_are_joined_in_the_scale_of_the_result() -> None:
    b = GraphBuilder("joined")
    parts = [dequantized(b, b.input(f"x{e}", (1, 2), "int8"), e) for e in (2, 4)]
    graph = b.build(quantized(b, b.op("concatenate", *parts, axis=1), 3))
    after = shifted_scales(graph)
    assert "concatenate" in operators(after) and "qnn.quantize" not in operators(after)
    x, y = np.array([[3, 100]], np.int8), np.array([[-3, 5]], np.int8)
    np.testing.assert_array_equal(interpreter.run(after, [x, y])[0], [[6, 127, -1, 3]])


def test_the_largest_of_a_window_is_chosen_among_integers() -> None:
    b = GraphBuilder("pool")
    x = dequantized(b, b.input("x", (1, 1, 3, 3), "int8"), 2)
    graph = b.build(quantized(b, b.op("nn.max_pool2d", x, pool_size=2, strides=1, padding=1), 2))
    after = shifted_scales(graph)
    assert {"nn.max_pool2d"} < set(operators(after)) and "qnn.dequantize" not in operators(after)
    image = np.arange(-9, 0, dtype=np.int8).reshape(1, 1, 3, 3)
    np.testing.assert_array_equal(interpreter.run(after, [image])[0], interpreter.run(graph, [image])[0])


def test_a_file_with_quantizelinear_comes_in() -> None:
    graph = from_onnx(to_onnx(product(bias=3.0)))
    after = shifted_scales(graph)
    assert "qnn.dense" in operators(after) and "qnn.quantize" not in operators(after)
    x = np.array([[1, -2, 3], [-128, 127, 5]], np.int8)
    np.testing.assert_array_equal(minitvm.build(after, threads=1)(x), interpreter.run(after, [x])[0])


@pytest.mark.parametrize(("scale", "exponent"), [(1.0, 0), (0.25, 2), (8.0, -3), (0.3, None), (-0.5, None), (0, None)])
def test_the_exponent_of_a_scale(scale: float, exponent: int | None) -> None:
    assert exponent_of(np.float32(scale)) == exponent


def test_a_graph_without_bytes_is_returned() -> None:
    b = GraphBuilder("plain")
    x: Value = b.input("x", (2,), "float32")
    graph = b.build(b.op("nn.relu", x))
    assert operators(shifted_scales(graph)) == ["nn.relu"]
