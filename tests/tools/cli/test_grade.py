"""`minitvm grade`: exercises that were handed in, each in a process of its own, with its limits."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from minitvm.tools.cli import main
from minitvm.tools.cli.grade import FAILED, MISSING, PASSED, assignments, graded
from minitvm.tools.cli.lesson import find, folders


def hand_in(folder: Path, number: str, text: str | Path) -> Path:
    answer = folder / f"exercise_{number}.py"
    answer.write_text(text.read_text(encoding="utf-8") if isinstance(text, Path) else text, encoding="utf-8")
    return answer


def test_an_answer_has_a_verdict_on_each_property(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand_in(tmp_path, "03", find("03") / "wrong_always_tests.py")
    (tmp_path / "random.py").write_text("raise SystemExit('not yours')", encoding="utf-8")  # no module of a folder
    assert main(["grade", str(tmp_path)]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "03 Split and reorder: the same work in another order: failed, 0 of 1"
    assert others[0].startswith("  no   ") and others[1].startswith("         ")
    assert "  yes  keeps the example" in others and others[-1] == "0 of 1 points"


def test_json_is_what_gradescope_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand_in(tmp_path, "01", find("01") / "solution.py")
    assert main(["grade", str(tmp_path), "--json", "--assignment", "1"]) == 1
    results: dict[str, Any] = json.loads(capsys.readouterr().out)
    points = assignments()[1]["points"]
    assert results["score"] == points["01"] and results["max_score"] == sum(points.values())
    tests = {test["number"]: test for test in results["tests"]}
    assert list(tests) == list(points)
    assert tests["01"]["status"] == "passed" and tests["01"]["score"] == tests["01"]["max_score"] == points["01"]
    assert tests["01"]["extra_data"]["tests"] == {"prints well": None}
    assert tests["00"]["extra_data"]["verdict"] == MISSING
    assert tests["00"]["output"] == "exercise_00.py is not in the folder"


@pytest.mark.parametrize(("text", "message"), [
    ("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)\n",
     "PermissionError: there is no network while an exercise is graded\n"
     "exercise_00.py:2: socket.create_connection(('192.0.2.1', 80), 1)"),
    ("while True: pass\n",
     "no end after 0.5 seconds of computing, last at\nexercise_00.py:1: while True: pass\na loop that never ends?"),
    ("import os\nos._exit(0)\n", "the process ended without a verdict: does it call exit?"),
    ("import os\nos._exit(7)\n", "Python ended with exit status 7 before the check was done"),
    ("import os\nos.abort()\n", "Python ended with SIGABRT before the check was done"),
    ("room = bytearray(2**40)\n", "MemoryError: \nexercise_00.py:1: room = bytearray(2**40)"),
    ("def (\n", "exercise_00.py:1: invalid syntax: def ("),
    ("import nothing_of_this_name\n",
     "ModuleNotFoundError: No module named 'nothing_of_this_name'\nexercise_00.py:1: import nothing_of_this_name"),
], ids=["network", "loop", "exit", "status", "abort", "memory", "syntax", "import"])  # fmt: skip
def test_what_goes_wrong_is_said_in_words(tmp_path: Path, text: str, message: str) -> None:
    result = graded("00", hand_in(tmp_path, "00", text), 5, seconds=0.5)
    assert (result.verdict, result.points, result.message) == (FAILED, 0, message)


def test_an_answer_that_waits_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that sleeps does not compute, and one that starts another leaves nothing behind."""
    monkeypatch.setattr("minitvm.tools.cli.grade._START", 5.0)
    program = "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
    program += f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\ntime.sleep(600)\n"
    result = graded("00", hand_in(tmp_path, "00", program), 1, seconds=0.25)
    assert result.message == "no verdict after 6 seconds: does it wait for something?"
    if (tmp_path / "child").exists():  # on a busy machine the time is up before it starts
        state = Path(f"/proc/{(tmp_path / 'child').read_text() or 'none'}/stat")
        assert not state.exists() or state.read_text().split()[2] in "ZX"


@pytest.mark.full
@pytest.mark.parametrize("number", assignments())
def test_solutions_have_all_points_and_stubs_none(number: int, tmp_path: Path) -> None:
    for exercise, points in assignments()[number]["points"].items():
        result = graded(exercise, hand_in(tmp_path, exercise, find(exercise) / "solution.py"), points)
        assert (result.verdict, result.points) == (PASSED, points), result
        result = graded(exercise, hand_in(tmp_path, exercise, find(exercise) / "exercise.py"), points)
        assert (result.verdict, result.points) == (FAILED, 0), result


def test_each_lesson_is_in_one_assignment_or_is_optional() -> None:
    exercises = [number for entry in assignments().values() for number in entry["points"]]
    course = (folders()[0].parent.parent / "docs" / "course.md").read_text(encoding="utf-8")
    optional = re.findall(r"\d+", re.search(r"Lessons ([^.]*) are about", course)[1])  # type: ignore[index]
    assert sorted((*exercises, *optional)) == [folder.name.split("_")[0] for folder in folders()]
    assert all(sum(entry["points"].values()) == 60 for entry in assignments().values())  # and 40 for the project


@pytest.mark.parametrize(("arguments", "error"), [
    (["nowhere"], "no such folder: nowhere"),
    (["."], "no exercise_NN.py in .\n  try:    minitvm lesson 00 --start, in that folder, makes the first"),
    ([".", "--assignment", "7"], "no assignment 7; there are 1 to 6"),
    ([".", "--seconds", "0"], "--seconds and --memory must be greater than 0"),
])  # fmt: skip
def test_mistakes_are_refused(
    arguments: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["grade", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_an_exercise_of_no_lesson_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(find("00") / "solution.py", tmp_path / "exercise_77.py")
    assert main(["grade", str(tmp_path)]) == 2
    assert "no lesson 77" in capsys.readouterr().err
