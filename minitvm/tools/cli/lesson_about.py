"""The facts about a lesson in its `lesson.toml`: read by `minitvm lesson`, by the site, and by the tests.

minutes        how long a reader needs, with the exercise
needs          numbers of the lessons that come first
know           what you should know besides, in a few words
terms          words of the glossary that the lesson uses
papers         tables with `title` and `link`
hints          three, from a first push to nearly the answer
explanation    Markdown: what the solution does, and why it is right
summary        three sentences
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError


@dataclass(frozen=True, slots=True)
class About:
    """The data of one lesson; the fields are those of `lesson.toml`."""

    minutes: int
    needs: tuple[str, ...]
    know: str
    terms: tuple[str, ...]
    papers: tuple[tuple[str, str], ...]
    hints: tuple[str, ...]
    explanation: str
    summary: tuple[str, ...]


def about(folder: Path) -> About:
    """Read the data of the lesson in `folder`. Raises `InputError` if `lesson.toml` is missing or not complete."""
    path = folder / "lesson.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return About(
            minutes=data["minutes"],
            needs=tuple(data["needs"]),
            know=data["know"],
            terms=tuple(data["terms"]),
            papers=tuple((paper["title"], paper["link"]) for paper in data["papers"]),
            hints=tuple(data["hints"]),
            explanation=data["explanation"].strip("\n"),
            summary=tuple(data["summary"]),
        )
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def head(lesson: About) -> str:
    """The line below the title of a lesson: how long it takes, and what it builds on."""
    numbers = " and ".join(filter(None, [", ".join(lesson.needs[:-1]), *lesson.needs[-1:]]))
    before = f"After lesson{'s' * (len(lesson.needs) > 1)} {numbers}. " if lesson.needs else ""
    return f"*About {lesson.minutes} minutes. {before}You should know {lesson.know}.*"


def end(lesson: About) -> str:
    """The end of a lesson as Markdown: its summary, and where to read more."""
    parts = ["## In short", "", *(f"- {line}" for line in lesson.summary)]
    if lesson.papers:
        parts += ["", "To read:", "", *(f"- [{title}]({link})" for title, link in lesson.papers)]
    return "\n".join(parts)
