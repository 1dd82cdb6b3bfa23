"""Bounds of numbers that a run computes hold at all sizes, and are close where they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.frontends.common.bounds import Computed
from minitvm.graph import GraphBuilder
from tests.drawing import Seeded

from .bounded_numbers import drawn_numbers


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_no_number_is_more_than_its_bound(seed: int) -> None:
    case = drawn_numbers(Seeded(seed))
    for run in range(2):
        assert case.difference(np.random.default_rng((seed, run))) == ""


def test_most_numbers_have_a_bound() -> None:
    assert sum(drawn_numbers(Seeded(seed)).most is not None for seed in range(100)) > 50


def test_durations_add_up() -> None:
    """The length of speech: a sum of n numbers from 1 to 8."""
    n, b = SizeVar("n"), GraphBuilder()
    x = b.input("x", (n,), "float32")
    ends = b.op("cumsum", b.op("cast", b.op("clip", b.op("round", x), a_min=1.0, a_max=8.0), dtype="int64"), axis=0)
    last = b.op("take", ends, np.array(-1), axis=0)
    computed = Computed(b.nodes, b.data)
    assert str(computed.most(last)) == "n * 8"
    assert computed.most(x) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_known_elements_of_a_shape(order: tuple[int, int]) -> None:
    n, b = SizeVar("n"), GraphBuilder()
    k = b.input("k", (1,), "int64")
    size = b.op("shape_to_tensor", values=(n, n + 1), shape=(2,), dtype="int64")
    second = b.op("strided_slice", size, begin=(1,), end=(2,), strides=(1,), axes=(0,))
    picked = b.op("take", b.op("concatenate", second, k, axis=0), np.array(order), axis=0)
    whole = b.op("expand_dims", picked, axis=(0,))
    found = Computed(b.nodes, b.data).elements(whole)
    assert [str(e) if not isinstance(e, tuple) else e for e in found] == [["n + 1", (k, 0)][o] for o in order]
