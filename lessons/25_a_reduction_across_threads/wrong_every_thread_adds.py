"""Wrong: all threads add, also to what another one reads."""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    tree: list[Level] = []
    step = 1
    while step < n:
        tree.append([(to, to + step) for to in range(n - step)])
        step *= 2
    return tree
