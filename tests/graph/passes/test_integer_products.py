"""Products of dequantised tensors become products of bytes: what they mean is kept to a rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.graph import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.graph.passes.integer_products import integer_products
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter
from tests import fewer

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def number(draw: Any, dtype: str) -> int:
    return int(draw(st.integers(*((0, 255) if dtype == "uint8" else (-128, 127)))))


def dequantized(b: GraphBuilder, x: Any, scale: Any, zero: Any, axis: int = 0) -> Any:
    return b.op("qnn.dequantize", x, np.asarray(scale, "float32"), np.asarray(zero), axis=axis)


def product(draw: Any) -> Graph:
    """A product between dequantised operands; a bias, a relu and the next layer's quantisation may follow."""
    b = GraphBuilder("product")
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from(["uint8", "int8"]))
    kind = draw(st.sampled_from(["nn.conv2d", "nn.conv2d", "nn.dense", "nn.matmul"]))
    inner, outer = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    groups = inner if kind == "nn.conv2d" and draw(st.booleans()) else 1
    outer = inner if groups > 1 else outer
    x_zero, wide = number(draw, dtype), draw(st.booleans())
    shape = (1, inner, 5, 6) if kind == "nn.conv2d" else (3, 4 * inner)
    x = dequantized(b, b.input("x", shape, dtype), 0.05, np.array(x_zero, dtype))
    stored = {
        "nn.conv2d": (outer, inner // groups, 3, 2),
        "nn.dense": (outer, 4 * inner),
        "nn.matmul": (4 * inner, outer),
    }[kind]
    axis = 1 if kind == "nn.matmul" else 0
    by_column = draw(st.booleans())
    scale = rng.uniform(0.01, 0.05, outer) if by_column else 0.03
    w = rng.integers(0, 256, stored).astype("uint8") if wide else rng.integers(-128, 128, stored).astype("int8")
    w_zero = np.array(128, "uint8") if wide else np.array(0, "int8")
    if draw(st.booleans()):  # weights that are no int8 less their zero point
        w_zero = np.array(number(draw, str(w_zero.dtype)), w_zero.dtype)
    points = np.array([w_zero] * outer)
    if draw(st.booleans()):
        points = rng.integers(0, 128, outer).astype(w_zero.dtype)
    weight = dequantized(b, b.constant(w, "w"), scale, points if by_column else w_zero, axis)
    attrs: dict[str, Any] = {}
    if kind == "nn.conv2d":
        padding = (1, 0, draw(st.integers(0, 1)), 1)
        attrs = {"strides": draw(st.integers(1, 2)), "padding": padding, "groups": groups}
    y = b.op(kind, x, weight, **attrs)
    if draw(st.booleans()):
        bias = rng.uniform(-1, 1, outer).astype("float32")
        y = b.op("nn.bias_add", y, bias, axis=1)
    if draw(st.booleans()):
        y = b.op("nn.relu", y)
    if draw(st.booleans()):
        zero = np.array(number(draw, "uint8"), "uint8")
        y = b.op("qnn.quantize", y, np.asarray(0.2, "float32"), zero, axis=0, out_dtype="uint8")
    return b.build(y)


def inputs(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    value = graph.inputs[0]
    info = np.iinfo(str(value.dtype))
    return [rng.integers(info.min, info.max + 1, [int(str(d)) for d in value.shape]).astype(str(value.dtype))]


def assert_alike(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the rounding of floats; integers to one step where a quotient lies between two of them."""
    if expected.dtype == "uint8":
        assert np.abs(found.astype(int) - expected.astype(int)).max(initial=0) <= 1
        assert np.mean(found != expected) <= 0.02
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def mean_the_same(graph: Graph, change: Callable[[Graph], Graph] = integer_products) -> Graph:
    """The changed graph, which gives what the graph gives."""
    new = change(graph)
    x = inputs(graph)
    assert_alike(interpreter.run(new, x)[0], interpreter.run(graph, x)[0])
    return new


@pytest.mark.parametrize("kind, axis", [("nn.dense", 1), ("nn.matmul", 0)])
def test_scales_along_the_sum_are_not_those_of_the_results(kind: str, axis: int) -> None:
    b, rng = GraphBuilder("square"), np.random.default_rng(0)
    x = dequantized(b, b.input("x", (3, 8), "uint8"), 0.05, np.array(7, "uint8"))
    stored, scale = rng.integers(-128, 128, (8, 8)).astype("int8"), rng.uniform(0.01, 0.05, 8)
    weight = dequantized(b, b.constant(stored, "w"), scale, np.zeros(8, "int8"), axis)
    mean_the_same(b.build(b.op(kind, x, weight)))


@given(data=st.data())
@settings(QUICK, max_examples=60)
def test_products_mean_what_they_did(data: Any) -> None:
    assert any(item.op in ("qnn.conv2d", "qnn.dense") for item in mean_the_same(product(data.draw)).nodes)


@given(data=st.data())
@settings(QUICK, max_examples=fewer.number(4, 8))
def test_compiled_products_are_those_of_the_interpreter(data: Any) -> None:
    graph = product(data.draw)
    x = inputs(graph)
    compiled = minitvm.build(graph, threads=1)(*x)
    assert_alike(np.asarray(compiled), interpreter.run(graph, x)[0])


@given(data=st.data())
@settings(QUICK, max_examples=20)
def test_sums_of_bytes_on_words_are_exact(data: Any) -> None:
    draw = data.draw
    b = GraphBuilder("sum")
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from(["uint8", "int8"]))
    inner, outer, zero = draw(st.integers(1, 40)), draw(st.integers(1, 40)), number(draw, dtype)
    groups = draw(st.sampled_from([0, 1, inner]))
    if groups:
        w = rng.integers(-128, 128, (outer if groups == 1 else inner, inner // groups, 3, 3)).astype("int8")
        x = b.input("x", (1, inner, 6, 5), dtype)
        y = b.op("qnn.conv2d", x, w, zero_point=zero, padding=(1, 1, 0, 2), groups=groups)
    else:
        w = rng.integers(-128, 128, (outer, 4 * inner)).astype("int8")
        y = b.op("qnn.dense", b.input("x", (3, 4 * inner), dtype), w, zero_point=zero)
    graph = b.build(y)
    fused = optimize(graph, "cpu")
    expected = interpreter.run(graph, inputs(graph))[0]
    np.testing.assert_array_equal(interpreter.run(fused, inputs(graph))[0], expected)


@pytest.mark.parametrize(("groups", "x_scale"), [(2, 0.1), (1, [0.1] * 8)], ids=["groups", "by channel"])
def test_what_stays_a_product_of_floats(groups: int, x_scale: Any) -> None:
    b = GraphBuilder("float")
    zero = np.full(np.shape(x_scale), 3, "uint8")
    x = dequantized(b, b.input("x", (1, 8, 4, 4), "uint8"), x_scale, zero, axis=1)
    w = dequantized(b, b.constant(np.full((8, 8 // groups, 1, 1), -128, "int8")), 0.5, np.array(0, "int8"))
    new = integer_products(b.build(b.op("nn.conv2d", x, w, groups=groups)))
    assert [item.op for item in new.nodes if "conv2d" in item.op] == ["nn.conv2d"]


@pytest.mark.parametrize(("depth", "op"), [(66_310, "qnn.dense"), (66_315, "nn.dense")])
def test_sums_that_could_overflow_stay_products_of_floats(depth: int, op: str) -> None:
    """255 * 127 * 66,311 is the most that is less than 2^31."""
    b = GraphBuilder("deep")
    x = dequantized(b, b.input("x", (1, depth), "uint8"), 1.0, np.array(0, "uint8"))
    w = dequantized(b, b.constant(np.full((1, depth), 127, "int8")), 1.0, np.array(0, "int8"))
    assert op in [item.op for item in integer_products(b.build(b.op("nn.dense", x, w))).nodes]
