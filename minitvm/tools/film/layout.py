"""Where buffers and lines of the program are on the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError
from .canvas import LETTER, LINE, TICK
from .recording import Line

SIDE = 32  # squares of a buffer, across and down, at most
MOST_BUFFERS, MOST_LINES, MOST_TICKS = 12, 18, 16
MARGIN, GAP = 12, 16  # pixels
WIDEST = 56  # letters of a line


@dataclass
class Panel:
    """A buffer as a grid of rows and columns; a square is a tile of `down` x `across` elements."""

    name: str
    shape: tuple[int, ...]
    rows: int
    columns: int
    width: int  # elements of a row
    down: int
    across: int
    x: int = 0
    y: int = 0

    @staticmethod
    def of(name: str, shape: tuple[int, ...], size: int) -> Panel:
        """The grid of a buffer: the last dimension goes to the right, all others go down."""
        if math.prod(shape) < size:  # what is known of the shape does not hold all that was touched
            inner = math.prod(shape[1:])
            shape = (-(-size // inner), *shape[1:]) if len(shape) > 1 and inner else (size,)
        width = shape[-1] if shape else 1
        if len(shape) == 1 and width > SIDE:  # a long row is wrapped
            width = next((w for w in (32, 24, 20, 16) if shape[0] % w == 0), 32)
        height = -(-math.prod(shape) // max(1, width))
        down, across = -(-height // SIDE) or 1, -(-width // SIDE) or 1
        return Panel(name, shape, -(-height // down), -(-width // across), max(1, width), down, across)

    def square(self, offset: int) -> tuple[int, int]:
        """The column and the row of an element."""
        row, column = divmod(offset, self.width)
        return self.x + column // self.across, self.y + row // self.down

    @property
    def elements(self) -> int:
        """The elements of the grid."""
        return max(1, math.prod(self.shape))

    @property
    def label(self) -> str:
        """The name, the shape, and what a square is where it is more than an element."""
        text = f"{self.name}  {' x '.join(map(str, self.shape)) or 'one number'}"
        if self.down > 1 or self.across > 1:
            text += f", a square is {self.down} x {self.across}"
        return text


@dataclass(frozen=True)
class Sheet:
    """The places of all parts, in pixels but for the panels, whose places are in squares of `unit` pixels."""

    width: int
    height: int
    unit: float
    panels: Mapping[str, Panel]
    lines: Sequence[tuple[Line, str]]  # those that are drawn, each with its text
    number: Mapping[int, int]  # the position of a line on the sheet, by its identity
    ticks: int  # the column where the squares behind the loops begin
    below: int  # where the grids end


def sheet(name: str, lines: Sequence[tuple[Line, str]], panels: Sequence[Panel], warnings: int, legend: int) -> Sheet:
    """Place the program on top, and the buffers below it from left to right."""
    if len(panels) > MOST_BUFFERS:
        names = ", ".join(panel.name for panel in panels)
        raise InputError(
            f"the film of {name} has too many buffers\n  wanted: at most {MOST_BUFFERS}\n"
            f"  found:  {len(panels)}: {names}\n  try:    buffers=[...] with those that you want to see"
        )
    drawn = [(line, _cut("  " * line.depth + text)) for line, text in lines]
    if len(drawn) > MOST_LINES:
        drawn = [(line, text) for line, text in drawn if line.loop is not None][:MOST_LINES]
    loops = [len(text) for line, text in drawn if line.loop is not None]
    ticks = math.ceil((MARGIN + TICK + max(loops, default=0) * LETTER + 10) / TICK)
    widths = [MARGIN + TICK + 5 + len(text) * LETTER for _, text in drawn]
    widths += [(ticks + tick_count(line)) * TICK for line, _ in drawn if line.loop is not None]
    inner = max([420, legend, *map(math.ceil, widths)])
    top = 34 + len(drawn) * LINE
    unit, height = _placed(panels, inner, top)
    inner = max([inner, *(math.ceil((p.x + p.columns) * unit) for p in panels)])
    number = {id(line): k for k, (line, _) in enumerate(drawn)}
    return Sheet(
        inner + MARGIN,
        height + 66 + warnings * LINE + (6 if warnings else 0),
        unit,
        {p.name: p for p in panels},
        drawn,
        number,
        ticks,
        height + 14,
    )


def tick_count(line: Line) -> int:
    """The squares behind a loop: one for each iteration, or for several."""
    return 0 if line.loop is None else max(1, min(MOST_TICKS, line.loop.extent))


def tick(line: Line, value: int) -> int:
    """The square of an iteration."""
    if line.loop is None or line.loop.extent <= MOST_TICKS:
        return value - (line.loop.start if line.loop is not None else 0)
    return (value - line.loop.start) * MOST_TICKS // line.loop.extent


def _placed(panels: Sequence[Panel], width: int, top: int) -> tuple[float, int]:
    """Put panels into rows as wide as the sheet, with squares as large as fit; returns their side and the bottom."""
    for unit in (24, 20, 16, 14):
        columns = (width - MARGIN) / unit
        if sum(max(p.columns, _label(p, unit)) + 1 for p in panels) - 1 <= columns and max(
            [0, *(p.rows for p in panels)]
        ) * unit <= 320:  # fmt: skip
            break
    unit = unit if panels else 16
    first = -(-MARGIN // unit) or 1
    x, y, tallest = first, math.ceil((top + 18) / unit + 0.5), 0
    for panel in panels:
        wide = max(panel.columns, _label(panel, unit))
        if x > first and (x + wide) * unit > max(width, 32 * unit):
            x, y, tallest = first, y + tallest + math.ceil(30 / unit), 0
        panel.x, panel.y = x, y
        x, tallest = x + wide + 1, max(tallest, panel.rows)
    return unit, math.ceil((y + tallest - 0.5) * unit)


def _label(panel: Panel, unit: float) -> int:
    return math.ceil(len(panel.label) * LETTER / unit)


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
