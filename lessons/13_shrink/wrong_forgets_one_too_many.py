"""Wrong: returns the last list that it tried, not the last one that failed."""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A failing list of some of the steps, from which no step can be left out."""
    position, without = 0, steps
    while position < len(steps):
        without = steps[:position] + steps[position + 1 :]
        if fails(without):
            steps, position = without, 0
        else:
            position += 1
    return without
