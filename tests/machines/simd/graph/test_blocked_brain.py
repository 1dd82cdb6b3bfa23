"""Products of bfloat16 on words of two: exact on whole numbers, near elsewhere, and only where they are asked for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter
from minitvm.target import Target


def target(lanes: int = 16) -> Target:
    return Target(f"cpu -vector_bits={32 * lanes} -features=avx512_bf16")


def whole(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """Whole numbers, whose products and sums are exact."""
    return rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16)


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Products one behind the other, rounded to bfloat16 between them; all numbers stay small and whole."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    b = GraphBuilder()
    some = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 17])

    def narrow(total: Value) -> Value:
        return b.op("cast", b.op("clip", total, a_min=-3, a_max=3), dtype="bfloat16")

    if draw(st.booleans()):
        size = draw(st.integers(3, 5))
        x = b.input("x", (draw(st.integers(1, 2)), draw(some), size, size), "bfloat16")
        for _ in range(draw(st.integers(1, 2))):
            k, stride = draw(st.sampled_from([1, 3])), draw(st.integers(1, 2))
            weight = whole(rng, (draw(some), x.shape[1], k, k))
            x = narrow(b.op("nn.conv2d", x, weight, padding=k // 2, strides=stride, out_dtype="float32"))
        return b.build(x)
    rows, depth, columns = (draw(st.integers(1, 20)) for _ in range(3))
    x = b.input("x", (*draw(st.sampled_from([(), (2,)])), rows, depth), "bfloat16")
    form = draw(st.sampled_from(["dense", "turned", "batch", "plain", "constant"]))
    if form == "dense":
        return b.build(b.op("nn.dense", x, whole(rng, (columns, depth)), out_dtype="float32"))
    if form == "constant":
        return b.build(b.op("nn.matmul", x, whole(rng, (depth, columns)), out_dtype="float32"))
    shape = (columns, depth) if form == "turned" else (depth, columns)
    other: Any = b.input("w", (*x.shape[:-2], *shape), "bfloat16")
    if form == "batch" and x.ndim == 3:
        other = b.op("transpose", other, axes=(0, 2, 1))
        return b.build(b.op("nn.batch_matmul", x, other, out_dtype="float32"))
    return b.build(b.op("nn.matmul", x, other, transpose_b=form == "turned", out_dtype="float32"))


def inputs_of(graph: Graph, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [whole(rng, [int(d) for d in v.shape]) for v in graph.inputs]  # type: ignore[arg-type]


@given(graph=networks(), lanes=st.sampled_from([4, 8, 16]), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_whole_numbers_are_exact(graph: Graph, lanes: int, seed: int) -> None:
    after = optimize(graph, target(lanes))
    verify_graph(after)
    inputs = inputs_of(graph, seed)
    for found, wanted in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("form", ["dense", "matrices", "convolution"])
def test_compiled_whole_numbers_are_exact(form: str) -> None:
    rng, b = np.random.default_rng(0), GraphBuilder()
    if form == "convolution":
        x = b.input("x", (1, 6, 5, 5), "bfloat16")
        y = b.op("nn.conv2d", x, whole(rng, (17, 6, 3, 3)), padding=1, out_dtype="float32")
    elif form == "dense":
        y = b.op("nn.dense", b.input("x", (5, 10), "bfloat16"), whole(rng, (20, 10)), out_dtype="float32")
    else:
        x, w = b.input("x", (2, 17, 10), "bfloat16"), b.input("w", (2, 10, 18), "bfloat16")
        y = b.op("nn.matmul", x, w, out_dtype="float32")
    graph = b.build(y)
    inputs = inputs_of(graph, 0)
    (wanted,) = interpreter.run(graph, inputs)
    np.testing.assert_array_equal(minitvm.build(graph, target=target(), threads=1)(*inputs), wanted)


def operators(graph: Graph, target: Target, **options: Any) -> set[str]:
    return {item.op for node in optimize(graph, target, **options).nodes for item in node.graph.nodes}


def dense(depth: int = 8, rows: Any = 3) -> Graph:
    b = GraphBuilder()
    x = b.input("x", (rows, depth), "bfloat16")
    return b.build(b.op("nn.dense", x, np.ones((20, depth), ml_dtypes.bfloat16)))


def test_words_need_the_instruction_and_accuracy_that_allows_it() -> None:
    assert "nn.contrib_dense_packed_words" in operators(dense(), target())
    assert "nn.contrib_dense_packed" in operators(dense(), target(), accuracy="strict")
    without = Target("cpu -vector_bits=512 -features=avx512f")
    assert "nn.contrib_dense_packed" in operators(dense(), without)


def test_an_odd_number_of_terms_has_no_words() -> None:
    assert "nn.contrib_dense_packed" in operators(dense(7), target())


def test_few_rows_turn_no_matrix() -> None:
    for rows, wanted in ((3, "nn.matmul"), (16, "nn.contrib_matmul_words")):
        b = GraphBuilder()
        x, w = b.input("x", (rows, 8), "bfloat16"), b.input("w", (8, 20), "bfloat16")
        assert wanted in operators(b.build(b.op("nn.matmul", x, w, out_dtype="float32")), target())


def test_weights_are_packed_while_compiling() -> None:
    fused = optimize(dense(), target())
    (constant,) = fused.constants
    assert constant.data.shape == (2, 4, 16) and constant.data.dtype == np.int32


@pytest.mark.parametrize("size", [2.0**-70, 1.0, 2.0**60])
def test_sizes_of_numbers(size: float) -> None:
    """Small products are flushed where they are below the normal numbers, large ones overflow, as in float32."""
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    weight = (rng.standard_normal((20, 8)) * size).astype(ml_dtypes.bfloat16)
    graph = b.build(b.op("nn.dense", b.input("x", (3, 8), "bfloat16"), weight, out_dtype="float32"))
    x = (rng.standard_normal((3, 8)) * size).astype(ml_dtypes.bfloat16)
    found = minitvm.build(graph, target=target(), threads=1)(x)
    (wanted,) = interpreter.run(graph, [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=8 * 2.0**-126)
