"""Wrong: takes the first tap to be 0."""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    first = step * tile
    last = min(first + tile, height) - 1
    return range(stride * first, stride * last + max(taps) + 1)


def work(tile: int, height: int, stride: int, taps: tuple[int, ...]) -> int:
    """The number of rows of H that all steps compute together."""
    return sum(len(needed(step, tile, height, stride, taps)) for step in range(-(-height // tile)))
