"""Resizes of known sizes become interpolations by tables, along one axis after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, optimize, verify_graph
from minitvm.graph.nodes import FUSED
from minitvm.graph.passes.split_resize import split_resize
from minitvm.reference import graph as interpreter

MODES = [
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_half_pixel_for_nn",
]  # fmt: skip


@st.composite
def resizes(draw: st.DrawFn) -> Graph:
    """One resize of any rank, method and mode, its scales given or not."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    size = [draw(st.sampled_from([n, n, *range(1, 9)])) for n in shape]
    attrs: dict[str, Any] = {
        "method": draw(st.sampled_from(["linear", "cubic", "nearest_neighbor"])),
        "coordinate_transformation_mode": draw(st.sampled_from(MODES)),
        "rounding_method": draw(st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
        "cubic_exclude": draw(st.booleans()),
    }
    if draw(st.booleans()):
        attrs["scales"] = [s / n if draw(st.booleans()) else (s + 0.25) / n for s, n in zip(size, shape)]
    b = GraphBuilder()
    x = b.input("x", shape, draw(st.sampled_from(["float32", "float64"])))
    return b.build(b.op("image.resize", x, size=size, name="y", **attrs))


@given(resizes())
@settings(max_examples=150)
def test_tables_mean_the_same(graph: Graph) -> None:
    after = split_resize(graph)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    x = graph.inputs[0]
    array = np.random.default_rng(0).integers(-9, 9, x.shape).astype(x.dtype.numpy)
    (found,), (wanted,) = interpreter.run(after, {"x": array}), interpreter.run(graph, {"x": array})
    tolerance = 1e-4 if x.dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=10 * tolerance)


def test_nothing_is_left_to_compute_an_element_but_products_and_sums() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 3, 5, 6))
    graph = b.build(b.op("nn.relu", b.op("image.resize2d", x, size=(9, 17), method="cubic")))
    after = optimize(graph)
    inside = [n.op for item in after.nodes for n in (item.graph.nodes if item.op == FUSED else (item,))]
    assert inside == ["image.interpolate", "image.interpolate", "nn.relu"]
    array = np.random.default_rng(0).standard_normal((1, 3, 5, 6)).astype("float32")
    found = np.asarray(minitvm.build(graph)(x=array))
    np.testing.assert_allclose(found, interpreter.run(graph, {"x": array})[0], rtol=1e-4, atol=1e-5)


@given(
    st.sampled_from(["linear", "cubic"]), st.sampled_from(MODES), st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)), st.booleans(),
)  # fmt: skip
@settings(max_examples=40)
def test_open_sizes_are_resized_an_axis_at_a_time(
    method: str, mode: str, image: tuple[int, int], size: tuple[int, int], given_scales: bool
) -> None:
    h, w, other_h, other_w = (SizeVar(name) for name in ("h", "w", "H", "W"))
    b = GraphBuilder()
    x, like = b.input("x", (1, 2, h, w)), b.input("like", (other_h, other_w))
    attrs: dict[str, Any] = {"method": method, "coordinate_transformation_mode": mode}
    scales = (1.0, 1.0, 1.0, 1.5) if given_scales and mode != "align_corners" else None
    y = b.op("image.resize", x, size=(1, 2, other_h, other_w), scales=scales, **attrs)
    graph = b.build([y, b.op("negative", like)])
    after = split_resize(graph)
    assert [item.op for item in after.nodes] == ["image.resize", "image.resize", "negative"]
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(-9, 9, (1, 2, *image)).astype("float32"), "like": np.zeros(size, "float32")}
    found, wanted = interpreter.run(after, arrays)[0], interpreter.run(graph, arrays)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
