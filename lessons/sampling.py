"""Examples of a Hypothesis strategy, a search for one that fails, and a bug to search for. Each run draws the same.

programs = some(prim_funcs(), 20)
with off_by_one():
    pair, tried = search(scheduled(), differs, Phase.generate, Phase.shrink)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import hypothesis
from hypothesis import strategies as st

from minitvm.tir.nodes import Stmt
from minitvm.tir.schedule.primitives import loops

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


@contextmanager
def off_by_one() -> Iterator[None]:
    """A bug in `split`: its condition lets one iteration too many through."""
    right = loops.guard

    def wrong(body: Stmt, condition: Any) -> Stmt:
        return right(body, condition.a <= condition.b)

    loops.guard = wrong
    try:
        yield
    finally:
        loops.guard = right
