"""`show()` prints the text itself into a pipe, and the same text in colour on a terminal."""

from __future__ import annotations

import io
import re

import pytest

from minitvm.script import tir as T


@T.prim_func
def fill(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = 1.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    fill.show()
    assert capsys.readouterr().out == fill.script() + "\n"


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    fill.show(style="monokai", black_format=False)
    printed = terminal.getvalue()
    assert "\x1b[" in printed
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert [line.rstrip() for line in plain.rstrip().splitlines()] == fill.script().splitlines()
