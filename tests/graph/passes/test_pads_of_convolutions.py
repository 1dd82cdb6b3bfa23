"""A pad before a convolution becomes padding of the convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.simplify import simplify
from minitvm.reference import graph as interpreter
from tests.fewer import examples


def _graph(rank: int, widths: list[tuple[int, int]], padding: Any, value: float = 0.0, mode: str = "constant") -> Graph:
    b = GraphBuilder()
    x = b.input("x", (1, 2, *(5,) * rank))
    w = b.constant(np.random.default_rng(1).standard_normal((4, 2, *(3,) * rank)).astype("float32"))
    padded = b.op("nn.pad", x, pad_width=widths, pad_value=value, pad_mode=mode)
    return b.build(b.op(f"nn.conv{rank}d", padded, w, padding=padding, strides=2))


@examples(20, 200)
@given(st.data())
def test_a_pad_is_folded(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    amounts = st.tuples(st.integers(0, 3), st.integers(0, 3))
    widths = [
        (0, 0),
        data.draw(st.sampled_from([(0, 0), (0, 0), (0, 0), (1, 1)])),
        *(data.draw(amounts) for _ in range(rank)),
    ]
    padding = tuple(data.draw(st.integers(0, 1)) for _ in range(2 * rank))
    inner = widths[1] == (0, 0)
    graph = _graph(rank, widths, padding) if inner else _graph_of_channels(rank, widths, padding)
    new = dead_code(simplify(graph))
    total = [p + w for p, w in zip(padding, [a for a, _ in widths[2:]] + [b for _, b in widths[2:]])]
    folds = inner and max(total) < 3
    assert [node.op for node in new.nodes].count("nn.pad") == (0 if folds or not any(map(any, widths)) else 1)
    x = np.random.default_rng(2).standard_normal([int(d) for d in graph.inputs[0].shape]).astype("float32")
    np.testing.assert_allclose(interpreter.run(new, [x])[0], interpreter.run(graph, [x])[0], rtol=1e-5, atol=1e-5)


def _graph_of_channels(rank: int, widths: list[tuple[int, int]], padding: Any) -> Graph:
    b = GraphBuilder()
    x = b.input("x", (1, 2, *(5,) * rank))
    w = b.constant(np.random.default_rng(1).standard_normal((4, 4, *(3,) * rank)).astype("float32"))
    return b.build(b.op(f"nn.conv{rank}d", b.op("nn.pad", x, pad_width=widths), w, padding=padding, strides=2))


@pytest.mark.parametrize("changes", [{"value": 1.0}, {"mode": "edge"}])
def test_other_elements_are_not_zeros(changes: dict[str, Any]) -> None:
    graph = _graph(2, [(0, 0), (0, 0), (1, 1), (1, 1)], 0, **changes)
    assert [node.op for node in dead_code(simplify(graph)).nodes] == ["nn.pad", "nn.conv2d"]


@pytest.mark.parametrize("value", [0, 7])
def test_bytes_are_padded_with_their_zero_point(value: int) -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 2, 5, 5), "uint8")
    padded = b.op("nn.pad", x, pad_width=[(0, 0), (0, 0), (1, 0), (0, 1)], pad_value=value)
    graph = b.build(b.op("qnn.conv2d", padded, np.ones((3, 2, 3, 3), "int8"), zero_point=7))
    new = dead_code(simplify(graph))
    assert [node.op for node in new.nodes] == ["nn.pad"] * (value != 7) + ["qnn.conv2d"]
    x_array = np.arange(50, dtype="uint8").reshape(1, 2, 5, 5)
    np.testing.assert_array_equal(interpreter.run(new, [x_array])[0], interpreter.run(graph, [x_array])[0])
