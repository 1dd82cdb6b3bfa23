"""Wrong: takes each window to have one new row."""

from __future__ import annotations


def fresh(windows: list[range]) -> list[range]:
    """The new rows of each window."""
    return [windows[0], *(range(window.stop - 1, window.stop) for window in windows[1:])]


def ring(windows: list[range]) -> int:
    """The smallest number of rows of a ring in which each window stays whole."""
    return max(map(len, windows))
