"""Random ONNX graphs with open dimensions: one import, five sizes, beside ONNX Runtime and the graph interpreter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.drawing import Seeded

from .open_graphs import MOVES, OpenGraph, difference, grown, open_graphs, seeded

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: it says what a graph means at each size")


@pytest.mark.parametrize("move", MOVES)
def test_each_move_alone(move: str) -> None:
    assert difference(grown(Seeded(7), [move], most=2)) == ""


@given(graph=open_graphs())
@settings(max_examples=settings().max_examples // 10)  # each is imported, optimised, and run at five sizes
def test_random_graphs(graph: OpenGraph) -> None:
    assert difference(graph) == ""


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_compiled_graphs(seed: int) -> None:
    """One build for all sizes."""
    assert difference(seeded(seed), compiled=True) == ""
