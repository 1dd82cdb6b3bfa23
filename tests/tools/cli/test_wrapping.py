"""Text that a terminal shows: prose fills its lines, programs keep theirs, no word is lost."""

from __future__ import annotations

import pytest

from minitvm.tir.schedule.registry import PRIMITIVES
from minitvm.tools.cli import main, wrapping
from minitvm.tools.cli.explain import overview

TEXTS = {name: one.document() for name, one in PRIMITIVES.items()} | {"": overview(PRIMITIVES.values())}


@pytest.mark.parametrize("width", [40, 66, 80, 100, 200])
def test_no_word_is_lost_and_no_prose_is_too_wide(width: int) -> None:
    for text in TEXTS.values():
        shown = wrapping.filled(text, width)
        assert shown.split() == text.split()
        programs = {line for part in text.split("\n\n") if part.startswith("before:") for line in part.splitlines()}
        assert programs <= set(shown.splitlines())
        wide = [line for line in shown.splitlines() if len(line) > width and line not in programs]
        assert all(len(line.split()) <= 2 for line in wide), wide  # a word that does not fit


def test_paragraphs_items_and_columns() -> None:
    listed = "  a: one two three four five six\n     seven\n  b: eight"
    text = f"One two\nthree.\n\nLegal when:\n{listed}\n\nsplit   one two three four five six"
    assert wrapping.filled(text, 20) == (
        "One two three.\n\nLegal when:\n  a: one two three\n     four five six\n     seven\n  b: eight\n\n"
        "split   one two\n        three four\n        five six"
    )


def test_where_output_is_no_terminal_lines_stay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "split"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == PRIMITIVES["split"].document()


def test_a_terminal_has_its_width(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "64")
    assert wrapping.columns() == 64
    monkeypatch.setenv("COLUMNS", "10")
    assert wrapping.columns() == wrapping.LEAST
