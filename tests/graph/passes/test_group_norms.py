"""Rows that are normalised for groups of channels become group norms, which mean the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.group_norms import group_norms
from minitvm.reference import graph as interpreter

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


@st.composite
def chains(draw: st.DrawFn) -> tuple[Graph, bool]:
    """A chain as PyTorch exports it, or nearly so; and whether all of it is one group norm."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    groups, size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 2)), groups * size, *draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    channels, whole = shape[1], True
    b = GraphBuilder("chain")
    x = b.op("nn.relu", b.input("x", shape))
    rows = (shape[0], groups, -1) if draw(st.integers(0, 4)) else (shape[0] * groups, 1, -1)
    y = b.op("reshape", x, newshape=rows)
    whole &= rows[1] == groups and rows[0] == shape[0]
    scale, shift = (rng.standard_normal(rows[1]).astype("float32") for _ in range(2))
    y = b.op("nn.instance_norm", y, scale, shift, epsilon=0.5)
    turned = shape if draw(st.integers(0, 4)) else (shape[0], channels, -1, 1)
    y = b.op("reshape", y, newshape=turned)
    whole &= turned == shape
    for op in draw(st.lists(st.sampled_from(["multiply", "add"]), max_size=2)):
        per_channel = (channels, *[1] * (len(turned) - 2))
        other = draw(st.sampled_from([(), per_channel, (1, *per_channel), (*per_channel[:-1], int(y.shape[-1]))]))
        constant = rng.standard_normal(other).astype("float32")
        whole &= constant.size in (1, channels) and (constant.ndim < 2 or other[-1] == 1 or constant.ndim == len(other))
        whole &= other != (*per_channel[:-1], int(y.shape[-1])) or other == per_channel
        y = b.op(op, *draw(st.permutations([y, b.constant(constant)])))
    outputs: list[Any] = [y]
    if draw(st.integers(0, 3)) == 0:
        inner = b.op("nn.relu", y)
        outputs = [inner, y]
    return b.build(outputs), whole


def means_the_same(graph: Graph, whole: bool) -> None:
    """The results, and that a chain that is one group norm becomes one."""
    after = dead_code(group_norms(graph))
    verify_graph(after)
    x = {"x": np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype("float32")}
    for found, expected in zip(interpreter.run(after, x), interpreter.run(graph, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if whole:
        left = Counter(item.op for item in after.nodes) - Counter({"nn.relu": 2})
        assert left == {"nn.group_norm": 1}, left


@given(chain=chains())
@settings(QUICK, max_examples=60)
def test_chains_mean_what_they_did(chain: tuple[Graph, bool]) -> None:
    means_the_same(*chain)


def rows_that_others_read_stay() -> None:
    """What is computed for others anyway is not computed again."""
    b = GraphBuilder("rows")
    x = b.input("x", (1, 4, 3, 3))
    rows = b.op("nn.instance_norm", b.op("reshape", x, newshape=(1, 2, -1)), *np.ones((2, 2), np.float32))
    scaled = b.op("multiply", b.op("reshape", rows, newshape=x.shape), np.full((4, 1, 1), 2, np.float32))
    returned = b.build([scaled, rows])  # before there is another reader
    for graph in (returned, b.build([scaled, b.op("nn.relu", rows)])):
        assert group_norms(graph) is graph


def test_rows_that_others_read_stay() -> None:
    rows_that_others_read_stay()
