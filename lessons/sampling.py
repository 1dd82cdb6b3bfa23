"""Examples of a Hypothesis strategy, and a search for one that fails. Each run draws the same.

programs = some(prim_funcs(), 20)
pair, tried = search(scheduled(), differs, Phase.generate, Phase.shrink)
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import hypothesis
from hypothesis import strategies as st

Example = TypeVar("Example")
_QUIET = hypothesis.settings(
    database=None, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)


def some(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """The first examples of a strategy."""
    examples: list[Any] = []

    @hypothesis.settings(_QUIET, max_examples=count, phases=[hypothesis.Phase.generate])
    @hypothesis.given(strategy)
    def collect(drawn: Any) -> None:
        examples.append(drawn)

    collect()
    return examples


def search(
    strategy: st.SearchStrategy[Example], fails: Callable[[Example], bool], *phases: hypothesis.Phase
) -> tuple[Example | None, int]:
    """An example that fails, or None if none of 60 does, and the number of examples that were tried."""
    tried = 0

    def counted(drawn: Example) -> bool:
        nonlocal tried
        tried += 1
        return fails(drawn)

    try:
        settings = hypothesis.settings(_QUIET, derandomize=False, max_examples=60, phases=phases)
        return hypothesis.find(strategy, counted, settings=settings, random=random.Random(2)), tried
    except hypothesis.errors.NoSuchExample:
        return None, tried
