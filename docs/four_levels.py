"""The picture at the top of the README: a product and a ReLU in four languages, each statement in its own colour.

`make docs` writes four_levels.svg from what the compiler prints. `PANELS` says which lines of a level are shown: those
that hold a statement, and the loops around them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, MARGIN, LABELS = 980, 20, 168  # pixels; the names of the levels stand in a column of their own
LINE, LETTER, SIZE = 19, 7.25, 12  # pixels: from line to line, a letter, the height of the font
PRODUCT, RELU = "#cfe3ff", "#ffe0b8"  # what is behind each of the two statements

# A level: its name, what one of its units is, a pattern of the lines to show, and those of the two statements.
PANELS = (
    ("graph", "operators on whole tensors", r"=", r"nn\.matmul", r"nn\.relu"),
    ("tensor expression", "each element by a formula", r"lambda|compute\(", r"te\.sum", r"te\.maximum"),
    ("loop program", "loops that a schedule changes", r"^\s+for (?!.*init)|\] = (?!T\.float32)", r"\+ p0", r"T\.max"),
    ("kernel", "Python that Numba compiles", r"^    for |^        ", r"fma", r"store"),
)  # fmt: skip


def programs() -> dict[str, str]:
    """The texts of one small network, a matrix product followed by a ReLU, at the levels of `PANELS`."""
    import minitvm as tvm
    from minitvm import tir
    from minitvm.graph import GraphBuilder
    from minitvm.graph.printer import script as graph_script
    from minitvm.te.printer import script as te_script

    b = GraphBuilder("layer")
    x, w = b.input("x", (8, 64)), b.input("w", (64, 32))
    graph = b.build(b.op("nn.relu", b.op("nn.matmul", x, w)))
    func = tvm.lower(graph, stop_at="tir")["matmul_relu"]
    scheduled = _scheduled(tir.Schedule(func))
    return {
        "graph": graph_script(graph),
        "tensor expression": te_script(tvm.lower(graph, stop_at="te")["matmul_relu"]),
        "loop program": scheduled.script(with_header=False),
        "kernel": tvm.lower(scheduled, stop_at="source")["matmul_relu"],
    }


def _scheduled(sch: Any) -> Any:
    """Tiles of 1 x 8 in a register, the ReLU on each: short enough for a picture."""
    matmul, relu = sch.get_child_blocks(sch.get_block("root"))
    i, j, k = sch.get_loops(matmul)
    tile, lane = sch.split(j, factors=[None, 8])
    sch.reorder(i, tile, k, lane)
    sch.reverse_compute_at(relu, tile)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(relu)[-1])
    sch.decompose_reduction(matmul, k)
    sch.parallel(i)
    return sch.func


def shown(text: str, pattern: str) -> list[str]:
    """The lines of a program that a panel shows; a line is indented by how many of those above it contain it."""
    lines, outside = [], list[int]()
    for line in text.split("\n"):
        if re.search(pattern, line):
            indent = len(line) - len(line.lstrip())
            outside = [other for other in outside if other < indent]
            lines.append("    " * len(outside) + line.strip())
            outside.append(indent)
    return lines


def picture(texts: dict[str, str]) -> str:
    """The four panels, one below the other, as SVG."""
    parts: list[str] = []
    y = float(MARGIN)
    for name, unit, pattern, product, relu in PANELS:
        lines = shown(texts[name], pattern)
        parts += _panel(y, name, unit, lines, product, relu)
        y += max(len(lines), 2) * LINE + 26
    height = y + 4
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
        "<title>One statement at four levels of the compiler</title>",
        f'<rect width="{WIDTH}" height="{height:g}" rx="8" fill="white"/>',
        *parts,
        _legend(height),
        "</svg>\n",
    ])  # fmt: skip


def _panel(y: float, name: str, unit: str, lines: Sequence[str], product: str, relu: str) -> list[str]:
    left = MARGIN + LABELS
    tall = max(len(lines), 2) * LINE + 12
    sans = 'font-family="sans-serif"'
    parts = [
        f'<rect x="{left - 8}" y="{y:g}" width="{WIDTH - left - MARGIN + 8}" height="{tall:g}" rx="5" fill="#f6f8fa" '
        'stroke="#d0d7de"/>',
        f'<text x="{MARGIN}" y="{y + 20:g}" {sans} font-size="15" font-weight="bold">{escape(name)}</text>',
        f'<text x="{MARGIN}" y="{y + 37:g}" {sans} font-size="10.5" fill="#57606a">{escape(unit)}</text>',
    ]
    for k, line in enumerate(lines):
        base = y + 20 + k * LINE
        indent = len(line) - len(line.lstrip())
        colour = PRODUCT if re.search(product, line) else RELU if re.search(relu, line) else None
        if colour is not None:
            box = f'x="{left + indent * LETTER - 3:g}" width="{(len(line) - indent) * LETTER + 6:g}"'
            parts.append(f'<rect {box} y="{base - 14:g}" height="{LINE}" rx="3" fill="{colour}"/>')
        room = f'textLength="{(len(line) - indent) * LETTER:g}" lengthAdjust="spacingAndGlyphs"'
        parts.append(
            f'<text x="{left + indent * LETTER:g}" y="{base:g}" font-size="{SIZE}" {room} '
            f'fill="#1f2328">{escape(line.strip())}</text>'
        )
    return parts


def _legend(height: float) -> str:
    parts = []
    for k, (colour, text) in enumerate(((PRODUCT, "the product"), (RELU, "the ReLU"))):
        y = height - 52 + k * 20
        parts.append(
            f'<rect x="{MARGIN}" y="{y:g}" width="14" height="14" rx="3" fill="{colour}"/>'
            f'<text x="{MARGIN + 20}" y="{y + 11:g}" font-family="sans-serif" font-size="11" '
            f'fill="#57606a">{text}</text>'
        )
    return "\n".join(parts)


def current() -> str:
    """The picture, of the compiler as it stands."""
    return picture(programs())
