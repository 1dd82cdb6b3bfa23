"""Exercise 08: which rows are needed, and which of them are new?

A producer makes rows of H. A consumer makes `height` rows of Y, and row y of Y reads the rows

    stride * y + tap     for each tap in `taps`

of H. For example, the smoothing of the lesson has the stride 1 and the taps (0, 1, 2). Y is computed in tiles of `tile`
rows: step 0 computes the first `tile` rows, step 1 computes the next `tile` rows, and the last step computes the rows
that are left, which may be fewer. Write

    needed(step, tile, height, stride, taps) -> range     the window: all rows of H from the first to the last row that
                                                          this step reads, even rows in between that it does not read
    fresh(step, tile, height, stride, taps) -> range      the rows of this window that were in no window of an earlier
                                                          step: these are the rows that rolling_buffer computes

    needed(1, 4, 6, 1, (0, 1, 2))  ->  range(4, 8)     the last step makes rows 4 and 5 of Y
    fresh(1, 4, 6, 1, (0, 1, 2))   ->  range(6, 8)     rows 4 and 5 of H were in the window of step 0

The taps are distinct and not negative, in any order; the smallest need not be 0. A tile is not higher than Y, and no
step is empty.

Check it with: minitvm lesson 08 --check
"""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    raise NotImplementedError("needed(...) and fresh(...): the text at the top describes the task")


def fresh(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The rows of the window that no earlier step had."""
    raise NotImplementedError("needed(...) and fresh(...): the text at the top describes the task")
