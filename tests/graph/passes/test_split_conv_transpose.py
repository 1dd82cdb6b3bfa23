"""Transposed convolutions become plain ones that compute the same and multiply no zeros."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.split_conv_transpose import split_conv_transpose
from minitvm.reference import graph as interpreter
from minitvm.te import size_var
from tests.fewer import examples


@st.composite
def transposed(draw: st.DrawFn) -> Graph:
    """One transposed convolution of any rank, kernel, stride, padding, dilation and grouping."""
    rank = draw(st.integers(1, 3))
    groups, channels, filters = (draw(st.integers(1, 3)) for _ in range(3))

    def per_axis(low: int, high: int, count: int = rank) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(count)]

    kernel, strides, dilation, image = per_axis(1, 5), per_axis(1, 4), per_axis(1, 3), per_axis(1, 4)
    extra = [draw(st.integers(0, s - 1)) for s in strides]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    whole = [(n - 1) * s + r + e for n, s, r, e in zip(image, strides, reach, extra)]
    before = [draw(st.integers(-1, n // 2)) for n in whole]
    after = [draw(st.integers(-1, n - 1 - max(b, 0))) for n, b in zip(whole, before)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    b = GraphBuilder()
    x = b.input("x", (draw(st.integers(1, 2)), channels * groups, *image))
    w = b.constant(rng.standard_normal((channels * groups, filters, *kernel)).astype("float32"))
    return b.build(
        b.op(
            f"nn.conv{rank}d_transpose", x, w, strides=strides, padding=before + after, output_padding=extra,
            dilation=dilation, groups=groups, name="y",
        )
    )  # fmt: skip


@given(transposed())
@examples(50, 150)
def test_phases_compute_the_same(graph: Graph) -> None:
    after = split_conv_transpose(graph)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    assert not any("transpose" in item.op and "conv" in item.op for item in after.nodes)
    x = np.random.default_rng(1).standard_normal(graph.inputs[0].shape).astype("float32")
    (found,), (wanted,) = interpreter.run(after, {"x": x}), interpreter.run(graph, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@given(transposed())
@settings(max_examples=60)
def test_every_tap_is_multiplied_by_data_once_an_output(graph: Graph) -> None:
    """Along each axis the phases' taps are those that reach an output of the phase, and no more."""
    item = graph.nodes[0]
    after = split_conv_transpose(graph)
    convolutions = [n for n in after.nodes if n.op.startswith("nn.conv")]
    filters = sum(int(n.inputs[1].shape[0]) * math.prod(n.inputs[1].shape[2:]) for n in convolutions)  # type: ignore[arg-type]
    strides, kernel = item.attrs["strides"], item.inputs[1].shape[2:]
    outputs = int(item.output.shape[1])  # type: ignore[arg-type]
    taps = 0
    for phase in itertools.product(*map(range, strides)):
        counts = []
        for at, s, k, d in zip(phase, strides, kernel, item.attrs["dilation"]):
            counts.append(sum((tap * d - at) % s == 0 for tap in range(k)))  # type: ignore[arg-type]
        taps += math.prod(counts)
    assert filters <= outputs * taps  # a phase that lies in the padding has no convolution


def _network(**attrs: Any) -> Graph:
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    x = b.input("x", (1, 8, 6, 5))
    y = b.op("nn.conv2d_transpose", x, rng.standard_normal((8, 4, 4, 4)).astype("float32"), **attrs)
    return b.build(b.op("nn.relu", b.op("nn.bias_add", y, rng.standard_normal(4).astype("float32"))))


def test_compiled_phases_agree_with_the_definition() -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 5)).astype("float32")
    for attrs in ({"strides": (2, 3), "padding": (1, 0, 2, 1)},):
        graph = _network(**attrs)
        module = minitvm.build(graph)
        wanted = interpreter.run(graph, {"x": x})[0]
        np.testing.assert_allclose(np.asarray(module(x=x)), wanted, rtol=1e-4, atol=1e-4)


def test_phases_are_stored_where_they_belong() -> None:
    """One kernel writes each result once, bias and activation included, on plain values and between convolutions."""
    rng = np.random.default_rng(0)
    for between in (False, True):
        b = GraphBuilder()
        x = y = b.input("x", (1, 16, 6, 16))
        if between:
            y = b.op("nn.conv2d", y, rng.standard_normal((16, 16, 1, 1)).astype("float32"))
        y = b.op("nn.conv2d_transpose", y, rng.standard_normal((16, 16, 2, 2)).astype("float32"), strides=2)
        y = b.op("nn.relu", b.op("nn.bias_add", y, rng.standard_normal(16).astype("float32")))
        if between:
            y = b.op("nn.conv2d", y, rng.standard_normal((16, 16, 1, 1)).astype("float32"))
        graph = b.build(y)
        steps = [item.output.name for item in minitvm.lower(graph, stop_at="fused").nodes]
        assert len(steps) == (4 if between else 1), "a change of layout in front, and a kernel for each convolution"
        data = rng.standard_normal([int(n) for n in x.shape]).astype("float32")  # type: ignore[arg-type]
        (wanted,) = interpreter.run(graph, {"x": data})
        np.testing.assert_allclose(np.asarray(minitvm.build(graph)(x=data)), wanted, rtol=1e-4, atol=1e-4)


def test_an_image_of_open_size_is_split_too() -> None:
    n, rng = size_var("n"), np.random.default_rng(0)
    b = GraphBuilder()
    x = b.input("x", (1, 2, n))
    w = b.constant(rng.standard_normal((2, 3, 5)).astype("float32"))
    graph = b.build(b.op("nn.conv1d_transpose", x, w, strides=3, padding=(1, 2), output_padding=1, name="y"))
    after = split_conv_transpose(graph)
    assert "nn.conv1d_transpose" not in {item.op for item in after.nodes}
    for size in (1, 2, 7):
        arrays = {"x": rng.standard_normal((1, 2, size)).astype("float32")}
        (found,), (wanted,) = interpreter.run(after, arrays), interpreter.run(graph, arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.data())
@examples(30, 100)
def test_an_image_of_open_size_with_any_attributes(
    kernel: int, stride: int, dilation: int, data: st.DataObject
) -> None:
    """Where a phase may have no row of the data the operator stays whole."""
    reach = (kernel - 1) * dilation + 1
    padding = data.draw(st.tuples(*[st.integers(0, reach - 1)] * 2), "padding")
    extra = data.draw(st.integers(0, stride - 1), "output_padding")
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    x = b.input("x", (1, 2, size_var("n")))
    w = b.constant(rng.standard_normal((2, 3, kernel)).astype("float32"))
    attrs = {"strides": stride, "padding": padding, "output_padding": extra, "dilation": dilation}
    graph = b.build(b.op("nn.conv1d_transpose", x, w, **attrs))
    after = split_conv_transpose(graph)
    verify_graph(after)
    for size in (1, 2, 7):
        if (size - 1) * stride + reach + extra <= sum(padding):
            continue
        arrays = {"x": rng.standard_normal((1, 2, size)).astype("float32")}
        (found,), (wanted,) = interpreter.run(after, arrays), interpreter.run(graph, arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_an_open_number_of_filters_stays_whole() -> None:
    b = GraphBuilder()
    x, w = b.input("x", (1, 2, 5)), b.input("w", (2, size_var("filters"), 3))
    graph = b.build(b.op("nn.conv1d_transpose", x, w, strides=3))
    assert [item.op for item in split_conv_transpose(graph).nodes] == ["nn.conv1d_transpose"]
