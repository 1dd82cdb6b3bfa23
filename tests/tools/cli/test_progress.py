"""Progress: nothing for what is quick, a plain line now and then where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minitvm.graph import GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.tools.cli import progress as module
from minitvm.tools.cli.progress import Steps, progress


def test_quick_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as report:
        report("compiling", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_long_work_shows_plain_lines_ten_seconds_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with progress() as report:
        for second in range(25):
            now = float(second)
            report("compiling", second, 25)
    assert capsys.readouterr().err.split("\n") == ["compiling: 10 of 25, 10 s", "compiling: 20 of 25, 20 s", ""]


class _Timer:
    """A timer that goes off when a test says so."""

    due: list[_Timer] = []

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self.function, self.daemon = seconds, function, False

    def start(self) -> None:
        _Timer.due.append(self)

    def cancel(self) -> None:
        _Timer.due.remove(self)


def test_a_terminal_shows_the_stage_of_work_that_reports_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(module.threading, "Timer", _Timer)
    with progress("B: comparing"):
        (timer,) = _Timer.due
        assert timer.seconds == module.PATIENCE
        timer.function()
    assert _Timer.due == []
    assert "B: comparing" in capsys.readouterr().err


def test_without_a_terminal_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.threading, "Timer", _Timer)
    with progress("B: comparing"):
        assert _Timer.due == []


def test_steps_of_an_interpreter_are_counted() -> None:
    b = GraphBuilder("net")
    x = b.input("x", (3,))
    graph = b.build(b.op("nn.relu", b.op("add", x, 1.0)))
    told: list[tuple[str, int, int]] = []
    steps = Steps(lambda *row: told.append(row), "interpreting", len(graph.nodes))
    interpreter.run(graph, {"x": np.zeros(3, "float32")}, listeners=[steps])
    assert told == [("interpreting", 1, 2), ("interpreting", 2, 2)]
