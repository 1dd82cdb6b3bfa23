"""Random ONNX nodes: importer, graph interpreter and tensor expressions beside ONNX's own evaluator."""

from __future__ import annotations

from hypothesis import given, settings

from .random_nodes import Node, difference, nodes


@given(nodes())
@settings(max_examples=150)
def test_a_random_node_means_what_onnx_says(node: Node) -> None:
    assert difference(node) == ""


@given(nodes(("reduce", "arg", "pool", "slice")))
@settings(max_examples=100)
def test_axes_windows_and_steps_of_all_kinds(node: Node) -> None:
    assert difference(node) == ""
