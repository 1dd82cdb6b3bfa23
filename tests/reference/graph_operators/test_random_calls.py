"""Every operator over its space of attributes: the graph's interpreter, its tensor expression and its fold agree."""

from __future__ import annotations

import pytest

from .random_calls import FAMILIES, random_call
from .runs import difference

# Loops over time or places, and those whose length is data, take the interpreters ten times as long as other calls.
SEEDS = 24
FEWER = {"recurrent": 6, "caches": 9, "counted": 9, "sort": 12}


@pytest.mark.parametrize("family", FAMILIES)
def test_random_calls_mean_the_same_to_all(family: str) -> None:
    for seed in range(FEWER.get(family, SEEDS)):
        assert difference(random_call(family, seed)) == ""


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_many_random_calls_mean_the_same_to_all(family: str) -> None:
    for seed in range(FEWER.get(family, SEEDS), 400 if family in FEWER else 2000):
        assert difference(random_call(family, seed)) == ""
