"""Operators at the edges of what ONNX defines: places outside of an axis, constant counts, equal elements and so on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import minitvm as tvm
from minitvm.reference import graph as interpreter

from .one_node import Node

FAR = 2**63 - 1
PLACES = (-FAR, -7, -3, -1, 0, 2, 3, FAR)


def interpreted(node: Node, **open_axes: list[int]) -> list[np.ndarray]:
    return list(interpreter.run(tvm.lower(node.model(open_axes), stop_at="graph"), node.arrays))


def sliced(x: np.ndarray, start: int, end: int, step: int) -> np.ndarray:
    """ONNX's rule: backwards, a start is clamped to [0, n - 1] and an end to [-1, n - 1]; forwards both to [0, n]."""
    n = len(x)
    start, end = (place + n if place < 0 else place for place in (start, end))
    first, last, top = (0, -1, n - 1) if step < 0 else (0, 0, n)
    places = range(min(max(start, first), top), min(max(end, last), top), step)
    return x[[place for place in places if 0 <= place < n]]


@pytest.mark.parametrize("step", [-2, -1, 1, 2])
def test_slices_clamp_both_ends(step: int) -> None:
    for start, end in itertools.product(PLACES, PLACES):
        if step < 0 and end == FAR:
            continue  # ONNX Runtime takes it for "to the beginning"
        known = {name: np.array([value]) for name, value in (("s", start), ("e", end), ("a", 0), ("step", step))}
        for n in (0, 1, 3):
            x = np.arange(n, dtype=np.float32)
            node = Node("Slice", {"x": x, **known}, known=tuple(known))
            for opened in ({}, {"x": [0]}):
                (result,) = interpreted(node, **opened)
                np.testing.assert_array_equal(result, sliced(x, start, end, step), f"{n}[{start}:{end}:{step}]")


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 5, -1), (2, FAR, FAR), (2, -FAR - 1, -FAR - 1), (-1, -FAR, -FAR)]
)
def test_slices_of_extreme_steps_or_of_nothing_run(start: int, end: int, step: int) -> None:
    """Compiled: an output that is empty whatever the size has no step that writes it."""
    known = {name: np.array([value]) for name, value in (("s", start), ("e", end), ("a", 0), ("step", step))}
    x = np.arange(4, dtype=np.float32)
    expected = x[:0] if (start, end) == (0, 5) else x[start : start + 1] if start >= 0 else x[-1:]
    for constants in (tuple(known), ()):
        node = Node("Slice", {"x": x, **known}, known=constants)
        module = tvm.build(node.model({"x": [0]}), threads=1)
        arrays = [x, *(known[name] for name in known if name not in constants)]
        np.testing.assert_array_equal(module(*arrays), expected)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_what_negative_pads_cut_off_is_not_repeated(mode: Any) -> None:
    x = np.arange(5, dtype=np.float32)
    for before, after in itertools.product(range(-2, 3), repeat=2):
        left = x[max(-before, 0) : len(x) - max(-after, 0)]
        if mode == "reflect" and max(before, after) >= len(left):
            continue
        node = Node("Pad", {"x": x, "p": np.array([before, after])}, {"mode": mode}, known=["p"], opset=19)
        expected = np.pad(left, [(max(before, 0), max(after, 0))], mode)
        for opened in ({}, {"x": [0]}):
            np.testing.assert_array_equal(interpreted(node, **opened)[0], expected)


@pytest.mark.parametrize("value", [0.0, 2.5])
@pytest.mark.parametrize("known", [(), ("x",)])
def test_a_tensor_without_dimensions_has_a_column_without_rows(value: float, known: tuple[str, ...]) -> None:
    (columns,) = interpreted(Node("NonZero", {"x": np.array(value, np.float32)}, known=known))
    assert (columns.shape, columns.dtype) == ((0, int(value != 0)), np.int64)


@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_logarithms_of_sums_of_integers_are_rounded_toward_zero(op: str, dtype: str) -> None:
    x = np.array([[3, 4, 5], [1, 2, 0], [9, 9, 9]], dtype)
    terms = np.exp(x.astype(float)) if op == "ReduceLogSumExp" else x
    for axes in (np.array([1]), None):
        inputs = {"x": x, "axes": axes}
        (result,) = interpreted(Node(op, inputs, {"keepdims": 0}, known=["axes"]))
        expected = np.log(terms.sum(1) if axes is not None else terms.sum()).astype(dtype)
        np.testing.assert_array_equal(result, expected, strict=True)
    (result,) = interpreted(Node(op, {"x": x, "axes": np.array([1])}, {"keepdims": 1}))  # axes are data
    np.testing.assert_array_equal(result, np.log(terms.sum(1, keepdims=True)).astype(dtype), strict=True)


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_a_count_may_be_of_a_constant_that_is_computed(op: str) -> None:
    """Its number of results is a size that data decide, though nothing that a run brings decides it."""
    constant = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 1.0]], np.float32)
    nodes = [helper.make_node("Neg", ["c"], ["v"]), helper.make_node(op, ["v"], ["y"])]
    y = helper.make_tensor_value_info("y", 7 if op == "NonZero" else 1, None)
    graph = helper.make_graph(nodes, "counted", [], [y], [numpy_helper.from_array(constant, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    expected = np.argwhere(constant).T if op == "NonZero" else np.unique(-constant)
    np.testing.assert_array_equal(tvm.build(model)(), expected)


@given(
    st.sampled_from(["uint8", "int8", "int32"]),
    st.sampled_from(["linear", "cubic"]),
    st.tuples(*[st.integers(1, 9)] * 4),
    st.integers(0, 127),
    st.booleans(),
)
def test_between_equal_integers_there_is_that_integer(
    dtype: str, mode: str, sizes: tuple[int, ...], value: int, opened: bool
) -> None:
    x = np.full((1, 1, *sizes[:2]), -value if dtype[0] == "i" else 2 * value, dtype)
    inputs = {"x": x, "roi": None, "scales": None, "sizes": np.array([1, 1, *sizes[2:]])}
    node = Node("Resize", inputs, {"mode": mode}, known=["sizes"])
    graph = tvm.lower(node.model({"x": [2, 3]} if opened else {}), stop_at="graph")
    expected = np.full((1, 1, *sizes[2:]), x.flat[0], dtype)
    np.testing.assert_array_equal(interpreter.run(graph, node.arrays)[0], expected, strict=True)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_between_equal_integers_there_is_that_integer_compiled(mode: str) -> None:
    """Each byte is an image of its own, one of 3 x 3 that becomes 11 x 13."""
    x = np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(1, 256, 1, 1), (1, 256, 3, 3)).copy()
    inputs = {"x": x, "roi": None, "scales": None, "sizes": np.array([1, 256, 11, 13])}
    result = tvm.build(Node("Resize", inputs, {"mode": mode}, known=["sizes"]).model())(x)
    np.testing.assert_array_equal(result, np.broadcast_to(x[:, :, :1, :1], (1, 256, 11, 13)))


def test_no_window_fits_into_a_smaller_image() -> None:
    attrs = {"kernel_shape": [4, 3], "strides": [2, 1], "dilations": [1, 2]}
    node = Node("MaxPool", {"x": np.zeros((1, 2, 3, 9), np.float32)}, attrs)
    assert interpreted(node, x=[2, 3])[0].shape == (1, 2, 0, 5)
