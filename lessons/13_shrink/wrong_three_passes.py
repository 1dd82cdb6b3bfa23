"""Wrong: goes through the list three times at most."""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    for _ in range(3):
        position = 0
        before = len(steps)
        while position < len(steps):
            without = steps[:position] + steps[position + 1 :]
            if fails(without):
                steps = without
            else:
                position += 1
        if len(steps) == before:
            break
    return steps
