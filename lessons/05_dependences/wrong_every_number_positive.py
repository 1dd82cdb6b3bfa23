"""Wrong: safe, but refuses orders that are legal: a later number may be negative."""

from __future__ import annotations


def keeps(written: tuple[int, ...], read: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether loops nested in `order` compute the same A as loops nested in the order (0, 1, 2)."""
    distance = [w - r for w, r in zip(written, read)]
    if distance < [0, 0, 0]:
        distance = [-d for d in distance]
    return list(order) == [0, 1, 2] or min(distance) >= 0
