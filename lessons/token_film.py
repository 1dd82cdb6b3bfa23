"""A chart and a film of an accelerator: which modules run, and which tokens are in the queues between them."""

from __future__ import annotations

from collections.abc import Sequence

from minitvm.film import Canvas
from minitvm.machines.scratchpad.timeline import Timeline, TokenUse

from .picture import Picture

MODULES = ("load", "compute", "store")
WIDE, APART, PLACES = 5, 7, 5  # squares: of a module, between two of them; tokens of a queue that are shown


def chart(timeline: Timeline, name: str, until: int) -> None:
    """Draw when each module runs in the first `until` cycles, and print where the picture is."""
    colours = {"load": "#1f78b4", "compute": "#2ca02c", "store": "#7b5bb5"}
    sheet = Picture(900, 150)
    for row, (unit, colour) in enumerate(colours.items()):
        sheet.words(5, 37 + 40 * row, unit)
        for i in timeline.intervals:
            if i.unit == unit and i.start < until:
                end = min(i.end, until)
                sheet.box(80 + i.start / 20, 20 + 40 * row, max(0.5, (end - i.start) / 20 - 0.4), 28, colour)
    print(f"{timeline.cycles:,} cycles, array in use {timeline.utilisation:.0%}: {sheet.save(name)}")


def token_film(timeline: Timeline, title: str, until: int, moments: int = 160) -> str:
    """The first `until` cycles as SVG: a module is green while it runs, an orange square is a token in a queue."""
    canvas = Canvas(title, 500, 190, moments, 16)
    canvas.words(12, 22, title, "heading")
    per_moment = until / moments
    for number, name in enumerate(MODULES):
        x = 1 + number * (WIDE + APART)
        canvas.words((x + WIDE / 2) * 16, 56, name, "name", "middle")
        canvas.background(x, 5, WIDE, 3)
        box = [(x + column, 5 + row) for column in range(WIDE) for row in range(3)]
        for one in timeline.intervals:
            begin, end = int(one.start / per_moment), int(one.end / per_moment)
            if one.unit == name and begin < moments and end > begin:
                canvas.stay("held", box, begin, end)
    for left in range(len(MODULES) - 1):
        for back, row in ((False, 4), (True, 8)):
            _queue(canvas, timeline, left, back, row, per_moment)
    canvas.square(12, 146, "held")
    canvas.words(28, 156, "running", "caption")
    canvas.square(96, 146, "token")
    canvas.words(112, 156, "a token that waits in its queue", "caption")
    canvas.clock(168, 12, 476)
    canvas.words(488, 186, f"{until:,} of {timeline.cycles:,} cycles", "caption", "end")
    return canvas.svg()


def _queue(canvas: Canvas, timeline: Timeline, left: int, back: bool, row: int, per_moment: float) -> None:
    """The places of one queue, with an arrow in its direction, and its tokens."""
    names = (MODULES[left], MODULES[left + 1])
    x = 2 + WIDE + left * (WIDE + APART)
    canvas.background(x, row, PLACES, 1)
    canvas.words(
        (x + PLACES / 2) * 16, (row + (1.5 if row < 6 else -0.7)) * 16, "<-- free" if back else "data -->", "", "middle"
    )
    for moment, count in enumerate(
        _waiting(timeline.tokens, names[::-1] if back else names, per_moment, canvas.moments)
    ):
        if count:
            canvas.stay("token", [(x + k, row) for k in range(min(count, PLACES))], moment, moment + 1)


def _waiting(tokens: Sequence[TokenUse], names: Sequence[str], per_moment: float, moments: int) -> list[int]:
    """The tokens in a queue at each moment; one that is taken at once is there for one moment."""
    counts = [0] * moments
    for token in tokens:
        if tuple(module.value for module in token.queue) == tuple(names):
            begin = int(token.pushed_at / per_moment)
            for moment in range(begin, min(moments, max(begin + 1, int(token.popped_at / per_moment)))):
                counts[moment] += 1
    return counts
