"""Wrong: cuts the end off and then the beginning, and what is in the middle stays."""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A failing list of some of the steps, from which no step can be left out."""
    while steps and fails(steps[:-1]):
        steps = steps[:-1]
    while steps and fails(steps[1:]):
        steps = steps[1:]
    return steps
