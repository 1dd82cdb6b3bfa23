"""Products of 16-bit floats: the same to the interpreter of graphs, and within the bound of the tensor expression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import reference, te, topi
from minitvm.expr import DType
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.half_products import half_products
from minitvm.graph.passes.pipeline import optimize
from minitvm.reference import graph as interpreter
from minitvm.target import Target

PLAIN = Target("cpu -vector_bits=256 -features=avx2,fma")
PAIRS = Target("cpu -vector_bits=256 -features=avx2,fma,avx512_bf16")
HALVES = ("float16", "bfloat16")


def halves(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    return rng.standard_normal(shape).astype(DType(dtype).numpy)


@st.composite
def products(draw: st.DrawFn) -> tuple[str, list[np.ndarray], dict[str, Any]]:
    """An operator, its operands and its attributes."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    dtype = draw(st.sampled_from(HALVES))
    m, n, k, batch = (draw(st.integers(1, most)) for most in (18, 20, 9, 2))
    op = draw(st.sampled_from(["nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv1d", "nn.conv2d"]))
    attrs: dict[str, Any] = {"out_dtype": draw(st.sampled_from(["", "float32", dtype]))}
    if op == "nn.dense":
        shapes: list[Any] = [(m, k), (n, k)]
    elif op == "nn.matmul":
        attrs["transpose_b"] = turned = draw(st.booleans())
        shapes = [(*(batch,) * draw(st.integers(0, 1)), m, k), (n, k) if turned else (k, n)]
    elif op == "nn.batch_matmul":
        shapes = [(batch, m, k), (batch, n, k)]
    else:
        rank = int(op[-2])
        attrs["padding"] = draw(st.integers(0, 1))
        shapes = [(1, k, *(5,) * rank), (n, k, *(3,) * rank)]
    return op, [halves(rng, shape, dtype) for shape in shapes], attrs


def graph_of(op: str, arrays: list[np.ndarray], attrs: dict[str, Any], constant: bool) -> tuple[Graph, list[Any]]:
    b = GraphBuilder("product")
    x = b.input("x", arrays[0].shape, str(arrays[0].dtype))
    w = b.constant(arrays[1], "w") if constant else b.input("w", arrays[1].shape, str(arrays[1].dtype))
    return b.build(b.op(op, x, w, name="y", **attrs)), arrays[: 1 if constant else 2]


@given(product=products(), constant=st.booleans(), pairs=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_interpreter_sees_no_difference(product: Any, constant: bool, pairs: bool) -> None:
    graph, inputs = graph_of(*product, constant)
    after = half_products(graph, PAIRS if pairs else PLAIN)
    verify_graph(after)
    assert [v.name for v in after.outputs] == ["y"]
    (wanted,), (found,) = interpreter.run(graph, inputs), interpreter.run(after, inputs)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    sums = [n.output.dtype for n in after.nodes if n.op.startswith("nn.")]
    assert sums == ["float32"]


SHAPES = {
    "nn.dense": ((3, 9), (20, 9)),
    "nn.batch_matmul": ((1, 4, 6), (1, 5, 6)),
    "nn.conv2d": ((1, 4, 5, 5), (16, 4, 3, 3)),
}


@pytest.mark.parametrize("op, dtype, target", [
    ("nn.dense", "bfloat16", PLAIN), ("nn.batch_matmul", "bfloat16", PAIRS), ("nn.conv2d", "bfloat16", PAIRS),
    ("nn.conv2d", "float16", PLAIN),
], ids=["dense", "matrices of pairs", "convolution of pairs", "float16"])  # fmt: skip
def test_compiled_sums_lie_within_the_bound_of_the_definition(op: str, dtype: str, target: Target) -> None:
    """The tensor expression rounds each sum to its dtype; what is summed in float32 is nearer to the true one."""
    rng = np.random.default_rng(0)
    arrays = [halves(rng, shape, dtype) for shape in SHAPES[op]]
    graph, inputs = graph_of(op, arrays, {}, constant=op != "nn.batch_matmul")
    x, w = (te.placeholder(a.shape, dtype=dtype, name=name) for name, a in zip("xw", arrays, strict=True))
    func = te.create_prim_func([x, w, getattr(topi, op.removeprefix("nn."))(x, w)])
    found = np.asarray(minitvm.build(graph, target=target, threads=1)(*inputs))
    assert reference.bound.compare(func, [*arrays, np.zeros_like(found)], [*arrays, found])


@pytest.mark.parametrize("half", HALVES)
def test_what_an_importer_widened_is_read_as_it_is_stored(half: str) -> None:
    rng = np.random.default_rng(0)
    weight = halves(rng, (20, 8), half)
    b = GraphBuilder("widened")
    x = b.op("cast", b.input("x", (3, 8), half), dtype="float32")
    y = b.op("cast", b.op("nn.dense", x, weight.astype("float32")), dtype=half)
    graph = b.build(y)
    data = halves(rng, (3, 8), half)
    for target in (PLAIN, PAIRS):
        fused = optimize(graph, target)
        stored = [c.data.dtype for c in fused.constants]
        words = half == "bfloat16" and target is PAIRS
        assert stored == [np.dtype(np.int32) if words else weight.dtype]
        np.testing.assert_array_equal(interpreter.run(fused, [data])[0], interpreter.run(graph, [data])[0])


def test_weights_with_more_bits_stay_float32() -> None:
    b = GraphBuilder("wide")
    x = b.op("cast", b.input("x", (3, 8), "bfloat16"), dtype="float32")
    graph = b.build(b.op("nn.dense", x, np.full((20, 8), 1 + 2.0**-9, np.float32)))
    assert half_products(graph, PAIRS) is graph


def test_data_in_float32_are_left_alone() -> None:
    b = GraphBuilder("data")
    graph = b.build(b.op("nn.dense", b.input("x", (3, 8), "float32"), np.ones((20, 8), np.float32)))
    assert half_products(graph, PAIRS) is graph
