"""Wrong: always keeps one step, though the empty list may fail."""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A failing list of some of the steps, from which no step can be left out."""
    position = 0
    while position < len(steps) and len(steps) > 1:
        without = steps[:position] + steps[position + 1 :]
        if fails(without):
            steps, position = without, 0
        else:
            position += 1
    return steps
