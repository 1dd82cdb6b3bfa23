"""A film as a picture: the program on top with its loops, the buffers below, then the legend and the clock."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from .canvas import LINE, TICK, Canvas, Square
from .layout import GAP, MARGIN, Sheet, sheet, tick, tick_count
from .recording import BARRIER, Line, Touch

if TYPE_CHECKING:
    from .film import Film, Moment, Reel

_LOOPS = {"serial": "range", "unroll": "unrolled"}
_HEAD = 26  # the baseline of the title, in pixels


def draw(film: Film, reel: Reel) -> str:
    """The film as SVG."""
    panels, words = film.panels(), _words(film.error)
    legend = _legend(film, reel)
    footer = _footer(film, reel)
    wide = max(sum(24 + len(text) * 6.6 for _, text in legend), len(footer) * 6.6, len(film.title) * 8)
    place = sheet(
        film.name, [(line, _text(film, line)) for line in _lines(film)], panels, len(words), int(wide) + MARGIN
    )
    canvas = Canvas(film.title, place.width, place.height, len(reel.moments), place.unit)
    canvas.words(MARGIN, _HEAD - 4, film.title, "heading")
    _program(canvas, place)
    for panel in panels:
        canvas.words(panel.x * place.unit, (panel.y - 0.5) * place.unit - 6, panel.label, "name")
        canvas.background(panel.x, panel.y, panel.columns, panel.rows)
    for number, moment in enumerate(reel.moments):
        _moment(canvas, place, number, moment)
    if film.cache_lines:
        _cached(canvas, place, film, reel)
    else:
        _touched(canvas, place, reel)
    marks = film.marks(reel)
    for mark in marks:
        if mark.touch is not None and mark.touch.buffer in place.panels:
            canvas.ring(mark.moment, place.panels[mark.touch.buffer].square(mark.touch.offset))
    for k, text in enumerate(words):
        canvas.warning(marks[0].moment, MARGIN, place.below + (k + 1) * LINE - 6, text)
    _below(
        canvas,
        place,
        place.below + len(words) * LINE + (6 if words else 0),
        legend,
        footer,
        [len(moment.missed) for moment in reel.moments],
    )
    return canvas.svg()


def _program(canvas: Canvas, place: Sheet) -> None:
    for k, (line, text) in enumerate(place.lines):
        canvas.words(MARGIN + TICK + 5, _line_y(k) * LINE + 4, text)
        if line.loop is not None:
            canvas.ticks(place.ticks, _line_y(k), tick_count(line))


def _line_y(number: int) -> int:
    """The middle of a line of the program, in units of `LINE`."""
    return number + 2


def _moment(canvas: Canvas, place: Sheet, number: int, moment: Moment) -> None:
    """Draw the marks that light up at one moment."""
    read, written, missed = (
        _squares(place, touches)
        for touches in (
            [one for one in moment.touches if one.verb == "read"],
            [one for one in moment.touches if one.verb == "written"],
            moment.missed,
        )
    )
    canvas.flash(number, "read", read - missed)
    canvas.flash(number, "miss", missed)
    canvas.flash(number, "write", written - read - missed)
    # A square that is read and written is half of each colour.
    canvas.flash(number, "both", [(x, y + 0.25) for x, y in written & (read | missed)])
    lines = {id(line): line for line, _ in place.lines}
    now: list[Square] = [
        (place.ticks + tick(lines[key], value), _line_y(place.number[key]))
        for key, value in moment.loops if key in lines
    ]  # fmt: skip
    now += [(1, _line_y(place.number[key])) for key in moment.lines if key in place.number]
    canvas.flash(number, "now", [(x, y) for x, y in now])


def _squares(place: Sheet, touches: Sequence[Touch]) -> set[Square]:
    return {place.panels[one.buffer].square(one.offset) for one in touches if one.buffer in place.panels}


def _touched(canvas: Canvas, place: Sheet, reel: Reel) -> None:
    """Squares keep a light colour from the first time that they are read or written."""
    before: Mapping[str, set[Square]] = {"read": set(), "written": set()}
    for number, moment in enumerate(reel.moments):
        for verb, old in before.items():
            new = _squares(place, [one for one in moment.touches if one.verb == verb]) - old
            old |= new
            if new:
                canvas.stay(f"was {'read' if verb == 'read' else 'written'}", new, number)


def _cached(canvas: Canvas, place: Sheet, film: Film, reel: Reel) -> None:
    """The elements of each line while it is in the cache."""
    for stay in reel.stays:
        name, number = stay.line
        panel = place.panels.get(name)
        if panel is None or stay.end == stay.begin:
            continue
        size = film.sizes[name][1]
        first, behind = -(-number * film.line_bytes // size), -(-(number + 1) * film.line_bytes // size)
        elements = range(first, min(behind, panel.elements))
        canvas.stay("held", [panel.square(offset) for offset in elements], stay.begin, stay.end)


def _legend(film: Film, reel: Reel) -> list[tuple[str, str]]:
    """The colours that the picture has, each with a word."""
    verbs = Counter(one.verb for moment in reel.moments for one in moment.touches)
    entries = [("read", "read")] if verbs["read"] else []
    entries += [("write", "written")] if verbs["written"] else []
    if film.cache_lines:
        entries += [("held", "in the cache"), ("miss", "miss: fetched now")]
    if reel.moments and any(moment.lines for moment in reel.moments):
        entries.append(("now", "running now"))
    return entries


def _footer(film: Film, reel: Reel) -> str:
    """How long the film is, and what the cache did."""
    count = len(film.groups)
    text = f"{count:,} step{'s' if count != 1 else ''}"
    if reel.steps > 1:
        text += f", {reel.steps} at a time"
    if reel.cache is not None:
        lines = f"cache of {film.cache_lines} lines of {film.line_bytes} bytes"
        text += f"; {lines}: {reel.cache.misses:,} misses in {reel.cache.accesses:,} accesses"
    return text


def _below(canvas: Canvas, place: Sheet, top: float, legend: Sequence[tuple[str, str]], footer: str,
           misses: Sequence[int]) -> None:  # fmt: skip
    """The legend, the clock and the last line, from a height on."""
    x = float(MARGIN)
    for kind, text in legend:
        canvas.square(x, top, kind)
        canvas.words(x + GAP, top + 10, text, "caption")
        x += GAP + 8 + len(text) * 6.6
    canvas.clock(top + 26, MARGIN, place.width - 2 * MARGIN, misses)
    canvas.words(MARGIN, top + 46, footer, "caption")


def _lines(film: Film) -> list[Line]:
    return [line for line in film.program.walk() if line.node is not None]


def _text(film: Film, line: Line) -> str:
    loop = line.loop
    if line.node is BARRIER:
        return "barrier: all threads wait for each other"
    if loop is None:
        # "float32(0.5)" is 0.5 here: a line is short.
        return re.sub(
            r"\b(?:b?float|u?int)\d+\((-?[\d.]+)\)", r"\1", film.texts.get(id(line.node)) or _statement(line.node)
        )
    kind = getattr(loop.node, "thread", None) or _LOOPS.get(loop.kind, loop.kind)
    bounds = str(loop.extent) if loop.start == 0 else f"{loop.start}, {loop.start + loop.extent}"
    return f"for {loop.var} in {kind}({bounds})"


def _statement(node: Any) -> str:
    from ...reference.meaning.text import statement_text

    return statement_text(node)


def _words(error: Any) -> list[str]:
    """The message of an error, without what to try."""
    if error is None:
        return []
    lines = [line for line in str(error).split("\n") if not line.startswith("  try:")]
    return [part for line in lines for part in wrap(line, 56, subsequent_indent="  ")][:6]
