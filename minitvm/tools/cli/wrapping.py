"""Wraps prose to the width of the terminal; programs are not changed."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

PROGRAM = "before:"  # beginnings of parts that are not prose, up to the next empty line
LEAST = 40  # columns; a narrower terminal breaks lines by itself


def columns() -> int | None:
    """The width of the terminal; None if the output is not a terminal: lines are not wrapped."""
    return max(LEAST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def filled(text: str, width: int | None) -> str:
    """The text with paragraphs wrapped to a width; None: unchanged.

    A paragraph is some lines at the margin, or an item of a list: an indented line and those below it, deeper.
    A line of two columns (`name    what it is`) is a paragraph, and continues in its second column.
    """
    if width is None:
        return text
    lines: list[str] = []
    for part in text.split("\n\n"):
        own = part.splitlines()
        lines += ["", *(own if own[:1] == [PROGRAM] else _paragraphs(own, width))]
    return "\n".join(lines[1:])


def _paragraphs(lines: Iterable[str], width: int) -> Iterator[str]:
    collected: list[str] = []
    for line in lines:
        if collected and not _goes_on(collected[0], line):
            yield from _fill(collected, width)
            collected = []
        collected.append(line)
    if collected:
        yield from _fill(collected, width)


def _goes_on(first: str, line: str) -> bool:
    """Whether a line belongs to the paragraph that begins with another one."""
    if _indent(first):
        return len(_indent(line)) > len(_indent(first))
    return not _indent(line) and not _in_two_columns(first) and not first.endswith(":")


def _in_two_columns(line: str) -> bool:
    return "  " in line.strip()


def _fill(lines: list[str], width: int) -> list[str]:
    first = _indent(lines[0])
    later = _indent(lines[1]) if len(lines) > 1 else f"{first}    " if first else ""
    if _in_two_columns(lines[0]):
        name, _, rest = lines[0].strip().partition("  ")
        later = " " * (len(first) + len(name) + 2 + len(_indent(rest)))
    words = " ".join(line.strip() for line in lines)
    return textwrap.wrap(
        words, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
