"""Wrong: takes order[loop] for the loop's new place; for three loops in a ring that is another order."""

from __future__ import annotations


def keeps(written: tuple[int, ...], read: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether loops nested in `order` compute the same A as loops nested in the order (0, 1, 2)."""
    distance = [w - r for w, r in zip(written, read)]
    if distance < [0, 0, 0]:
        distance = [-d for d in distance]
    placed = [0, 0, 0]
    for loop, place in enumerate(order):
        placed[place] = distance[loop]
    return placed >= [0, 0, 0]
