"""The documentation and the lessons are in plain English: habits that a native reader stumbles over are refused.

The rules are those that can be counted, each with the cure. A page may use such a word for a real place in space or in
memory; the phrases in `ALLOWED` do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LESSONS = ROOT / "lessons"
PAGES = sorted([
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs").rglob("*.md"),
    LESSONS / "README.md", *LESSONS.glob("*/lesson.py"), *LESSONS.glob("*/lesson.toml"),
])  # fmt: skip

HABITS = {
    r"(?:^|[:;] )Of (?!course\b)": "begin with the subject",
    r"\b(?:stands?|stood|standing)\b": "say `is`",
    r"\b(?:lies?|lay|lying)\b": "say `is`",
    r"\bbeside\b": "say `compared with`, or `next to`",
    r"\bbehind\b": "say `after`",
    r"\bin front of\b": "say `before`",
    r"\bin place of\b": "say `instead of`",
    r"\b(?:nobody|somebody|whoever)\b": "name the reader, or the part of the program",
    r"\bso many\b": "say `that many`, or the number",
    r"\bno matter of course\b": "say `not guaranteed`",
    r"\bwhat (?:is|are|was|were|has|have|follows|remains|comes)\b(?![^.!]*\?)": "name the thing instead of `what ...`",
}
ALLOWED = r"\bstand-ins?\b|\bstands? for\b|\bahead or behind\b"


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences and the cells of tables of a page, each with its line. Code is left out."""
    text = re.sub(
        r"^```.*?^```|^    .*?$", lambda match: re.sub(r"[^\n]", "", match[0]), text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->", "`code`", text)
    for block in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        for part in re.finditer(r"[^|.?!]+(?:[.?!](?!\s)[^|.?!]*)*[.?!]*", block[0]):
            if sentence := part[0].strip("#-* \n"):
                start = block.start() + part.start() + len(part[0]) - len(part[0].lstrip())
                yield text.count("\n", 0, start) + 1, " ".join(sentence.split())


def prose(path: Path) -> str:
    """The text of a page with its lines kept: in a lesson, the text cells and what `lesson.toml` prints."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".toml":
        lines = [re.sub(r'^(?:know = |    )"|",?$', "", line) for line in lines]
        lines = ["" if re.match(r'\w+ = |[\]}]|    \{|"*$', line) else line for line in lines]
    elif path.suffix == ".py":
        is_text = False
        for number, line in enumerate(lines):
            is_text = "[markdown]" in line if line.startswith("# %%") else is_text
            lines[number] = line[2:] if is_text and not line.startswith("# %%") else ""
    return "\n".join(lines) + "\n"


def habits(text: str) -> list[str]:
    """One line for each habit in a text: its line, the sentence, and what to do."""
    return [
        f"{line}: {sentence!r}: {cure}"
        for line, sentence in sentences(text)
        for pattern, cure in HABITS.items()
        if re.search(pattern, re.sub(ALLOWED, "", sentence), 0 if "Of" in pattern else re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_english(page: Path) -> None:
    assert habits(prose(page)) == []


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        ("# Title\n\nOf these, two are loops.\n", 3, "begin with the subject"),
        ("It runs.\nThe copy stands\nin the loop.\n", 2, "say `is`"),
        ("| a | b |\n|---|---|\n| x | it lies in a line |\n", 3, "say `is`"),
        ("- Faster, beside NumPy, by 2 %.\n", 1, "say `compared with`, or `next to`"),
        ("A loop behind `x` runs.\n", 1, "say `after`"),
        ("It is refused: nobody knows why.\n", 1, "name the reader, or the part of the program"),
        ("It prints what is known. Why?\n", 1, "name the thing instead of `what ...`"),
    ],
)  # fmt: skip
def test_a_habit_is_found_with_its_line(text: str, line: int, cure: str) -> None:
    (found,) = habits(text)
    assert found.startswith(f"{line}: ") and found.endswith(f": {cure}")


def test_plain_english_and_code_pass() -> None:
    prose = "Of course, `T` stands for a type. What is a tile? Use a stand-in."
    text = f"{prose}\n\n    what is behind\n\n```text\nnobody\n```\n"
    assert habits(text) == []
