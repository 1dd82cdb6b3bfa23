"""Exercise 15: where an element stands, and which element stands there.

An array of `shape` = (C, H, W), channels, rows and columns, lies in memory in blocks of `block` channels, from 1 to C:
the axes are (number of the block, row, column, channel in its block), the last one innermost. Where `block` does not
divide C, the last block is filled up, and what stands there is no element of the array. Write

    offset(shape, block, c, h, w) -> int

the place in memory of element (c, h, w), in elements from the beginning, and its inverse

    element(shape, block, place) -> (c, h, w), or None where the place is filling

for all places from 0 up to the end of the last block.

    offset((3, 2, 2), 2, 2, 1, 0)   ->   12      channel 0 of block 1: ((1 * 2 + 1) * 2 + 0) * 2 + 0
    element((3, 2, 2), 2, 12)       ->   (2, 1, 0)
    element((3, 2, 2), 2, 13)       ->   None    it would be channel 3

Check it with: minitvm lesson 15 --check
"""

from __future__ import annotations


def offset(shape: tuple[int, int, int], block: int, c: int, h: int, w: int) -> int:
    """The place of an element."""
    raise NotImplementedError("offset(shape, block, c, h, w): the text at the top says what is wanted")


def element(shape: tuple[int, int, int], block: int, place: int) -> tuple[int, int, int] | None:
    """The element in a place."""
    raise NotImplementedError("element(shape, block, place): the text at the top says what is wanted")
