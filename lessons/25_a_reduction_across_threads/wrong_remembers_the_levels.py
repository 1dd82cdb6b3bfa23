"""Wrong: the levels of the call before are still in the list."""

from __future__ import annotations

Level = list[tuple[int, int]]

TREE: list[Level] = []


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    step = 1
    while step < n:
        TREE.append([(to, to + step) for to in range(0, n - step, 2 * step)])
        step *= 2
    return TREE
