"""Wrong: looks only at the first number of the distance in the new order."""

from __future__ import annotations


def keeps(written: tuple[int, ...], read: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether loops nested in `order` compute the same A as loops nested in the order (0, 1, 2)."""
    distance = [w - r for w, r in zip(written, read)]
    if distance < [0, 0, 0]:
        distance = [-d for d in distance]  # the reader comes first, and must stay first
    return distance[order[0]] >= 0
