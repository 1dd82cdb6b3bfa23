"""An SVG whose parts appear at a moment: one animated number, and styles that compare it with the moment of each part.

    canvas = Canvas("three squares", width=120, height=60, moments=3, unit=20)
    canvas.background(0, 0, columns=3, rows=1)
    for k in range(3):
        canvas.flash(k, "write", [(k, 0)])
    canvas.svg()

The animated number, `--film`, counts moments from 0. There is no script, so the text is one picture for a README, a
notebook and a page. A page that contains the picture can set `--film` itself, to stop or to go back. Readers who prefer
reduced motion get the last moment. Squares are given by column and row, in units of `unit` pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

Square = tuple[float, float]

TICK, LINE = 12, 18  # pixels: the width of a square behind a line of the program, and from line to line
LETTER = 7.25  # pixels, of a letter of 12 pixels

# Each kind of mark: the letter of its class. The first two fade, `touch` stays, `now` is there for one moment, `stay`
# up to its end.
KINDS = {
    "read": "r", "write": "w", "both": "v", "miss": "m", "was read": "a", "was written": "b", "held": "k",
    "token": "q", "now": "i", "mark": "x",
}  # fmt: skip

_COLOURS = {
    "sheet": ("#ffffff", "#161b22"), "ink": ("#1f2328", "#e6edf3"), "soft": ("#59636e", "#9da7b3"),
    "base": ("#e7ebf0", "#30363d"), "read": ("#1f6fd6", "#58a6ff"), "write": ("#ef7d00", "#ffa033"),
    "miss": ("#d1242f", "#ff6b68"), "was-read": ("#bcd6f7", "#234a7a"), "was-written": ("#ffd9ad", "#6e4618"),
    "held": ("#a5dba3", "#2b6a38"), "now": ("#8250df", "#c297ff"),
}  # fmt: skip

_BEGUN = "clamp(0,(var(--film) - var(--t) + .5)*99,1)"
_ENDED = "clamp(0,(var(--e) - var(--film) - .5)*99,1)"
_AGE = "(var(--film) - var(--t))"


def _style() -> str:
    """The same text for all films, so that several of them on one page do not disturb each other."""
    light, dark = (";".join(f"--{name}:{both[k]}" for name, both in _COLOURS.items()) for k in (0, 1))
    sans = "system-ui,sans-serif"
    rules = {
        "": f"{light};--e:99999;animation:minitvm-film 9s steps(9) infinite;max-width:100%;height:auto",
        "text": "fill:var(--ink);font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre",
        ".c": f"font:12px {sans};fill:var(--soft)",
        ".h": f"font:600 14px {sans}",
        ".n": "font-weight:600",
        "path": "fill:none;stroke-width:1",
        ".s": "fill:var(--sheet)",
        ".o": "stroke:var(--base)",
        ".g": "stroke:var(--sheet);stroke-width:.08",
        ".l": "stroke:var(--base);stroke-width:.6",
        ".r,.w,.v,.m": f"opacity:min({_BEGUN},max(0,1 - {_AGE}/var(--fade)))",
        ".r": "stroke:var(--read)",
        ".w": "stroke:var(--write)",
        ".v": "stroke:var(--write);stroke-width:.5",
        ".m": "stroke:var(--miss)",
        ".a,.b": f"opacity:{_BEGUN}",
        ".a": "stroke:var(--was-read)",
        ".b": "stroke:var(--was-written)",
        ".k,.q": f"opacity:calc({_BEGUN}*{_ENDED})",
        ".k": "stroke:var(--held)",
        ".q": "stroke:var(--write);stroke-width:.8",
        ".i": f"stroke:var(--now);stroke-width:.6;opacity:calc({_BEGUN}*clamp(0,(var(--t) - var(--film) + .5)*99,1));"
        "transform:scale(var(--tx),var(--ty))",
        ".x": f"stroke:var(--miss);stroke-width:.16;opacity:{_BEGUN}",
        ".y": f"fill:var(--miss);font-weight:600;opacity:{_BEGUN}",
        ".p": "fill:var(--now);transform:translateX(calc(min(var(--film),var(--last))*var(--step)))",
        ".j": "fill:var(--base)",
    }
    text = "".join(
        f"{','.join(f'.minitvm-film {one}'.strip() for one in name.split(','))}{{{rule}}}"
        for name, rule in rules.items()
    )
    return (
        '@property --film{syntax:"&lt;number>";inherits:true;initial-value:0}'
        "@keyframes minitvm-film{from{--film:0}to{--film:var(--film-end)}}"
        f"{text}@media(prefers-color-scheme:dark){{.minitvm-film{{{dark}}}}}"
        "@media(prefers-reduced-motion:reduce){.minitvm-film{animation:none}}"
    )


class Canvas:
    """A picture of `moments` moments; `unit` is the side of a square in pixels."""

    def __init__(self, title: str, width: float, height: float, moments: int, unit: float = 16,
                 seconds: float = 0.0) -> None:  # fmt: skip
        self.title, self.width, self.height, self.unit = title, width, height, unit
        self.moments = max(1, moments)
        self.seconds = seconds or min(0.6, max(0.07, 20 / self.moments))  # of a moment
        self._below: list[str] = []
        self._stays: dict[str, list[str]] = {}  # by the kind: what was written is above what was read
        self._marks: list[dict[str, list[Square]]] = [{} for _ in range(self.moments)]
        self._above: list[str] = []
        self._words: list[str] = []

    # --- what does not move ----------------------------------------------------------------------------------------

    def words(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text whose baseline is at y, in pixels; `kind` is "", "caption", "heading" or "name"."""
        letter = {"": "", "caption": "c", "heading": "h", "name": "n"}[kind]
        place = f'x="{x:g}" y="{y:g}"' + (f' class="{letter}"' if letter else "")
        if anchor != "start":
            place += f' text-anchor="{anchor}"'
        self._words.append(f"<text {place}>{escape(text, quote=False)}</text>")

    def background(self, x: float, y: float, columns: int, rows: int) -> None:
        """The empty squares of a grid whose first square is at column x and row y."""
        fill = _path([(x + c, y + r) for r in range(rows) for c in range(columns)])
        lines = [f"M{x + c:g} {y - 0.5:g}v{rows}" for c in range(1, columns)]
        lines += [f"M{x:g} {y + r - 0.5:g}h{columns}" for r in range(1, rows)]
        self._below.append(f'<path class="o" d="{fill}"/>')
        if lines:
            self._above.append(f'<path class="g" d="{"".join(lines)}"/>')

    def square(self, x: float, y: float, kind: str) -> None:
        """A small square of a legend, in pixels, in the colour of a kind of mark."""
        colour = {"both": "write", "token": "write", "mark": "miss"}.get(kind, kind).replace(" ", "-")
        self._words.append(f'<rect x="{x:g}" y="{y:g}" width="11" height="11" rx="2" fill="var(--{colour})"/>')

    def ticks(self, x: int, line: int, count: int) -> None:
        """The empty squares behind a line of the program, from column x on, in units of `TICK`."""
        row = "".join(f"M{x + k + 0.08:g} {line}h.84" for k in range(count))
        scale = f"scale({TICK / self.unit:.4g} {LINE / self.unit:.4g})"
        self._below.append(f'<path class="l" transform="{scale}" d="{row}"/>')

    # --- what moves ------------------------------------------------------------------------------------------------

    def flash(self, moment: int, kind: str, squares: Iterable[Square]) -> None:
        """Squares that light up at a moment, and fade or stay as the kind says."""
        self._marks[moment].setdefault(KINDS[kind], []).extend(squares)

    def stay(self, kind: str, squares: Iterable[Square], begin: int, end: int | None = None) -> None:
        """Squares that are there from one moment up to another one, or to the end."""
        until = "" if end is None else f";--e:{end}"
        path = f'<path class="{KINDS[kind]}" style="--t:{begin}{until}" d="{_path(squares)}"/>'
        self._stays.setdefault(kind, []).append(path)

    def ring(self, moment: int, square: Square) -> None:
        """A red frame around a square, from a moment on."""
        x, y = square
        self._above.append(f'<path class="x" style="--t:{moment}" d="M{x:g} {y - 0.5:g}h1v1h-1z"/>')

    def warning(self, moment: int, x: float, y: float, text: str) -> None:
        """Red words, from a moment on."""
        style = f'x="{x:g}" y="{y:g}" class="y" style="--t:{moment}"'
        self._words.append(f"<text {style}>{escape(text, quote=False)}</text>")

    def clock(self, y: float, left: float, width: float, misses: Sequence[int] = ()) -> None:
        """A bar that shows how far the film is; above it a column for each moment with misses."""
        step = width / self.moments
        self._words.append(f'<rect x="{left:g}" y="{y:g}" width="{width:g}" height="4" rx="2" class="j"/>')
        most = max(misses, default=0)
        columns = "".join(
            f"M{left + step * k:.4g} {y - 1 - 9 * n / most:.4g}h{step:.3g}v{9 * n / most:.3g}h-{step:.3g}z"
            for k, n in enumerate(misses) if n
        )  # fmt: skip
        if columns:
            self._words.append(f'<path d="{columns}" style="fill:var(--miss)"/>')
        self._words.append(
            f'<rect x="{left:g}" y="{y - 2:g}" width="{max(4, step):g}" height="8" rx="2" class="p" '
            f'style="--step:{step:.4g}px"/>'
        )

    # --- the text --------------------------------------------------------------------------------------------------

    def svg(self) -> str:
        """The picture, as a text of its own."""
        last = self.moments - 1
        pause = math.ceil(2 / self.seconds)  # at the end, before it begins anew
        end = self.moments + pause
        style = (
            f"--film:{last};--last:{last};--film-end:{end};--fade:{min(8, max(2.0, 0.7 / self.seconds)):.3g};"
            f"--tx:{TICK / self.unit:.4g};--ty:{LINE / self.unit:.4g};"
            f"animation-duration:{end * self.seconds:.4g}s;animation-timing-function:steps({end})"
        )
        moving = [
            f'<g style="--t:{moment}">'
            + "".join(f'<path class="{letter}" d="{_path(squares)}"/>' for letter, squares in sorted(marks.items()))
            + "</g>"
            for moment, marks in enumerate(self._marks)
            if marks
        ]
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="minitvm-film" role="img" style="{style}">',
            f"<title>{escape(self.title, quote=False)}</title>",
            f"<style>{_style()}</style>",
            f'<rect width="{self.width:g}" height="{self.height:g}" rx="6" class="s"/>',
            f'<g transform="scale({self.unit:g})">',
            *self._below, *(path for kind in KINDS for path in self._stays.get(kind, ())), *moving, *self._above,
            "</g>",
            *self._words,
            "</svg>\n",
        ])  # fmt: skip


def _path(squares: Iterable[Square]) -> str:
    """Squares as strokes one unit wide: neighbours of a row are one stroke."""
    rows: dict[float, list[float]] = {}
    for x, y in set(squares):
        rows.setdefault(y, []).append(x)
    parts = []
    for y, columns in sorted(rows.items()):
        columns.sort()
        begins = [columns[0], *(b for a, b in pairwise(columns) if b - a != 1)]
        ends = [*(a for a, b in pairwise(columns) if b - a != 1), columns[-1]]
        parts += [f"M{a:g} {y:g}h{b - a + 1:g}" for a, b in zip(begins, ends, strict=True)]
    return "".join(parts)
