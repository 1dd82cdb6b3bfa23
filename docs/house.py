"""The picture of the house: the spine in layers, and around it the machines and the other plug-ins.

`make docs` writes house.svg, from the tables of tests/test_architecture.py, to which every import is held. In the spine
each package stands above all that it may import. A line that follows from two others is left out, and so are those to
the row that everything stands on. The texts are the first lines of the packages' docstrings.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 150, 46, 14, 34, 24
LETTERS = 24  # of a text that a box holds
FOLDERS = ("", "__main__", "compat", "machines", "tools")  # the public names, and folders of plug-ins
SIDE = "reference"  # the oracle stands apart: it reads definitions only
# Where each package of the spine stands from left to right, so that few lines run behind a box.
LANES = {
    "build": 3.6, "link": 2.6, "lowering": 2.6, "records": 4.6, "importing": 5.6, "graph": 4.6, "strategy": 4.6,
    "topi": 4.6, "te": 4.6, "codegen": 3.6, "runtime": 0.8, "tir": 4.6, "executable": 1.6, "arith": 4.6,
    "script": 5.8, "durations": 6.0,
}  # fmt: skip
SPINE, MACHINE, PLUGIN, ORACLE, GROUND = "#eef4ff", "#e9f7ec", "#f5edfb", "#fff6e0", "#f1f1f1"


def packages(table: Mapping[str, str], plugins: Sequence[str]) -> dict[str, set[str]]:
    """Each package of the spine with those that it may import, parts of packages counted as the whole."""
    names = [name for name in table if name not in (*FOLDERS, SIDE, *plugins) and "." not in name]
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
    base = ROOT / name if name == SIDE else ROOT.joinpath("minitvm", *name.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
    return text.split(". ")[0].rstrip(".:")


def box(name: str, x: float, y: float, fill: str) -> str:
    """A package: its name, and the beginning of its purpose, which is the tooltip in full."""
    text = purpose(name)
    short = text if len(text) <= LETTERS else text[: LETTERS - 1].rstrip(" ,") + "…"
    return (
        f'<g><title>{escape(text)}</title><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="#5b6b82"/><text x="{x + WIDTH / 2:g}" y="{y + 19:g}" font-weight="bold" '
        f'font-size="14">{escape(name)}</text><text x="{x + WIDTH / 2:g}" y="{y + 36:g}" font-size="10" '
        f'fill="#4a5568">{escape(short)}</text></g>'
    )


def line(start: tuple[float, float], end: tuple[float, float], dashed: bool = False) -> str:
    """From the bottom of one box to the top of another, by their corners."""
    x1, y1, x2, y2 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1]
    bend = (y2 - y1) / 2
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    path = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    return f'<path d="{path}" fill="none" stroke="#9aa4b2" stroke-width="1.3"{dash}/>'


def heading(text: str, x: float, y: float) -> str:
    """The name of a group of boxes, above it."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="start" font-size="13" fill="#4a5568">{escape(text)}</text>'


def picture(
    table: Mapping[str, str], foundation: Sequence[str], machines: Mapping[str, str], plugins: Sequence[str]
) -> str:
    """The SVG: machines at the left, the spine, plug-ins at the right, and the row that everything stands on."""
    every = packages(table, plugins)
    below = {name: others - set(foundation) for name, others in every.items() if name not in foundation}
    rows = levels(below)
    top, step_x, step_y = max(rows.values()), WIDTH + GAP_X, HEIGHT + GAP_Y
    left = MARGIN + 2 * step_x + 30  # of the spine
    begin = MARGIN + 26
    where = {name: (left + LANES.get(name, 7.4) * step_x, begin + (top - row) * step_y) for name, row in rows.items()}
    lines = [line(where[above], where[under]) for above, under in direct(below)]
    boxes = [box(name, *corner, SPINE) for name, corner in where.items()]
    shared = [name for name in machines if any(name in others.split() for others in machines.values())]
    alone = [name for name in machines if name not in shared]
    at = {name: (MARGIN, begin + k * step_y) for k, name in enumerate(alone)}
    at |= {name: (MARGIN + step_x, begin + (k * 1.6 + 0.4) * step_y) for k, name in enumerate(shared)}
    boxes += [box(name, *corner, MACHINE) for name, corner in at.items()]
    right = max(x for x, _ in where.values()) + step_x + 30
    at_right = {name: (right, begin + k * step_y) for k, name in enumerate((*plugins, SIDE))}
    boxes += [box(name, *corner, ORACLE if name == SIDE else PLUGIN) for name, corner in at_right.items()]
    ground = begin + (max(top, len(alone) - 1, len(plugins)) + 1) * step_y + 14
    across = (right + WIDTH - MARGIN + GAP_X) / 8
    for k, name in enumerate(foundation):
        boxes.append(box(name, MARGIN + k % 8 * across, ground + k // 8 * (HEIGHT + 10), GROUND))
    for text, x, y in (
        ("machines, and what several share", MARGIN, begin),
        ("the spine: the compiler", left, begin),
        ("plug-ins", right, begin),
        ("what everything stands on", MARGIN, ground),
    ):
        boxes.append(heading(text, x, y - 8))
    width, height = right + WIDTH + MARGIN, ground + -(-len(foundation) // 8) * (HEIGHT + 10) + MARGIN
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
    from tests.test_architecture import FOUNDATION, MACHINES, MAY_IMPORT, PLUGINS

    return picture(MAY_IMPORT, FOUNDATION.split(), MACHINES, PLUGINS)
