"""Random ONNX nodes: importer, graph interpreter and tensor expressions beside ONNX's own evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .random_nodes import OPERATORS, Node, Seeded, difference, nodes, open_difference, random_node

# How many nodes of each family of operators `make test` draws: fewer of those whose loops take long to interpret.
SEEDS, FEWER_SEEDS = 24, 9
LONG = ("roi_align", "det", "recurrent", "max_pool_with_places", "deform_conv", "inverse_dft", "dft", "topk", "stft",
        "max_unpool", "scan")  # fmt: skip


@pytest.mark.parametrize("family", OPERATORS)
def test_random_nodes_mean_what_onnx_says(family: str) -> None:
    for seed in range(FEWER_SEEDS if family in LONG else SEEDS):
        assert difference(random_node(family, seed)) == ""


@pytest.mark.parametrize("family", OPERATORS)
def test_random_nodes_of_open_sizes_mean_the_same(family: str) -> None:
    found = [open_difference(random_node(family, seed), seed) for seed in range(6)]
    assert [text for text in found if text] == []
    assert "" in found  # not all are refused


@pytest.mark.full
@pytest.mark.parametrize("family", OPERATORS)
def test_many_random_nodes_of_open_sizes_mean_the_same(family: str) -> None:
    for seed in range(6, 200):
        assert not open_difference(random_node(family, seed), seed)


@pytest.mark.full
@pytest.mark.parametrize("family", OPERATORS)
def test_many_random_nodes_mean_what_onnx_says(family: str) -> None:
    for seed in range(FEWER_SEEDS, 1000):
        assert difference(random_node(family, seed)) == ""


@given(nodes(("reduce", "arg", "pool", "slice")))
@settings(max_examples=100)
def test_axes_windows_and_steps_of_all_kinds(node: Node) -> None:
    assert difference(node) == ""


def test_resize_aligns_corners_by_the_size_of_the_result() -> None:
    """3 pixels by 1.5 are 4 whole ones, and the last of them is the last: ONNX's text, and ONNX Runtime.

    ONNX's evaluator takes the 4.5 that the scale gives for the length, which moves the last pixel to 3 * 2 / 3.5.
    """
    attrs = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "align_corners"}
    x, scales = np.arange(12, dtype=np.float32).reshape(1, 1, 4, 3), np.array([1, 1, 0.75, 1.5], np.float32)
    inputs = {"x": x, "roi": None, "scales": scales}
    node = Seeded(0).node("Resize", inputs, attrs, known=("roi", "scales"))
    graph = from_onnx(node.model())
    (found,) = interpreter.run(graph, node.arrays)
    np.testing.assert_array_equal(found, x[:, :, [0, 1, 3]][..., [0, 0, 1, 2]])
