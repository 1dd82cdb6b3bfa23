"""Wrong: every level adds the neighbour, so one value comes twice and others never."""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    tree: list[Level] = []
    step = 1
    while step < n:
        tree.append([(to, to + 1) for to in range(0, n - step, 2 * step)])
        step *= 2
    return tree
