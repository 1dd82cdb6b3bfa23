"""Every operator over its space of attributes: the graph's interpreter, its tensor expression and its fold agree."""

from __future__ import annotations

import pytest

from .random_calls import FAMILIES, random_call
from .runs import difference


@pytest.mark.parametrize("family", FAMILIES)
def test_random_calls_mean_the_same_to_all(family: str) -> None:
    for seed in range(100):
        assert difference(random_call(family, seed)) == ""


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_many_random_calls_mean_the_same_to_all(family: str) -> None:
    for seed in range(100, 2000):
        assert difference(random_call(family, seed)) == ""
