"""Wrong: a window from its first to its last row holds one row more than their difference."""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    first = step * tile
    last = min(first + tile, height) - 1
    return range(stride * first + min(taps), stride * last + max(taps))


def work(tile: int, height: int, stride: int, taps: tuple[int, ...]) -> int:
    """The number of rows of H that all steps compute together."""
    return sum(len(needed(step, tile, height, stride, taps)) for step in range(-(-height // tile)))
