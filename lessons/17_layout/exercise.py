"""Exercise 17: the position of an element, and the element at a position.

An array has the `shape` (C, H, W): channels, rows and columns. It is stored in blocks of `block` channels, where
`block` is from 1 to C. In memory the axes are (number of the block, row, column, channel in the block), and the last
axis is the innermost. If `block` does not divide C, the last block has positions that belong to no element of the
array. These positions are called padding. Write

    offset(shape, block, c, h, w) -> int

It returns the position in memory of element (c, h, w), counted in elements from the beginning. Write also its inverse

    element(shape, block, place) -> (c, h, w), or None if the position is padding

for all positions from 0 to the end of the last block.

    offset((3, 2, 2), 2, 2, 1, 0)   ->   12      channel 0 of block 1: ((1 * 2 + 1) * 2 + 0) * 2 + 0
    element((3, 2, 2), 2, 12)       ->   (2, 1, 0)
    element((3, 2, 2), 2, 13)       ->   None    it would be channel 3

Check it with: minitvm lesson 17 --check
"""

from __future__ import annotations


def offset(shape: tuple[int, int, int], block: int, c: int, h: int, w: int) -> int:
    """The position of an element in memory."""
    raise NotImplementedError("offset(shape, block, c, h, w): the text at the top describes the task")


def element(shape: tuple[int, int, int], block: int, place: int) -> tuple[int, int, int] | None:
    """The element at a position, or None for padding."""
    raise NotImplementedError("element(shape, block, place): the text at the top describes the task")
