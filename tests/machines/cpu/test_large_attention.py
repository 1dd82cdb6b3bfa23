"""Attention as one function: where scores outgrow a cache, and with the results of three functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.lower import to_prim_func
from minitvm.graph.nodes import FUSED
from minitvm.graph.passes.pipeline import layout_passes
from minitvm.machines.cpu.large_attention import attention
from minitvm.reference import graph as interpreter
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from tests.graph.passes.test_moved_bytes import QUICK

SMALL = Target("cpu -vector_bits=128 -vector_registers=16 -l2=6144:8:64:1 -cores=1")


def network(
    batch: tuple[Any, ...] = (2,), rows: Any = 40, columns: Any = 24, depth: int = 6, width: int = 10,
    turned: bool = False, maps: tuple[str, ...] = ("scale",), readers: tuple[str, ...] = (),
    turned_value: bool = False,
) -> Graph:  # fmt: skip
    """softmax(maps(query key')) value; `readers` are the values that are results as well."""
    b = GraphBuilder("attention")
    query = b.input("q", (*batch, rows, depth))
    value = b.input("v", (*batch, width, columns) if turned_value else (*batch, columns, width))
    key = b.input("k", (*batch, columns, depth) if turned else (*batch, depth, columns))
    scores = b.op("nn.matmul", query, key, transpose_b=turned)
    found = {"scores": scores}
    for kind in maps:
        if kind == "scale":
            scores = b.op("multiply", scores, np.float32(0.3))
        elif kind == "mask":
            scores = b.op("add", scores, b.input("m", (rows, columns)))
        else:
            scores = b.op(kind, scores)
    found["weights"] = weights = b.op("nn.softmax", scores, axis=-1)
    return b.build([b.op("nn.matmul", weights, value, transpose_b=turned_value), *(found[name] for name in readers)])


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Of any size that a test can compute, with a few operators on the scores."""
    maps = draw(st.lists(st.sampled_from(("scale", "mask", "nn.relu", "tanh")), max_size=3, unique=True))
    return network(
        draw(st.sampled_from([(1,), (2,), (1, 3)])), draw(st.integers(1, 40)), draw(st.integers(1, 40)),
        draw(st.integers(1, 9)), draw(st.integers(1, 20)), draw(st.booleans()), tuple(maps),
        tuple(draw(st.lists(st.sampled_from(("scores", "weights")), max_size=1))), draw(st.integers(0, 3)) == 3,
    )  # fmt: skip


def inputs(graph: Graph, length: int = 0) -> list[np.ndarray]:
    """Arrays for a graph's inputs, `length` for what is open."""
    rng = np.random.default_rng(5)
    shapes = [[d if isinstance(d, int) else length for d in value.shape] for value in graph.inputs]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def keeps_its_meaning(graph: Graph) -> bool:
    """Whether the pass changes the graph; its results stay what they are, but for the order of sums."""
    new = attention(graph, SMALL)
    verify_graph(new)
    for found, expected in zip(interpreter.run(new, inputs(graph)), interpreter.run(graph, inputs(graph)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    return new is not graph


@given(graph=networks())
@settings(QUICK, max_examples=60)
def test_graphs_keep_their_meaning(graph: Graph) -> None:
    keeps_its_meaning(graph)


@pytest.mark.parametrize(
    "sizes", [{}, {"batch": (1, 3), "turned": True, "maps": ("mask", "tanh")}, {"rows": 19, "columns": 41, "width": 3}]
)
def test_the_function_is_computed_a_few_queries_at_a_time(sizes: dict[str, Any]) -> None:
    graph = network(**sizes)
    new = attention(graph, SMALL)
    assert [item.op for item in new.nodes][-2:] == ["layout.block_axis", FUSED]
    assert chosen(to_prim_func(new.nodes[-1]), SMALL).rule == "attention"
    found = minitvm.build(graph, SMALL, threads=1)(*inputs(graph))
    np.testing.assert_allclose(found, interpreter.run(graph, inputs(graph))[0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "sizes",
    [
        {"batch": (1,), "rows": 20, "columns": 20},  # all scores fit into the cache
        {"columns": 200},  # the keys of a head do not
        {"rows": 3, "columns": 90, "batch": (30,)},  # few queries read each key
        {"readers": ("scores",)}, {"readers": ("weights",)},
    ],
    ids=["small", "long", "few queries", "scores are results", "weights are results"],
)  # fmt: skip
def test_other_attention_stays_three_functions(sizes: dict[str, Any]) -> None:
    graph = network(**sizes)
    assert attention(graph, SMALL) is graph


@pytest.mark.parametrize("is_open", ["rows", "columns", "both", "batch"])
def test_attention_of_open_length_is_one_function_for_all_lengths(is_open: str) -> None:
    n = SizeVar("n")
    sizes: dict[str, Any] = {
        "rows": {"rows": n, "columns": 21}, "columns": {"rows": 30, "columns": n, "turned": True},
        "both": {"rows": n, "columns": n}, "batch": {"rows": 30, "columns": 21, "batch": (n, 2)},
    }[is_open]  # fmt: skip
    target = Target("cpu -vector_bits=128 -vector_registers=16 -l2=57344:7:64:1 -cores=1")
    graph = network(maps=("scale", "mask"), **sizes)
    new = attention(graph, target)
    verify_graph(new)
    assert new.nodes[-1].op == FUSED and chosen(to_prim_func(new.nodes[-1]), target).rule == "attention"
    module = minitvm.build(graph, target, threads=2)
    for length in (1, 2, 7, 16, 40):
        arrays = inputs(graph, length)
        (expected,) = interpreter.run(graph, dict(zip((v.name for v in graph.inputs), arrays, strict=True)))
        np.testing.assert_allclose(module(*arrays), expected, rtol=2e-5, atol=2e-6)


def test_other_norms_stay() -> None:
    """A softmax along another axis, and one of sums that are not of rows."""
    b = GraphBuilder("columns")
    query, key, value = b.input("q", (2, 40, 6)), b.input("k", (2, 6, 24)), b.input("v", (2, 24, 10))
    weights = b.op("nn.softmax", b.op("nn.matmul", query, key), axis=1)
    graph = b.build(b.op("nn.matmul", weights, value))
    assert attention(graph, SMALL) is graph


def test_only_what_runs_on_a_cpu_is_one_function() -> None:
    """GPUs have layouts of their own."""
    names = {kind: [name for name, _ in layout_passes(Target(kind))] for kind in ("cpu", "cuda", "opencl")}
    assert ["attention" in found for found in names.values()] == [True, False, False]
