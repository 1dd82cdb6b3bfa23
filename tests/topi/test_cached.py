"""Attention to caches of 16 bits: that of float32 to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError
from minitvm.expr import DType, SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from tests.reference.graph_operators.calls import Call
from tests.reference.graph_operators.runs import by_te


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, position: np.ndarray) -> Call:
    return Call("nn.cached_attention", (query, key, value, position), {"scale": 0.5})


def graph_of(call: Call) -> Graph:
    b = GraphBuilder()
    inputs = [b.input(f"x{k}", x.shape, x.dtype.name) for k, x in enumerate(call.inputs)]
    return b.build(b.op(call.op, *inputs, **call.attrs))


def calls(seed: int, dtype: str, places: int, queries: int) -> tuple[Call, Call]:
    """Attention to random caches of this dtype, and to the same numbers in float32."""
    rng = np.random.default_rng(seed)
    groups, each, width, depth = (int(rng.choice(sizes)) for sizes in ((1, 2), (1, 3), (3, 16), (5, 16)))
    query = rng.standard_normal((2, groups * each, queries, width)).astype(np.float32)
    stored = [rng.standard_normal((2, groups, places, n)).astype(DType(dtype).numpy) for n in (width, depth)]
    position = rng.integers(0, places - queries + 1, 2).astype(np.int32)
    return attention(query, *stored, position), attention(query, *(x.astype(np.float32) for x in stored), position)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["float16", "bfloat16"]), st.integers(20, 40), st.sampled_from([1, 2, 9])
)
def test_numbers_of_16_bits_are_widened_exactly(seed: int, dtype: str, places: int, queries: int) -> None:
    """The loops and the definition compute the same bits as from float32. 9 queries use the form in blocks."""
    narrow, wide = calls(seed, dtype, places, queries)
    np.testing.assert_array_equal(by_te(narrow)[0], by_te(wide)[0])
    expected = interpreter.run(graph_of(wide), list(wide.inputs))[0]
    np.testing.assert_array_equal(interpreter.run(graph_of(narrow), list(narrow.inputs))[0], expected)


@pytest.mark.parametrize(("dtype", "queries"), [("float16", 1), ("float16", 9), ("bfloat16", 2)])
def test_compiled(dtype: str, queries: int) -> None:
    """With 150 places, the form in blocks widens two chunks."""
    narrow, wide = calls(queries, dtype, 150, queries)
    expected = interpreter.run(graph_of(wide), list(wide.inputs))[0]
    module = minitvm.build(graph_of(narrow), threads=1)
    np.testing.assert_allclose(module(*narrow.inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("places", [128, 150, 2048])
def test_queries_of_an_open_number_stay_inside_of_the_widened_places(places: int) -> None:
    """A build refuses a program whose indices nothing keeps inside."""
    b = GraphBuilder()
    query = b.input("query", (1, 2, SizeVar("length"), 16))
    stored = [b.input(name, (1, 1, places, 16), "float16") for name in ("key", "value")]
    graph = b.build(b.op("nn.cached_attention", query, *stored, b.input("position", (1,), "int32"), scale=0.25))
    assert minitvm.lower(graph, stop_at="executable").outputs


@pytest.mark.parametrize(
    "dtypes", [("float32", "float16", "float32"), ("float64", "float16", "float16"), ("float16", "float32", "float32")]
)
def test_other_pairs_of_dtypes_are_refused(dtypes: tuple[str, str, str]) -> None:
    arrays = [np.zeros((1, 1, 4, 4), dtype) for dtype in dtypes]
    with pytest.raises(InputError, match="wanted keys and values of the query's dtype, or of 16 bits with a query of"):
        graph_of(attention(*arrays, np.zeros(1, np.int32)))
