"""Wrong: an element without a neighbour in its level is lost."""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    tree: list[Level] = []
    step = 1
    while step < n:
        tree.append([(to, to + step) for to in range(0, n - 2 * step + 1, 2 * step)])
        step *= 2
    return tree
