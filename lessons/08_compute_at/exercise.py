"""Exercise 08: which rows does a tile need, and how much work are all tiles?

A producer makes rows of H. A consumer makes `height` rows of Y, and row y of Y reads the rows

    stride * y + tap     for each tap in `taps`

of H. For example, the smoothing of the lesson has the stride 1 and the taps (0, 1, 2). Y is computed in tiles of `tile`
rows: step 0 computes the first `tile` rows, step 1 computes the next `tile` rows, and the last step computes the rows
that are left, which may be fewer. Each step first computes its window of H. Write

    needed(step, tile, height, stride, taps) -> range     the window: all rows of H from the first to the last row that
                                                          this step reads, even rows in between that it does not read
    work(tile, height, stride, taps) -> int               the number of rows of H that all steps compute together; a row
                                                          that is in several windows counts several times

    needed(1, 4, 6, 1, (0, 1, 2))  ->  range(4, 8)     the last step makes rows 4 and 5 of Y
    work(4, 6, 1, (0, 1, 2))       ->  10              step 0 computes the rows 0 to 5 of H, step 1 the rows 4 to 7

The taps are distinct and not negative, in any order; the smallest need not be 0. A tile is not higher than Y, and no
step is empty.

Check it with: minitvm lesson 08 --check
"""

from __future__ import annotations


def needed(step: int, tile: int, height: int, stride: int, taps: tuple[int, ...]) -> range:
    """The window of rows of H for one tile of Y."""
    raise NotImplementedError("needed(...) and work(...): the text at the top describes the task")


def work(tile: int, height: int, stride: int, taps: tuple[int, ...]) -> int:
    """The number of rows of H that all steps compute together."""
    raise NotImplementedError("needed(...) and work(...): the text at the top describes the task")
