"""Wrong: counts the rows that are computed, not how often."""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    first = step * tile
    last = min(first + tile, height) - 1
    return range(stride * first + min(taps), stride * last + max(taps) + 1)


def work(tile: int, height: int, stride: int, taps: tuple[int, ...]) -> int:
    """The number of rows of H that all steps compute together."""
    windows = [needed(step, tile, height, stride, taps) for step in range(-(-height // tile))]
    return len({row for window in windows for row in window})
