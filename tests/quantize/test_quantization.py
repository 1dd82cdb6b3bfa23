"""Post-training quantisation: networks of bytes lie near those of floats, and misuse is said plainly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.quantize.quantization import Quantized
from minitvm.reference import graph as interpreter

RNG = np.random.default_rng(0)


def floats(*shape: int, size: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * size).astype("float32")


def network() -> Graph:
    """Two convolutions with a shortcut, batch normalisation, a pool and a dense layer."""
    b = GraphBuilder("small")
    x = b.input("x", (1, 3, 12, 12))
    first = b.op("nn.bias_add", b.op("nn.conv2d", x, floats(16, 3, 3, 3, size=0.3), padding=1), floats(16), axis=1)
    first = b.op("nn.relu", first, name="first")
    parameters = [np.abs(floats(16)) + 0.5, floats(16), floats(16), np.abs(floats(16)) + 0.5]
    second = b.op("nn.batch_norm", b.op("nn.conv2d", first, floats(16, 16, 3, 3, size=0.1), padding=1), *parameters)
    joined = b.op("nn.relu", b.op("add", second, first))
    pooled = b.op("reshape", b.op("nn.global_avg_pool", joined), newshape=(1, 16))
    return b.build(b.op("nn.dense", pooled, floats(20, 16, size=0.3), name="scores"))


SAMPLES = [floats(1, 3, 12, 12) for _ in range(4)]


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return minitvm.quantize(network(), SAMPLES)


def test_a_network_of_bytes_is_near_that_of_floats(quantized: Quantized) -> None:
    products = [item for item in quantized.graph.nodes if item.op in ("nn.conv2d", "nn.dense")]
    assert len(products) == 3
    makers = quantized.graph.producers()
    assert all(makers[v].op == "qnn.dequantize" for item in products for v in item.inputs)
    assert all(layer.noise > 20 for layer in (*quantized.layers, *quantized.outputs))
    compiled = minitvm.build(quantized.graph, threads=1)(SAMPLES[0])
    expected = interpreter.run(quantized.graph, [SAMPLES[0]])[0]
    np.testing.assert_allclose(compiled, expected, rtol=0, atol=0.05 * np.abs(expected).max())


def test_products_are_computed_in_integers(quantized: Quantized) -> None:
    ops = {item.op for node in _fused(quantized.graph).nodes for item in node.graph.nodes}
    assert {"qnn.contrib_conv2d_NCHWc", "qnn.contrib_dense_packed"} <= ops
    assert not {"nn.conv2d", "nn.contrib_conv2d_NCHWc", "nn.dense"} & ops


def _fused(graph: Graph) -> Any:
    from minitvm.graph.passes.pipeline import optimize

    return optimize(graph, "cpu")


def test_the_report_has_a_row_for_each_tensor(quantized: Quantized) -> None:
    text = str(quantized)
    assert text.splitlines()[0].split() == ["tensor", "low", "high", "scale", "signal", "to", "noise"]
    assert [layer.name for layer in quantized.layers][:2] == ["x", "first"]
    assert "scores" in text and text.count("dB") == len(quantized.layers) + len(quantized.outputs)


def test_zero_is_a_byte_of_every_range(quantized: Quantized) -> None:
    for layer in quantized.layers:
        assert layer.low <= 0 <= layer.high and 0 <= layer.zero_point <= 255
        assert layer.zero_point * layer.scale == pytest.approx(-layer.low, abs=1e-5)


def test_a_product_that_is_skipped_stays_in_floats() -> None:
    graph = network()
    some = minitvm.quantize(graph, SAMPLES[:1], skip=["scores"])
    dense = next(item for item in some.graph.nodes if item.op == "nn.dense")
    assert all(
        some.graph.producers().get(v) is None or some.graph.producers()[v].op != "qnn.dequantize" for v in dense.inputs
    )


def test_a_percentile_cuts_outliers_off() -> None:
    loud = SAMPLES[0].copy()
    loud[0, 0, 0, 0] = 100.0
    whole, cut = (minitvm.quantize(network(), [loud], percentile=p).layers[0] for p in (100.0, 99.0))
    assert whole.high > 90 and cut.high < 10


def test_onnx_runtime_gives_the_same(quantized: Quantized) -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(to_onnx(quantized.graph).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": SAMPLES[1]})
    expected = interpreter.run(quantized.graph, [SAMPLES[1]])[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("samples", "options", "text"),
    [
        ([], {}, "there are no samples"),
        ([{"y": SAMPLES[0]}], {}, "sample 0 does not fit the network"),
        ([np.full((1, 3, 12, 12), np.nan, "float32")], {}, "x is infinite or NaN for a sample"),
        (SAMPLES, {"skip": ["nothing"]}, "no product is called 'nothing'"),
        (SAMPLES, {"percentile": 20.0}, "percentile is above 50 and at most 100, found 20.0"),
        (SAMPLES, {"percentile": 99.0, "dtype": "bfloat16"}, "bfloat16 has the range of float32"),
        (SAMPLES, {"dtype": "bfloat"}, "dtype is uint8, int8 or bfloat16, found 'bfloat'; did you mean"),
        ([np.full((1, 3, 12, 12), np.nan, "float32")], {"dtype": "bfloat16"}, "x is infinite or NaN for a sample"),
    ],
)
def test_what_cannot_calibrate_is_said(samples: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        minitvm.quantize(network(), samples, **options)


def test_products_of_bfloat16_are_near_those_of_floats() -> None:
    brain = minitvm.quantize(network(), SAMPLES, dtype="bfloat16")
    products = [item for item in brain.graph.nodes if item.op in ("nn.conv2d", "nn.dense")]
    assert len(products) == 3
    for item in products:
        assert [v.dtype for v in item.inputs] == ["bfloat16", "bfloat16"] and item.output.dtype == "float32"
    assert [layer.name for layer in brain.layers] == ["x", "first", "reshape"]
    assert all(45 < layer.noise < 70 for layer in (*brain.layers, *brain.outputs))
    text = str(brain)
    assert text.splitlines()[0].split() == ["tensor", "low", "high", "signal", "to", "noise"]
    assert text.count("dB") == 4 and text.count("(output)") == 1
    expected = interpreter.run(brain.graph, [SAMPLES[0]])[0]
    for target in ("cpu", "cpu -features=avx512_bf16"):
        compiled = minitvm.build(brain.graph, target=target, threads=1)(SAMPLES[0])
        np.testing.assert_allclose(compiled, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


def test_products_of_bfloat16_go_through_onnx() -> None:
    """As products of widened operands, which mean the same, and are read as they are stored when they come back."""
    from minitvm.frontends import from_onnx
    from minitvm.graph.passes.half_products import half_products
    from minitvm.target import Target

    brain = minitvm.quantize(network(), SAMPLES[:1], dtype="bfloat16").graph
    back = from_onnx(to_onnx(brain))
    np.testing.assert_array_equal(interpreter.run(back, [SAMPLES[0]])[0], interpreter.run(brain, [SAMPLES[0]])[0])
    again = half_products(back, Target("cpu -features=avx512_bf16"))
    products = [item for item in again.nodes if item.op in ("nn.conv2d", "nn.dense", "nn.matmul")]
    assert len(products) == 3 and all(v.dtype == "bfloat16" for item in products for v in item.inputs)


def test_signed_bytes_with_powers_of_two_are_integers_from_layer_to_layer() -> None:
    shifts = minitvm.quantize(network(), SAMPLES, dtype="int8")
    graph = shifts.graph
    products = [item for item in graph.nodes if item.op in ("qnn.conv2d", "qnn.dense")]
    assert len(products) == 3 and all(v.dtype == "int8" for item in products for v in item.inputs)
    floats_left = [item.op for item in graph.nodes if item.output.dtype == "float32"]
    assert floats_left == ["qnn.dequantize", "nn.global_avg_pool", "reshape", "cast", "multiply"]
    assert all(math.frexp(layer.scale)[0] == 0.5 and layer.zero_point == 0 for layer in shifts.layers)
    assert all(layer.noise > 25 for layer in (*shifts.layers, *shifts.outputs))
    assert shifts.agreement == 1.0 and "is the same in 100.0 % of rows" in str(shifts)
    expected = interpreter.run(graph, [SAMPLES[0]])[0]
    np.testing.assert_array_equal(minitvm.build(graph, threads=1)(SAMPLES[0]), expected)


def test_of_three_powers_of_two_the_one_with_the_least_error_is_taken() -> None:
    lonely = SAMPLES[0].copy()
    lonely[0, 0, 0, 0] = 33.0  # covered by steps of 1/2 only, which would be coarse for all others
    first = minitvm.quantize(network(), [lonely], dtype="int8").layers[0]
    errors = {}
    for exponent in range(5):
        rounded = np.clip(np.rint(lonely * 2.0**exponent), -128, 127) / 2.0**exponent
        errors[exponent] = float(np.square(lonely - rounded).sum())
    assert first.scale == 2.0 ** -min((1, 2, 3), key=lambda e: errors[e])
    assert minitvm.quantize(network(), [lonely], dtype="int8", percentile=99.0).layers[0].high < 8


def test_agreement_is_the_share_of_rows_whose_greatest_element_stays() -> None:
    from minitvm.quantize.quantization import _agreement

    a = [np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[1.0, 2.0], [1.0, 3.0]])]
    b = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 9.0], [1.0, 3.0]])]
    assert _agreement(a, b) == 0.75


@pytest.mark.full
def test_a_transformer_in_bfloat16() -> None:
    """Products of data with data are rounded, too: the scores of attention and what they weigh."""
    from minitvm.tools.models.vit import vit_small

    graph = vit_small(shape=(1, 3, 32, 32), depth=1, width=64)
    x = floats(1, 3, 32, 32)
    brain = minitvm.quantize(graph, [x], dtype="bfloat16")
    matrices = [item for item in brain.graph.nodes if item.op in ("nn.dense", "nn.matmul", "nn.batch_matmul")]
    assert len(matrices) > 6 and all(v.dtype == "bfloat16" for item in matrices for v in item.inputs)
    assert min(layer.noise for layer in (*brain.layers, *brain.outputs)) > 35
    stored = [sum(c.data.nbytes for c in one.constants) for one in (brain.graph, graph)]
    assert stored[0] < 0.6 * stored[1]
    compiled = minitvm.build(brain.graph, target="cpu -features=avx512_bf16", threads=1)(x)
    expected = interpreter.run(brain.graph, [x])[0]
    np.testing.assert_allclose(compiled, expected, rtol=0, atol=2e-2 * np.abs(expected).max())


def test_grouped_convolutions_and_what_is_skipped_stay_in_float32() -> None:
    b = GraphBuilder("grouped")
    x = b.op("nn.conv2d", b.input("x", (1, 4, 6, 6)), floats(4, 1, 3, 3), groups=4, name="grouped")
    y = b.op("nn.conv2d", x, floats(4, 4, 1, 1), name="first")
    graph = b.build(b.op("nn.conv2d", y, floats(4, 4, 1, 1), name="second"))
    brain = minitvm.quantize(graph, [floats(1, 4, 6, 6)], dtype="bfloat16", skip=["second"]).graph
    inputs = {item.output.name: item.inputs[0].dtype for item in brain.nodes if item.op == "nn.conv2d"}
    assert inputs == {"grouped": "float32", "first": "bfloat16", "second": "float32"}


def test_a_network_without_products() -> None:
    b = GraphBuilder("plain")
    graph = b.build(b.op("nn.relu", b.input("x", (2, 3))))
    with pytest.raises(UnsupportedOperator, match="no convolution or product with constant weights"):
        minitvm.quantize(graph, [floats(2, 3)])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
@pytest.mark.parametrize("strides", [1, 2])
def test_a_transposed_convolution_alone(dtype: str, strides: int) -> None:
    """It becomes plain convolutions first, one for each phase, which are quantised."""
    b = GraphBuilder("upscaling")
    x, weight = b.input("x", (1, 8, 6, 6)), floats(8, 4, 3, 3, size=0.3)
    raised = b.op("nn.conv2d_transpose", x, weight, strides=strides, padding=1)
    graph = b.build(b.op("nn.relu", raised, name="y"))
    samples = [floats(1, 8, 6, 6) for _ in range(3)]
    small = minitvm.quantize(graph, samples, dtype=dtype).graph
    makers = small.producers()
    products = [item for item in small.nodes if item.op in ("nn.conv2d", "qnn.conv2d")]
    assert len(products) == strides**2
    assert all(makers[p.inputs[0]].op in ("qnn.dequantize", "qnn.quantize", "cast", "strided_slice") for p in products)
    exact, found = interpreter.run(graph, samples[:1])[0], minitvm.build(small, threads=1)(samples[0])
    assert 0 < np.abs(exact - found).max() < 0.03 * np.abs(exact).max()
