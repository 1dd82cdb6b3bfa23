"""Random ONNX nodes: importer, graph interpreter and tensor expressions beside ONNX's own evaluator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from .random_nodes import OPERATORS, Node, difference, nodes, random_node


@pytest.mark.parametrize("family", OPERATORS)
def test_random_nodes_mean_what_onnx_says(family: str) -> None:
    for seed in range(40):
        assert difference(random_node(family, seed)) == ""


@pytest.mark.full
@pytest.mark.parametrize("family", OPERATORS)
def test_many_random_nodes_mean_what_onnx_says(family: str) -> None:
    for seed in range(40, 1000):
        assert difference(random_node(family, seed)) == ""


@given(nodes(("reduce", "arg", "pool", "slice")))
@settings(max_examples=100)
def test_axes_windows_and_steps_of_all_kinds(node: Node) -> None:
    assert difference(node) == ""
