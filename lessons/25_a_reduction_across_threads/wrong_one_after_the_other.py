"""Wrong: the first thread adds up all the others, one a level."""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    return [[(0, source)] for source in range(1, n)]
