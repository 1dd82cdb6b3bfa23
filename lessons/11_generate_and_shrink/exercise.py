"""Exercise 11: shrink a list of steps.

Write

    shrink(steps, fails) -> list

`steps` is a list of numbers; each is a step of a schedule. `fails(some)` replays a list of them and returns whether the
result is still wrong. It returns False if the result is right, and also if the list cannot be replayed: a step may need
an earlier step, or a later step that completes it, and that step may be missing.
`fails(steps)` is True; perhaps even the empty list fails.

Return some of the steps, in their original order, such that

    1. they still fail, and
    2. without any single one of them they do not.

A step may occur in the list several times, and perhaps not all of these are needed. Do not call `fails` more often than
once for each pair of steps, len(steps) ** 2 + len(steps) + 1 times: in practice each call runs two programs.

    steps = [4, 1, 5, 1]     and 5 is the culprit, but needs a 1 in front of it     ->   [1, 5]

Check it with: minitvm lesson 11 --check
"""

from __future__ import annotations

from collections.abc import Callable


def shrink(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A list that fails, of steps from which none can be left out."""
    raise NotImplementedError("shrink(steps, fails): the text at the top says what is wanted")
