"""Random graphs of values of many dtypes and small sizes, zero among them, beside ONNX Runtime node by node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: it evaluates each node that is drawn")

from .mixed_graphs import BAD, judge_seed, seeded


def test_a_seed_gives_one_graph() -> None:
    assert seeded(3).model().SerializeToString() == seeded(3).model().SerializeToString()


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_interpreted(first: int) -> None:
    judged = [(seed, judge_seed(seed, compiled=False)) for seed in range(first, first + 20)]
    assert [(seed, j.text) for seed, j in judged if j.verdict in BAD] == []
    assert sum(j.verdict == "right" for _, j in judged) > 14


@given(seed=st.integers(1000, 2**32))
@settings(max_examples=max(2, settings().max_examples // 30))
def test_compiled(seed: int) -> None:
    judgement = judge_seed(seed)
    assert judgement.verdict not in BAD, judgement.text


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_many_compiled(first: int) -> None:
    judged = [(seed, judge_seed(seed)) for seed in range(first, first + 20)]
    assert [(seed, j.text) for seed, j in judged if j.verdict in BAD] == []
