"""Wrong: the halves are added, so that values are not combined in their order."""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    tree: list[Level] = []
    while n > 1:
        half = (n + 1) // 2
        tree.append([(to, to + half) for to in range(n - half)])
        n = half
    return tree
