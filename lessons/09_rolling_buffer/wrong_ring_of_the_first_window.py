"""Wrong: takes the first window to be the largest."""

from __future__ import annotations


def fresh(windows: list[range]) -> list[range]:
    """The new rows of each window."""
    rows, end = [], windows[0].start
    for window in windows:
        rows.append(range(max(window.start, end), window.stop))
        end = window.stop
    return rows


def ring(windows: list[range]) -> int:
    """The smallest number of rows of a ring in which each window stays whole."""
    return len(windows[0])
