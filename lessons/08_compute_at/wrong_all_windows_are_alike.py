"""Wrong: counts the window of the last, shorter tile like the others."""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    first = step * tile
    last = min(first + tile, height) - 1
    return range(stride * first + min(taps), stride * last + max(taps) + 1)


def work(tile: int, height: int, stride: int, taps: tuple[int, ...]) -> int:
    """The number of rows of H that all steps compute together."""
    return -(-height // tile) * len(needed(0, tile, height, stride, taps))
