"""Mark spots in printed text: the printer puts private characters around each marked piece and removes them later.

Because these fences are part of the text, the printer does not need to count columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Characters of Unicode's private use area: START index-character ... STOP.
_START, _STOP, _INDEX = "\ue000", "\ue001", 0xE100


@dataclass(frozen=True, slots=True)
class Span:
    """The columns [start, stop) of line `line`, marked with note number `note`."""

    line: int
    start: int
    stop: int
    note: int


def fence(text: str, note: int) -> str:
    """Put fences for note number `note` around a text."""
    return f"{_START}{chr(_INDEX + note)}{text}{_STOP}"


def unfence(lines: Sequence[str]) -> tuple[list[str], list[Span]]:
    """Return the lines without fences, and the spans that were fenced."""
    plain: list[str] = []
    spans: list[Span] = []
    for number, line in enumerate(lines):
        if _START not in line:
            plain.append(line)
            continue
        kept: list[str] = []
        stack: list[tuple[int, int]] = []
        characters = iter(line)
        for character in characters:
            if character == _START:
                stack.append((ord(next(characters)) - _INDEX, len(kept)))
            elif character == _STOP:
                note, start = stack.pop()
                spans.append(Span(number, start, len(kept), note))
            else:
                kept.append(character)
        plain.append("".join(kept))
    return plain, spans


def annotate(lines: Sequence[str], notes: Sequence[str], context: int | None = None) -> str:
    """Return fenced lines as text, in which each fenced piece is underlined and the first underline of each note has
    the note next to it.

    With `context`, only that many lines around the marked ones are shown, together with the headers that enclose them;
    `...` replaces the omitted lines. A note whose piece is not in the text is appended at the end.
    """
    plain, spans = unfence(lines)
    shown = _near(plain, {s.line for s in spans}, context) if context is not None and spans else set(range(len(plain)))
    noted: set[int] = set()
    result: list[str] = []
    skipping = False
    for number, line in enumerate(plain):
        if number not in shown:
            if not skipping:
                result.append(" " * _indent(line) + "...")
            skipping = True
            continue
        skipping = False
        result.append(line)
        for span in sorted((s for s in spans if s.line == number), key=lambda s: s.start):
            carets = " " * span.start + "^" * max(1, span.stop - span.start)
            text = "" if span.note in noted else notes[span.note]
            noted.add(span.note)
            first, *rest = text.split("\n")
            result.append(f"{carets} {first}".rstrip())
            result += [" " * (len(carets) + 1) + more for more in rest]
    result += [f"# {text}" for note, text in enumerate(notes) if note not in noted and text]
    return "\n".join(result)


def _near(lines: Sequence[str], marked: set[int], context: int) -> set[int]:
    shown: set[int] = set()
    for number in marked:
        shown.update(range(max(0, number - context), min(len(lines), number + context + 1)))
        indent = _indent(lines[number])
        for above in range(number, -1, -1):  # the headers that enclose it
            if lines[above].strip() and _indent(lines[above]) < indent:
                indent = _indent(lines[above])
                shown.add(above)
    return shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
