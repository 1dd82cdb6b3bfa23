"""Products with weights stored in bytes: what they mean is kept to a rounding, and the weights stay bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.pipeline import optimize
from minitvm.graph.passes.stored_weights import stored_weights
from minitvm.reference import graph as interpreter


def product(draw: Any) -> tuple[Graph, bool]:
    """A product of floats and dequantised constant bytes; and whether the scale comes out of the sum."""
    b, rng = GraphBuilder("product"), np.random.default_rng(draw(st.integers(0, 99)))
    kind, depth, units = draw(st.sampled_from(["nn.dense", "nn.matmul", "turned"])), 4 * draw(st.integers(1, 6)), 5
    columns = 1 if kind == "nn.matmul" else 0
    shape = (depth, units) if columns else (units, depth)
    granularity = draw(st.sampled_from(["one", "columns", "depth", "blocks"]))
    axis, attrs = columns if granularity == "columns" else 1 - columns, {}
    scale_shape: tuple[int, ...] = {"one": (), "columns": (units,), "depth": (depth,)}.get(granularity, ())
    if granularity == "blocks":
        attrs["block_size"] = 4
        scale_shape = tuple(n // 4 if a == axis else n for a, n in enumerate(shape))
    unsigned = draw(st.booleans())
    stored = rng.integers(0, 256, shape).astype("uint8") if unsigned else rng.integers(-128, 128, shape).astype("int8")
    zero = [b.constant(np.full(scale_shape, 128, "uint8"))] if unsigned else []
    scale = b.constant(rng.uniform(0.01, 0.1, scale_shape).astype("float32"))
    weight = b.op("qnn.dequantize", b.constant(stored), scale, *zero, axis=axis, **attrs)
    rows = draw(st.sampled_from([(1,), (3,), (2, 3), (SizeVar("n"),)]))
    x = b.input("x", (*rows, depth))
    turned = {"transpose_b": True} if kind == "turned" else {}
    y = b.op("nn.dense" if kind == "nn.dense" else "nn.matmul", x, weight, **turned)
    return b.build(b.op("nn.relu", y)), granularity in ("one", "columns")


def data(graph: Graph, n: int = 2) -> np.ndarray:
    shape = [d if isinstance(d, int) else n for d in graph.inputs[0].shape]
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_strict_products_are_left_alone() -> None:
    b = GraphBuilder("product")
    weight = b.op("qnn.dequantize", b.constant(np.ones((4, 8), np.int8)), np.float32(0.5))
    graph = b.build(b.op("nn.dense", b.input("x", (2, 8)), weight))
    assert stored_weights(graph, "strict") is graph and stored_weights(graph) is not graph


@given(case=st.composite(product)())
@settings(max_examples=60)
def test_a_product_keeps_its_meaning_and_its_bytes(case: tuple[Graph, bool]) -> None:
    graph, comes_out = case
    after, x = dead_code(stored_weights(graph)), data(graph)
    changed = [item for item in after.nodes if item.op == "nn.dense" and item.inputs[1].dtype == "int8"]
    assert bool(changed) == comes_out
    assert not (comes_out and any(item.op == "qnn.dequantize" for item in after.nodes))
    for other in (after, optimize(graph)):
        (found,), (wanted,) = interpreter.run(other, [x]), interpreter.run(graph, [x])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 5, None])
def test_compiled_with_a_quarter_of_the_memory(rows: int | None) -> None:
    b, rng = GraphBuilder("product"), np.random.default_rng(0)
    stored, scale = rng.integers(-128, 128, (64, 48)).astype("int8"), rng.uniform(0.01, 0.1, 48).astype("float32")
    x = b.input("x", (rows or SizeVar("n"), 64))
    graph = b.build(b.op("nn.matmul", x, b.op("qnn.dequantize", b.constant(stored), b.constant(scale), axis=1)))
    array = data(graph)
    (wanted,) = interpreter.run(graph, [array])
    np.testing.assert_allclose(minitvm.build(graph, threads=1)(array), wanted, rtol=1e-4, atol=1e-4)
    held = sum(c.data.nbytes for c in minitvm.lower(graph, stop_at="fused").constants)
    assert held == stored.nbytes + scale.nbytes
