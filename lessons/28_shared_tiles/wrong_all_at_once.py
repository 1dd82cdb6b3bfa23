"""Wrong: all threads of the warp are one group, however wide they read."""

from __future__ import annotations

from collections import Counter

Place = tuple[int, int]
Access = tuple[int, list[Place]]


def steps(line: int, wide: int, places: list[Place]) -> int:
    """The number of steps of all reads from a tile whose lines are `line` elements apart."""
    groups = [places]
    needed = 0
    for group in groups:
        elements = {row * line + column + k for row, column in group for k in range(wide)}
        banks = Counter(element % 32 for element in elements)
        needed += max(banks.values())
    return needed


def shortest_line(width: int, accesses: list[Access]) -> int:
    """The shortest length of at least `width` with the fewest steps."""
    each = max((wide for wide, _ in accesses), default=1)
    lengths = [length for length in range(width, width + 32) if length % each == 0]
    return min(lengths, key=lambda length: sum(steps(length, wide, places) for wide, places in accesses))
