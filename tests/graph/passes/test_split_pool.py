"""Large windows become a pool for each of their sides, and mean the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.split_pool import split_pool
from minitvm.reference import graph as interpreter

from ..graphs import by_te


@st.composite
def pools(draw: st.DrawFn) -> Graph:
    """A maximum or mean over windows of any size, step, padding and dilation; the image may be open.

    Along some axis it may only be padded, on either side.
    """
    rank = draw(st.integers(2, 3))
    some = {
        name: [draw(st.sampled_from(values)) for _ in range(rank)]
        for name, values in (("pool_size", (1, 2, 3, 4, 5)), ("strides", (1, 1, 2)), ("dilation", (1, 2)))
    }
    some["padding"] = [draw(st.integers(0, 3)) for _ in range(2 * rank)]
    if draw(st.booleans()):
        axis, side = draw(st.integers(0, rank - 1)), draw(st.sampled_from([0, rank]))
        some["pool_size"][axis], some["strides"][axis], some["padding"][axis + side] = 1, 1, 0
    sides = [draw(st.integers(9, 11)) for _ in range(rank)]
    open_sides = [SizeVar("h"), *sides[1:]] if draw(st.booleans()) else sides
    layout = draw(st.sampled_from(["NCHW", "NHWC"])) if rank == 2 else "NCDHW"
    shape = (1, *open_sides, 2) if layout == "NHWC" else (1, 2, *open_sides)
    extra = {"layout": layout} if rank == 2 else {}
    b, kind = GraphBuilder(), draw(st.sampled_from(["max", "max", "avg"]))
    if kind == "avg":
        extra["count_include_pad"] = draw(st.booleans())
    x = b.input("x", shape, "float32" if kind == "avg" else draw(st.sampled_from(["float32", "int32"])))
    return b.build(b.op(f"nn.{kind}_pool{rank}d", x, name="y", ceil_mode=draw(st.booleans()), **some, **extra))


def mean_the_same(graph: Graph, height: int = 10) -> None:
    after = split_pool(graph)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    (x,) = graph.inputs
    shape = [d if isinstance(d, int) else height for d in x.shape]
    inputs = {"x": np.random.default_rng(0).integers(-9, 9, shape).astype(x.dtype.numpy)}
    (found,), (right,) = interpreter.run(after, inputs), interpreter.run(graph, inputs)
    if graph.nodes[0].op.startswith("nn.max"):
        np.testing.assert_array_equal(found, right)
    else:
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


@given(graph=pools(), height=st.integers(9, 11))
@settings(max_examples=60)
def test_split_pools_mean_the_same(graph: Graph, height: int) -> None:
    mean_the_same(graph, height)


def pool(size: int, stride: int, side: int, padding: int, op: str = "nn.max_pool2d", dtype: str = "float32") -> Graph:
    b = GraphBuilder()
    x = b.input("x", (1, 2, side, side), dtype)
    return split_pool(b.build(b.op(op, x, pool_size=size, strides=stride, padding=padding)))


def test_only_windows_that_are_worth_it_are_split() -> None:
    windows = [n.attrs["pool_size"] for n in pool(5, 1, 20, 2).nodes]
    assert windows == [(5, 1), (1, 5)]
    assert len(pool(3, 2, 20, 1).nodes) == 1, "two passes over memory for a third less"
    assert len(pool(7, 1, 7, 0).nodes) == 1, "one window: each element is read once anyway"
    assert len(pool(7, 1, 20, 3, "nn.avg_pool2d").nodes) == 2
    assert len(pool(7, 1, 20, 3, "nn.avg_pool2d", "float16").nodes) == 1, "it would be rounded between the axes"


def test_not_numbers_are_the_maximum_both_ways() -> None:
    b = GraphBuilder()
    graph = b.build(b.op("nn.max_pool2d", b.input("x", (1, 1, 8, 8)), pool_size=5, padding=2))
    array = np.arange(64, dtype="float32").reshape(1, 1, 8, 8)
    array[0, 0, 2, 5] = np.nan
    after = split_pool(graph)
    assert len(after.nodes) == 2
    for run in (interpreter.run, by_te):
        np.testing.assert_array_equal(run(after, {"x": array})[0], run(graph, {"x": array})[0])
