"""Exercise 13: shrink a list of steps.

Write

    shrink(steps, fails) -> list

`steps` is a list of numbers, and each number is a step of a schedule. `fails(some)` replays the steps in the list
`some` and returns True if the result is wrong. It returns False if the result is right. It also returns False if the
list cannot be replayed, because a step may need an earlier step, or a later step that completes it, and that step may
be missing. `fails(steps)` is True. Perhaps even the empty list fails.

Return some of the steps, in their original order, such that

    1. they still fail, and
    2. they no longer fail if you leave out any single one of them.

The same number may occur in the list several times, and perhaps not every occurrence is needed. Do not call `fails`
more than len(steps) ** 2 + len(steps) + 1 times, because in practice each call runs two programs.

    steps = [4, 1, 5, 1]     if 5 is the culprit, but needs a 1 before it     ->   [1, 5]

Check it with: minitvm lesson 13 --check
"""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A failing list of some of the steps, from which no step can be left out."""
    raise NotImplementedError("shrink(steps, fails): the text at the top describes the task")
