"""Exercise 09: which rows are new, and how large is the ring?

`windows` has, for each step of a loop, the rows of H that the step reads, as ranges such as range(4, 8). The windows
move in one direction: neither their start nor their stop ever decreases. No window is empty. Write

    fresh(windows) -> list of ranges     for each step, the rows of its window that were in no window of an earlier
                                         step: these are the rows that rolling_buffer computes. If there are none, the
                                         range is empty
    ring(windows) -> int                 the number of rows of the ring. Row r is stored at index r % ring. In each
                                         step, the new rows are stored first, from the first to the last, and then the
                                         step reads its whole window. Choose the smallest ring in which every step finds
                                         all rows of its window

    windows = [range(0, 3), range(1, 4), range(2, 5)]
    fresh(windows)   ->   [range(0, 3), range(3, 4), range(4, 5)]
    ring(windows)    ->   3
    fresh([range(0, 2), range(3, 6)])   ->   [range(0, 2), range(3, 6)]     no step reads row 2, so no step computes it

Check it with: minitvm lesson 09 --check
"""

from __future__ import annotations


def fresh(windows: list[range]) -> list[range]:
    """The new rows of each window."""
    raise NotImplementedError("fresh(windows) and ring(windows): the text at the top describes the task")


def ring(windows: list[range]) -> int:
    """The smallest number of rows of a ring in which each window stays whole."""
    raise NotImplementedError("fresh(windows) and ring(windows): the text at the top describes the task")
