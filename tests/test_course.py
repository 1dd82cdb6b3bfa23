"""The plan of the course names each lesson, and says what `minitvm grade` counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minitvm.tools.cli.grade import assignments

COURSE = (Path(__file__).parent.parent / "docs" / "course.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    """All numbers of lessons in a text: "00 to 04", "23, 24 and 27"."""
    return [
        number
        for first, last in re.findall(r"\b(\d\d)(?: to (\d\d))?\b", text)
        for number in range(int(first), int(last or first) + 1)
    ]


@pytest.mark.parametrize("number", assignments())
def test_an_assignment_has_the_points_that_the_program_counts(number: int) -> None:
    entry = assignments()[number]
    part = COURSE.split(f"## Part {number}: ")[1].split("\n## ")[0]
    assert part.splitlines()[0] == entry["title"][0].lower() + entry["title"][1:]
    text = re.search(rf"\*\*Assignment {number}\.\*\* (.*?)\n\n", part, re.DOTALL)
    assert text is not None
    points: dict[str, int] = {}
    waiting: list[str] = []
    for lesson, value in re.findall(r"\b(\d\d)\b(?! points)(?:,? |\.|$|\n)?(?:\((\d+)[^)]*\))?", text[1]):
        waiting.append(lesson)
        if value:
            points |= dict.fromkeys(waiting, int(value))
            waiting.clear()
    assert points == entry["points"] and not waiting
    rubric = [int(row) for row in re.findall(r"^\| (\d+) \| ", part, re.MULTILINE)]
    assert sum(rubric) == 40


@pytest.mark.parametrize("number", assignments())
def test_a_part_plans_each_of_its_lessons(number: int) -> None:
    lessons = [int(lesson) for lesson in assignments()[number]["points"]]
    part = COURSE.split(f"## Part {number}: ")[1].split("**Reading.**")[0]
    part = re.sub(r"\b\d+: lessons?", "", part)  # the weeks
    assert sorted(set(numbers(part))) == lessons
    row = next(line for line in COURSE.splitlines() if line.startswith(f"| {number} "))
    assert numbers(row.split("|")[3]) == lessons and f"course/slides/part_{number}.md" in row
