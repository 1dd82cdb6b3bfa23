"""Wrong: leaves out all steps that are alike, and keeps them where one of them is needed."""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A failing list of some of the steps, from which no step can be left out."""
    position = 0
    while position < len(steps):
        without = [step for step in steps if step != steps[position]]
        if fails(without):
            steps, position = without, 0
        else:
            position += 1
    return steps
