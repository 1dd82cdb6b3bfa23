"""Wrong: takes the first tap to be 0."""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    first = step * tile
    last = min(first + tile, height) - 1
    return range(stride * first, stride * last + max(taps) + 1)


def fresh(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The rows of the window that no earlier step had."""
    window = needed(step, tile, height, stride, taps)
    if step == 0:
        return window
    before = needed(step - 1, tile, height, stride, taps)
    return range(max(window.start, before.stop), window.stop)
