"""The picture of the house: the packages in layers, each above all that it may import. `make docs` writes house.svg.

It is drawn from the table of tests/test_architecture.py, to which every import is held. Two rows stand apart, without
lines: what everything stands on, and TVM's names for what is defined elsewhere. A line that follows from two others is
left out. The texts are the first lines of the packages' docstrings.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 150, 46, 14, 34, 24
LETTERS = 24  # of a text that a box holds
LEFT_OUT = ("", "__main__")  # the public names and the command: they may import everything
SIDE = "reference"  # the oracle stands apart: it reads definitions only
# Where each package stands from left to right, so that few lines run behind a box.
LANES = {
    "cli": 4.5, "interop": 3.4, "profile": 5.6, "build": 4.5, "link": 2.8, "lowering": 2.8, "frontend": 4.5,
    "models": 6.6, "graph": 5.6, "strategy": 5.6, "topi": 5.6, "gallery": 7.6, "te": 6.6, "codegen": 3.8,
    "runtime": 1.4, "tir": 5.2, "executable": 2.2, "arith": 5.2, "accel": 9.2,
    "tune": 6.7, "records": 4.0, "machines": 1.4,
}  # fmt: skip
TVMS_NAMES = ("ir", "nd", "script", "testing", "transform")


def packages(table: Mapping[str, str]) -> dict[str, set[str]]:
    """Each package with those that it may import, parts of packages counted as the whole."""
    names = [name for name in table if name not in LEFT_OUT and "." not in name]
    return {name: {part.split(".")[0] for part in table[name].split()} & set(names) - {name} for name in names}


def levels(below: Mapping[str, set[str]]) -> dict[str, int]:
    """How many packages stand under each, one above the other."""
    known: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in known:
            known[name] = 1 + max((level(other) for other in below[name]), default=-1)
        return known[name]

    return {name: level(name) for name in below}


def direct(below: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The pairs (above, below) that do not follow from others."""

    def reached(name: str) -> set[str]:
        return below[name].union(*map(reached, below[name]))

    return [
        (name, other)
        for name in below
        for other in sorted(below[name])
        if not any(other in reached(between) for between in below[name] - {other})
    ]


def purpose(name: str) -> str:
    """The first line of a package's docstring, up to its first stop."""
    base = ROOT / name if name == SIDE else ROOT / "minitvm" / name
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
    return text.split(". ")[0].rstrip(".:")


def places(below: Mapping[str, set[str]], foundation: Sequence[str]) -> dict[str, tuple[float, int]]:
    """(x of the centre, row from above) of each package."""
    rows: dict[int, list[str]] = {}
    for name, level in levels({name: others for name, others in below.items() if name != SIDE}).items():
        rows.setdefault(level, []).append(name)
    widest = len(foundation)
    centre = {name: LANES.get(name, widest / 2) for names in rows.values() for name in names}
    top = max(rows)
    bands = {name: (k + 0.5 + (widest - len(row)) / 2, top + line)
             for line, row in ((2, TVMS_NAMES), (3, foundation)) for k, name in enumerate(row)}  # fmt: skip
    towers = {name: (centre[name], top - level) for level, row in rows.items() for name in row}
    every = {**towers, **bands, SIDE: (widest - 0.6, 1)}
    return {name: (x * (WIDTH + GAP_X), row) for name, (x, row) in every.items()}


def picture(table: Mapping[str, str], foundation: Sequence[str]) -> str:
    """The SVG."""
    every = packages(table)
    apart = {*foundation, *TVMS_NAMES}
    below = {name: others - apart for name, others in every.items() if name not in apart}
    where = places(below, foundation)
    columns, rows = max(x for x, _ in where.values()), max(row for _, row in where.values()) + 1
    width, height = columns + WIDTH / 2 + 2 * MARGIN, rows * (HEIGHT + GAP_Y) + 2 * MARGIN

    def corner(name: str) -> tuple[float, float]:
        x, row = where[name]
        return MARGIN + x - WIDTH / 2, MARGIN + row * (HEIGHT + GAP_Y)

    lines, boxes = [], []
    for above, under in direct(below):
        (x1, y1), (x2, y2) = corner(above), corner(under)
        x1, y1, x2 = x1 + WIDTH / 2, y1 + HEIGHT, x2 + WIDTH / 2
        bend = (y2 - y1) / 2
        dash = ' stroke-dasharray="5 4"' if above == SIDE else ""
        path = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
        lines.append(f'<path d="{path}" fill="none" stroke="#9aa4b2" stroke-width="1.3"{dash}/>')
    for name in every:
        (x, y), text = corner(name), purpose(name)
        short = text if len(text) <= LETTERS else text[: LETTERS - 1].rstrip(" ,") + "…"
        fill = "#fff6e0" if name == SIDE else "#f1f1f1" if name in apart else "#eef4ff"
        boxes.append(
            f'<g><title>{escape(text)}</title><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            f'fill="{fill}" stroke="#5b6b82"/><text x="{x + WIDTH / 2:g}" y="{y + 19:g}" font-weight="bold" '
            f'font-size="14">{escape(name)}</text><text x="{x + WIDTH / 2:g}" y="{y + 36:g}" font-size="10" '
            f'fill="#4a5568">{escape(short)}</text></g>'
        )
    for row, text in ((TVMS_NAMES, "TVM's names for what is above"), (foundation, "what everything stands on")):
        x, y = corner(row[0])
        boxes.append(
            f'<text x="{x:g}" y="{y - 7:g}" text-anchor="start" font-size="11" fill="#4a5568">{escape(text)}</text>'
        )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        'text-anchor="middle">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
        *lines,
        *boxes,
        "</svg>\n",
    ])  # fmt: skip


def current() -> str:
    """The picture of the house as it stands."""
    from tests.test_architecture import FOUNDATION, MAY_IMPORT

    return picture(MAY_IMPORT, FOUNDATION.split())
