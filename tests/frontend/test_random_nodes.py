"""Random ONNX nodes: importer, graph interpreter and tensor expressions beside ONNX's own evaluator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from .random_nodes import OPERATORS, Node, difference, nodes, open_difference, random_node

SEEDS = 15  # of each family of operators, in `make test`


@pytest.mark.parametrize("family", OPERATORS)
def test_random_nodes_mean_what_onnx_says(family: str) -> None:
    for seed in range(SEEDS):
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
    for seed in range(SEEDS, 1000):
        assert difference(random_node(family, seed)) == ""


@given(nodes(("reduce", "arg", "pool", "slice")))
@settings(max_examples=100)
def test_axes_windows_and_steps_of_all_kinds(node: Node) -> None:
    assert difference(node) == ""
