"""Shortens a long program for reading: repetitions are folded, long lines and long texts are cut."""

from __future__ import annotations

import re

WIDTH = 150  # characters of a line
LINES = 72  # of one excerpt
PERIODS = (1, 2)  # lines that repeat together, such as a load and the multiply-add that uses it


def excerpt(program: str, lines: int = LINES, width: int = WIDTH) -> str:
    """The program with runs of similar lines folded, cut to that number of lines and that width."""
    kept = fold(program.split("\n"))
    shown = [line if len(line) <= width else line[: width - 4] + " ..." for line in kept[:lines]]
    if len(kept) > lines:
        shown.append(f"# ... and {len(kept) - lines} lines more")
    return "\n".join(shown)


def fold(lines: list[str]) -> list[str]:
    """Lines that differ only in their numbers, three or more in a row, become the first and a count of the others."""
    likeness = [re.sub(r"_?\d+", "", line) for line in lines]
    kept: list[str] = []
    at = 0
    while at < len(lines):
        period, times = max(((p, _repetitions(likeness, at, p)) for p in PERIODS), key=lambda pair: pair[0] * pair[1])
        if times < 3 or not lines[at].strip():
            kept.append(lines[at])
            at += 1
            continue
        indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
        kept += lines[at : at + period]
        kept.append(f"{indent}# ... {period * (times - 1)} lines like {'this' if period == 1 else 'these'}")
        at += period * times
    return kept


def _repetitions(likeness: list[str], at: int, period: int) -> int:
    first = likeness[at : at + period]
    times = 1
    while likeness[at + times * period : at + (times + 1) * period] == first:
        times += 1
    return times
