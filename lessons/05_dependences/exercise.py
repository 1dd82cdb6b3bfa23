"""Exercise 05: which orders of the loops are legal?

A block is inside three loops: i is the outermost, then comes j, then k. The block reads one element of A and writes one
element of A:

    A[i + written[0], j + written[1], k + written[2]] = A[i + read[0], j + read[1], k + read[2]] + 1

Nothing else touches A while the loops run, and the number of iterations of each loop is larger than all of these
numbers. Write

    keeps(written, read, order) -> bool

`written` and `read` are tuples of three ints, which may be negative. `order` is the new order of the loops, outermost
first, where 0 means i, 1 means j and 2 means k. For example, (0, 1, 2) leaves the loops as they are, and (0, 2, 1)
exchanges j and k. Return True if the loops in that order compute the same A as before for every A at the start, and
False otherwise.

    keeps((1, 0, 0), (0, 1, 0), (1, 0, 2))   ->   False    what was written at (0, 1, k) is read at (1, 0, k)
    keeps((1, 1, 0), (0, 0, 0), (1, 0, 2))   ->   True

Check it with: minitvm lesson 05 --check
"""

from __future__ import annotations


def keeps(written: tuple[int, ...], read: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether loops nested in `order` compute the same A as loops nested in the order (0, 1, 2)."""
    raise NotImplementedError("keeps(written, read, order): the text at the top describes the task")
