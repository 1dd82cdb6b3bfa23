"""Exercise 11: shrink a list of steps.

Write

    shrink(steps, fails) -> list

`steps` is a list of numbers, which stand for the steps of a schedule. `fails(some)` replays a list of them, and says
whether the result is still wrong. It is False where nothing is wrong, and also where the list cannot be replayed, since
a step stands in it that needs an earlier one, or a later one that finishes what it began, which is missing.
`fails(steps)` is True.

Return some of the steps, in the order in which they stood, such that

    1. they still fail, and
    2. without any single one of them they do not.

A step may stand in the list several times, and perhaps not all of these are needed. Do not call `fails` more often than
once for each pair of steps, len(steps) ** 2 + len(steps) + 1 times: in life each call runs two programs.

    steps = [4, 1, 5, 1]     and 5 is the culprit, but needs a 1 in front of it     ->   [1, 5]

Check it with: minitvm lesson 11 --check
"""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A list that fails, of steps from which none can be left out."""
    raise NotImplementedError("shrink(steps, fails) in exercise.py; its docstring says what is wanted")
