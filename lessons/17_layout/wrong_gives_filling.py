"""Wrong: names channels that the array does not have."""

from __future__ import annotations


def offset(shape: tuple[int, int, int], block: int, c: int, h: int, w: int) -> int:
    """The position of an element in memory."""
    _, rows, columns = shape
    return ((c // block * rows + h) * columns + w) * block + c % block


def element(shape: tuple[int, int, int], block: int, place: int) -> tuple[int, int, int] | None:
    """The element at a position, or None for padding."""
    _, rows, columns = shape
    rest, inside = divmod(place, block)
    rest, w = divmod(rest, columns)
    number, h = divmod(rest, rows)
    c = number * block + inside
    return (c, h, w)
