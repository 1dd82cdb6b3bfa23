"""Wrong: makes blocks, but leaves the inside of a block before the pixels."""

from __future__ import annotations


def offset(shape: tuple[int, int, int], block: int, c: int, h: int, w: int) -> int:
    """The position of an element in memory."""
    _, rows, columns = shape
    return (c * rows + h) * columns + w


def element(shape: tuple[int, int, int], block: int, place: int) -> tuple[int, int, int] | None:
    """The element at a position, or None for padding."""
    channels, rows, columns = shape
    rest, inside = divmod(place, block)
    rest, w = divmod(rest, columns)
    number, h = divmod(rest, rows)
    c = number * block + inside
    return (c, h, w) if c < channels else None
