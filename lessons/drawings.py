"""Pictures that several lessons draw: grids of cells, matrices with a marked part, curves, bars, and trees.

print("the picture:", cells([["0", "1"], ["2", "3"]], title="places").save("places"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from .picture import Picture

PALE, LIGHT, BLUE, DARK, ORANGE, GREY = "#f4f6f8", "#c6dbef", "#6baed6", "#2171b5", "#fdae6b", "#d9d9d9"
SERIES = ("#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99", "#ffff99", "#1f78b4", "#33a02c")
STRONG = ("#d95f02", "#1b9e77", "#1f78b4", "#7570b3", "#08306b", "#e7298a")
Node = TypeVar("Node")


def shade(share: float) -> str:
    """A blue from nearly white (0) to dark (1)."""
    low, high = (239, 243, 255), (66, 133, 198)
    return "#" + "".join(f"{round(a + (b - a) * min(1.0, max(0.0, share))):02x}" for a, b in zip(low, high))


def cells(
    rows: Sequence[Sequence[str]],
    colours: Sequence[Sequence[str]] | None = None,
    title: str = "",
    names: Sequence[str] = (),
    size: int = 30,
) -> Picture:
    """Rows of boxes with a text in each. `colours` has a colour for each box ("": no box); `names` are at the left."""
    left = 20 + max((8 * len(name) for name in names), default=0) + 10 * bool(names)
    width = left + size * max(map(len, rows)) + 20
    picture = Picture(max(width, 40 + 8 * len(title)), 50 + (size + 4) * len(rows))
    picture.words(20, 26, title, 14)
    for down, row in enumerate(rows):
        y = 42 + (size + 4) * down
        if names:
            picture.words(20, y + size * 0.64, names[down], 12)
        for across, text in enumerate(row):
            colour = colours[down][across] if colours else LIGHT
            if colour:
                picture.box(left + size * across, y, size - 1, size - 1, colour, "#999999")
                picture.words(left + size * (across + 0.48), y + size * 0.62, text, min(12, size // 2), "middle")
    return picture


def matrices(
    shapes: Mapping[str, tuple[int, int]],
    colour: Callable[[str, int, int], str],
    text: Callable[[str, int, int], str] = lambda name, row, column: "",
    title: str = "",
    size: int = 18,
) -> Picture:
    """Matrices next to each other, by name and shape; `colour` and `text` say how an element of one is drawn."""
    width = sum(size * columns + 30 for _, columns in shapes.values()) + 10
    picture = Picture(max(width, 40 + 8 * len(title)), 80 + size * max(rows for rows, _ in shapes.values()))
    picture.words(20, 26, title, 14)
    left = 20
    for name, (rows, columns) in shapes.items():
        picture.words(left, 52, name, 13)
        for row in range(rows):
            for column in range(columns):
                x, y = left + size * column, 60 + size * row
                picture.box(x, y, size, size, colour(name, row, column), "#999999")
                if words := text(name, row, column):
                    picture.words(x + size / 2, y + size * 0.68, words, min(12, size // 2 + 2), "middle")
        left += size * columns + 30
    return picture


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    across: Mapping[float, str],
    up: Mapping[float, str],
    title: str = "",
    below: str = "",
) -> Picture:
    """Lines, with their names at the right. Points and marks are shares of an axis, from 0 to 1."""
    wide, high = 450, 300
    picture = Picture(wide + 220, high + 110)
    picture.words(20, 26, title, 13)
    for share, mark in across.items():
        picture.line([(60 + wide * share, 50), (60 + wide * share, 50 + high)], "#eeeeee", 1)
        picture.words(60 + wide * share, 68 + high, mark, 11, "middle")
    for share, mark in up.items():
        picture.line([(60, 50 + high * (1 - share)), (60 + wide, 50 + high * (1 - share))], "#eeeeee", 1)
        picture.words(54, 54 + high * (1 - share), mark, 11, "end")
    picture.words(60 + wide / 2, 90 + high, below, 12, "middle")
    for row, (name, points) in enumerate(lines.items()):
        picture.line([(60 + wide * x, 50 + high * (1 - y)) for x, y in points], STRONG[row])
        picture.box(wide + 80, 52 + 24 * row, 16, 10, STRONG[row])
        picture.words(wide + 104, 62 + 24 * row, name, 13)
    return picture


def bars(
    values: Mapping[str, float], title: str = "", unit: str = "", colours: Sequence[str] = (), digits: int = 4
) -> Picture:
    """A bar for each value, with its name at the left and its number at the right."""
    left = 30 + 7 * max(map(len, values))
    picture = Picture(max(left + 420, 40 + 8 * len(title)), 50 + 24 * len(values))
    picture.words(20, 26, title, 14)
    largest = max(map(abs, values.values()))
    for row, (name, value) in enumerate(values.items()):
        y = 42 + 24 * row
        length = 300 * abs(value) / largest
        picture.words(20, y + 14, name, 12)
        picture.box(left, y, 300, 18, PALE)
        picture.box(left, y, length, 18, colours[row] if colours else BLUE)
        picture.words(left + 308, y + 14, f"{value:,.{digits}g} {unit}".rstrip(), 12)
    return picture


def trees(
    roots: Mapping[str, Node], children: Callable[[Node], Sequence[Node]], label: Callable[[Node], str], title: str = ""
) -> Picture:
    """Trees next to each other, each below its name: an operator above its operands."""

    def width(node: Node) -> int:
        return sum(map(width, children(node))) or 1

    def depth(node: Node) -> int:
        return 1 + max(map(depth, children(node)), default=0)

    unit = 64
    total = sum(unit * width(root) + 30 for root in roots.values())
    picture = Picture(max(total + 20, 40 + 8 * len(title)), 80 + 56 * max(map(depth, roots.values())))
    picture.words(20, 26, title, 14)

    def draw(node: Node, left: float, top: float) -> float:
        middle = left + unit * width(node) / 2
        at = left
        for child in children(node):
            picture.line([(middle, top + 12), (draw(child, at, top + 56), top + 44)], "#999999", 1.5)
            at += unit * width(child)
        picture.box(middle - 27, top - 12, 54, 24, ORANGE if children(node) else LIGHT, "#999999")
        picture.words(middle, top + 4, label(node), 11, "middle")
        return middle

    left = 20.0
    for name, root in roots.items():
        picture.words(left + unit * width(root) / 2, 52, name, 13, "middle")
        draw(root, left, 80)
        left += unit * width(root) + 30
    return picture
