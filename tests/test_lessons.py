"""Every lesson runs, and every check can tell a right answer from a stub and from each wrong one."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from minitvm import lower
from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.errors import InputError
from minitvm.events import Access
from minitvm.reference import check
from minitvm.reference import operators as graph_ops
from minitvm.tools.cli import main
from minitvm.tools.cli.lesson import cells, failure_of, find, folders, grade, open_lessons, read_and_run, title
from minitvm.tools.cli.lesson_about import about, head
from minitvm.topi import registry
from tests.fewer import number
from tests.patience import PATIENCE

open_lessons()

from lessons import example, grading, ledger, predict  # noqa: E402  (found through open_lessons)
from lessons.text import body_of  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
LESSONS = folders()
WRONG = {folder: sorted(folder.glob("wrong_*.py")) for folder in LESSONS}
PARTS = ("lesson.py", "lesson.toml", "exercise.py", "solution.py", "check.py")


def name(path: Path) -> str:
    return path.name if path.is_dir() else f"{path.parent.name}/{path.stem}"


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Answers register operators of their own; what other tests see stays as it was."""
    registry.names()  # loads those of the package, so that they are among what is kept
    kept = [(table, dict(table)) for table in (registry.OPERATORS, graph_ops.OPERATORS)]
    with registrations_undone():
        yield
    for table, before in kept:
        table.clear()
        table.update(before)


each_lesson = pytest.mark.parametrize("folder", LESSONS, ids=name)


def test_lessons_are_numbered_from_zero_without_gaps() -> None:
    assert [folder.name[:3] for folder in LESSONS] == [f"{number:02}_" for number in range(len(LESSONS))]


def test_every_folder_beneath_lessons_is_a_lesson() -> None:
    inside = {path for path in (ROOT / "lessons").iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert inside == set(LESSONS)


@each_lesson
def test_lesson_has_all_parts(folder: Path) -> None:
    assert [part for part in PARTS if not (folder / part).is_file()] == []
    assert len(list(folder.glob("wrong_*.py"))) >= 2
    assert title(folder)


@each_lesson
def test_every_file_says_what_it_is(folder: Path) -> None:
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == "lesson.py":
            assert text.startswith("# %% [markdown]\n# # ")
        else:
            assert ast.get_docstring(ast.parse(text)), path
    number = folder.name.split("_")[0]
    assert f"minitvm lesson {number} --check" in (folder / "exercise.py").read_text(encoding="utf-8")
    assert f"minitvm lesson {number} --check" in (folder / "lesson.py").read_text(encoding="utf-8")


@each_lesson
def test_lesson_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported the compiler. Each program that is timed is called once."""
    monkeypatch.setenv("MINITVM_PICTURES", str(tmp_path))
    monkeypatch.setattr(ledger, "ENOUGH", 0.0)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(folder / "lesson.py"), run_name="__main__")
    printed = capfd.readouterr()
    assert printed.err == ""
    check_what_it_shows(folder, printed.out, tmp_path)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, id=name(folder), marks=[] if folder in LESSONS[::10] else pytest.mark.full)
        for folder in LESSONS
    ],
)
def test_lesson_runs_as_a_script(folder: Path, tmp_path: Path) -> None:
    """From any folder, as a notebook would: without the repository root on the path."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(folder / "lesson.py")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE,
        env={**os.environ, "MINITVM_PICTURES": str(tmp_path), "MINITVM_VERIFY": "0", "MINITVM_LESSON_SECONDS": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_what_it_shows(folder, done.stdout, tmp_path)


# The ledger would say nothing about tokens, a formula, a search, a farm, a shrinker, a plan, a choice, or a text.
NO_LEDGER = {"13", "20", "27", "29", "32", "33", "34", "36", "37"}


def check_what_it_shows(folder: Path, printed: str, pictures: Path) -> None:
    """The ledger, comparisons that hold, pictures that are named, and not more than a reader reads."""
    assert ("multiplies  " in printed) == (folder.name.split("_")[0] not in NO_LEDGER), "the ledger"
    assert len(printed.splitlines()) <= 120
    assert not re.search(r"NOT the same|the programs differ|(equal|agree): False", printed), (
        "a comparison in the lesson failed"
    )
    assert list(pictures.glob("*.svg")), "every lesson draws a picture"
    for picture in pictures.glob("*.svg"):
        shapes = sum(1 for _ in ElementTree.parse(picture).getroot().iter())
        assert shapes > 20, f"{picture.name} has {shapes} shapes"
        assert str(picture) in printed
        is_film = "@keyframes" in picture.read_text(encoding="utf-8")
        assert is_film == (f"the film: {picture}" in printed)


@each_lesson
def test_lessons_are_opened_before_their_modules_are_imported(folder: Path) -> None:
    """A script has no `lessons` on its path."""
    lines = (folder / "lesson.py").read_text(encoding="utf-8").splitlines()
    imported = [number for number, line in enumerate(lines) if re.match(r"(from|import) lessons\b", line)]
    opened = next(number for number, line in enumerate(lines) if line.startswith("open_lessons()"))
    assert opened < min(imported)


@each_lesson
def test_solution_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a sixth of the cases that a reader's answer is tried on."""
    monkeypatch.setattr(grading, "settings", fewer_cases)
    assert failure_of(folder, folder / "solution.py") is None


def fewer_cases(base: settings, max_examples: int) -> settings:
    return settings(base, max_examples=number(-(-max_examples // 6), max_examples))


@each_lesson
def test_stub_fails_and_says_what_to_write(folder: Path) -> None:
    failure = failure_of(folder, folder / "exercise.py")
    assert failure is not None
    assert failure.startswith("still to be written: ")
    assert "the text at the top describes the task" in failure


@pytest.mark.alike("folder")
@pytest.mark.parametrize(
    ("folder", "answer"),
    [pytest.param(folder, answer, id=name(answer)) for folder, answers in WRONG.items() for answer in answers],
)
def test_wrong_answer_fails_in_words(folder: Path, answer: Path) -> None:
    failure = failure_of(folder, answer)
    assert failure, "the check accepted a wrong answer"
    assert "Falsifying" not in failure
    assert "Traceback" not in failure
    assert not failure.startswith("still to be written"), "a wrong answer is not a stub"
    assert not re.match(r"\w+(Error|Exception|Exit)\b", failure), "the check must find the mistake, not break on it"
    assert len(failure.splitlines()) <= 30, "a counterexample is small"


def test_wrong_answer_fails_the_same_way_each_time() -> None:
    for answer in WRONG[LESSONS[0]][:2]:
        assert failure_of(answer.parent, answer) == failure_of(answer.parent, answer)


def test_readme_lists_the_lessons() -> None:
    row = re.compile(r"^\| \[(\d+)\]\((.+?)/lesson\.py\) \| (.+?) \| (\d+) min \| (.*?) \|", re.M)
    facts = {folder: about(folder) for folder in LESSONS}
    assert row.findall((ROOT / "lessons/README.md").read_text()) == [
        (folder.name.split("_")[0], folder.name, title(folder), str(each.minutes), ", ".join(each.needs))
        for folder, each in facts.items()
    ]
    minutes = round(sum(each.minutes for each in facts.values()) / len(facts), -1)
    assert f"A lesson takes about {minutes:.0f} minutes" in (ROOT / "README.md").read_text()


# --- lesson.toml --------------------------------------------------------------------------------------------------


@each_lesson
def test_what_is_said_about_a_lesson_is_complete(folder: Path) -> None:
    facts, number = about(folder), folder.name.split("_")[0]
    assert 10 <= facts.minutes <= 30, "longer ones are two lessons"
    assert all(need < number for need in facts.needs) and len(set(facts.needs)) == len(facts.needs)
    assert set(facts.needs) <= {path.name.split("_")[0] for path in LESSONS}
    assert bool(facts.needs) == (folder != LESSONS[0])
    assert facts.know and not facts.know.endswith(".")
    assert len(facts.hints) == 3 and len(facts.summary) == 3
    assert all(text.endswith((".", ")", "?")) for text in (*facts.hints, *facts.summary))
    assert 5 <= len(facts.explanation.splitlines()) <= 22
    assert all(re.match(r"https://(doi\.org/10\.\d{4}|arxiv\.org/abs/\d{4}\.\d{5}$)", link) for _, link in facts.papers)
    listed = re.findall(r"^\| ([\w -]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert facts.terms and set(facts.terms) <= set(listed)


@each_lesson
def test_a_lesson_asks_before_it_prints(folder: Path) -> None:
    """At least once; the question is a text that the site can show above the cell."""
    tree = ast.parse((folder / "lesson.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "predict"]
    assert calls
    for call in calls:
        question, answer = call.args
        assert isinstance(question, ast.Constant) and question.value.endswith("?")
        assert not isinstance(answer, ast.Constant), "the code above the question shows the answer"


@pytest.mark.parametrize(
    ("guess", "answer", "said"),
    [
        ("36", 36, "Right: 36."),
        ("1,000", 1000, "Right: 1,000."),
        ("30 %", 30, "Right: 30."),
        ("9", 36, "It is 36: your guess is too small, by a factor of 4."),
        ("72", 36, "It is 36: your guess is too large, by a factor of 2."),
        ("3", 0, "It is 0: your guess is too large, by 3."),
        ("0", -0.4921, "It is -0.4921: your guess is too large, by 0.4921."),
        ("2.82", 2.8235, "Right: 2.824."),
        ("no idea", 36, "It is 36."),
        ("Yes", "yes", "Right."),
        ("1", "yes", "It is yes."),
        ("nan", 36, "It is 36."),
    ],
)
def test_a_guess_is_compared_with_the_answer(guess: str, answer: float | str, said: str) -> None:
    assert predict.verdict(guess, answer) == said


def test_a_question_waits_only_with_step(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def reader(prompt: str) -> str:
        asked.append(prompt)
        return "18" if prompt.startswith("your guess") else ""

    monkeypatch.setattr("builtins.input", reader)
    assert main(["lesson", "0", "--step"]) == 0
    assert not importlib.import_module("lessons.predict").ASKING, "a lesson in the same process would wait, too"
    printed = capsys.readouterr().out
    assert "your guess: " in asked
    assert "table show?\nIt is 36: your guess is too small, by a factor of 2.\nbuffer " in printed
    asked.clear()
    assert main(["lesson", "0"]) == 0
    assert not asked and "Predict first: Y has 6 elements." in capsys.readouterr().out


def test_data_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lesson.toml").write_text("minutes = 5\n")
    with pytest.raises(InputError, match="lesson.toml cannot be read: 'needs'"):
        about(tmp_path)
    (tmp_path / "lesson.toml").write_text("minutes 5\n")
    with pytest.raises(InputError, match="lesson.toml cannot be read: "):
        about(tmp_path)


# --- hints, solutions, progress -----------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with nothing in it; the current folder is another one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MINITVM_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_hints_come_one_after_the_other(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str) -> str:
        assert main(["lesson", "0", "--hint", *arguments]) == 0
        return capsys.readouterr().out

    assert [shown()[:15] for _ in range(4)] == ["**Hint 1 of 3.*", "**Hint 2 of 3.*", *["**Hint 3 of 3.*"] * 2]
    assert shown("1").startswith("**Hint 1 of 3.** Count the operations, loads and stores for one element")
    assert shown().startswith("**Hint 3 of 3.** ")
    assert shown("2").endswith("\nfor more: minitvm lesson 00 --hint 3\n")
    assert main(["lesson", "0", "--hint", "4"]) == 2
    assert "lesson 00 has hints 1 to 3, not 4" in capsys.readouterr().err


def test_the_solution_is_shown_after_your_own(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explanation = about(LESSONS[0]).explanation
    assert main(["lesson", "0", "--file", str(LESSONS[0] / "solution.py")]) == 0, "which is not your own"
    capsys.readouterr()
    assert main(["lesson", "0", "--solution"]) == 1
    assert "--solution --anyway" in (printed := capsys.readouterr().out) and "def counts" not in printed
    assert main(["lesson", "0", "--solution", "--anyway"]) == 0
    assert "def counts" in (printed := capsys.readouterr().out) and printed.endswith(f"{explanation}\n")
    Path("exercise_00.py").write_text((LESSONS[0] / "solution.py").read_text())
    assert main(["lesson", "0", "--solution"]) == 0, "it passes, whether it was checked before or not"
    assert main(["lesson", "0", "--check"]) == 0
    Path("exercise_00.py").unlink()
    capsys.readouterr()
    assert main(["lesson", "0", "--solution"]) == 0
    assert capsys.readouterr().out.endswith(f"{explanation}\n")


def test_the_list_says_how_far_you_are(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson", "0"]) == 0
    printed = capsys.readouterr().out
    facts = about(LESSONS[0])
    assert printed.startswith(f"# {title(LESSONS[0])}\n\n{head(facts)}\n\n")
    assert printed.index("equal: True") < printed.index(f"## In short\n\n- {facts.summary[0]}\n")
    assert main(["lesson"]) == 0
    assert capsys.readouterr().out.startswith("read   00_three_loops ")
    Path("mine.py").write_text((LESSONS[0] / "solution.py").read_text())
    assert main(["lesson", "0", "--file", "mine.py"]) == 0
    capsys.readouterr()
    assert main(["lesson"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("passed 00_three_loops ") and printed.endswith(f"\n1 of {len(LESSONS)} passed\n")


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"00": 3}', '{"three_loops": {"hints": "x"}}'])
def test_a_damaged_file_of_progress_counts_as_none(
    state: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    state.mkdir()
    (state / "lessons.json").write_text(content)
    assert main(["lesson"]) == 0
    assert main(["lesson", "0", "--hint"]) == 0
    assert "Hint 1 of 3" in capsys.readouterr().out


def test_old_progress_belongs_to_the_lesson_that_had_the_number(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files once had numbers as keys; lessons have got others since then."""
    state.mkdir()
    old = {"03": {"read": True}, "17": {"passed": True, "hints": 2}, "32": {"read": True}, "33": {"passed": True}}
    (state / "lessons.json").write_text(json.dumps(old))
    for _ in range(2):  # as it was, and after it was written anew
        assert main(["lesson"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[: len(LESSONS)]]
        marked = {row[1].partition("_")[2]: row[0] for row in rows if row[0] in ("read", "passed")}
        assert marked == {"split_and_reorder": "read", "memory_plan": "passed", "a_network_as_c": "read"}
        assert main(["lesson", "memory_plan", "--hint"]) == 0
        assert "Hint 3 of 3" in capsys.readouterr().out
    assert json.loads((state / "lessons.json").read_text()) == {
        "split_and_reorder": {"read": True},
        "memory_plan": {"passed": True, "hints": 3},
        "a_network_as_c": {"read": True},
    }


def test_an_answer_to_another_exercise_is_not_graded(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its number may be one that this lesson had before."""
    other = find("memory_plan")
    Path("exercise_00.py").write_text((other / "exercise.py").read_text())
    assert main(["lesson", "0", "--check"]) == 2
    number = other.name[:2]
    assert f"exercise_00.py is an answer to the exercise of lesson {number}, a memory planner.\n  try:    minitvm " in (
        capsys.readouterr().err
    )
    assert main(["lesson", number, "--file", "exercise_00.py"]) == 1


def test_progress_that_cannot_be_written_stops_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("a file where the folder should be")
    Path("mine.py").write_text((LESSONS[0] / "solution.py").read_text())
    assert main(["lesson", "0", "--file", "mine.py"]) == 0
    assert main(["lesson", "0", "--hint"]) == 0
    assert main(["lesson"]) == 0
    assert "passed\n" in (printed := capsys.readouterr()).out and printed.err == ""
    monkeypatch.delenv("MINITVM_STATE_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert main(["lesson", "0", "--hint"]) == 0


def no_home() -> Path:
    raise RuntimeError("no home folder")


# --- the runner ---------------------------------------------------------------------------------------------------


def test_runner_shows_text_code_and_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"# {title(LESSONS[0])}\n")
    assert "  | program.show()\n" in printed
    assert "equal: True" in printed


def test_runner_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    read_and_run(LESSONS[0] / "lesson.py")
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert title(LESSONS[0]) in printed
    assert f"# {title(LESSONS[0])}" not in printed, "Markdown is laid out, not shown"
    assert '  │ print("buffer   elements   loads   stores")\n' in printed
    assert "equal: True" in printed


def test_runner_lists_the_lessons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [re.fullmatch(r"(?:read|passed)? +(\w+) +(\d+) min  (.*)", line) for line in lines[: len(LESSONS)]]
    rows = [(folder.name, str(about(folder).minutes), title(folder)) for folder in LESSONS]
    assert [line and line.groups() for line in listed] == rows


def test_runner_refuses_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lesson 99; there are: 00_"):
        find("99")
    with pytest.raises(InputError, match="no such file"):
        grade(LESSONS[0], tmp_path / "exercise.py")
    for option in ("--check", "--hint", "--solution"):
        assert main(["lesson", option]) == 2


def test_an_exercise_is_started_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lesson", "0", "--start"]) == 0
    copy = tmp_path / "exercise_00.py"
    assert copy.read_text() == (LESSONS[0] / "exercise.py").read_text()
    copy.write_text((LESSONS[0] / "solution.py").read_text())
    assert main(["lesson", "0", "--start"]) == 2, "an answer is never overwritten"
    assert "exercise_00.py is there already" in capsys.readouterr().err
    assert main(["lesson", "0", "--check"]) == 0


def test_what_an_exercise_tells_you_to_use_comes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lesson", "14", "--start"]) == 0
    assert "exercise_14.py is yours to fill in; its text describes the task (skew.py came with it)" in (
        capsys.readouterr().out
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exercise_14.py", "skew.py"]
    (tmp_path / "exercise_14.py").unlink()
    assert main(["lesson", "14", "--start"]) == 2, "your own skew.py is never overwritten"
    assert "skew.py is there already" in capsys.readouterr().err


def test_a_lesson_goes_on_when_the_reader_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of a cell is there before the next cell runs."""
    shown: list[str] = []

    def reader(prompt: str) -> str:
        shown.append(capsys.readouterr().out)
        return "" if len(shown) < 2 else "q"

    monkeypatch.setattr("builtins.input", reader)
    assert main(["lesson", "0", "--step"]) == 0
    assert len(shown) == 2 and title(LESSONS[0]) in shown[0] and "  | program.show()\n" in "".join(shown)
    assert "equal: True" not in "".join(shown) + capsys.readouterr().out, "the lesson ended before its end"


def test_stepping_ends_with_the_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["lesson", "0", "--step"]) == 0
    assert "equal: True" not in capsys.readouterr().out


def test_grade_prints_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    folder = LESSONS[0]
    assert main(["lesson", "00", "--file", str(folder / "solution.py")]) == 0
    assert capsys.readouterr().out == f"{folder.name}: passed\nnext: minitvm lesson 01, {title(LESSONS[1])}\n"
    last = LESSONS[-1]
    assert main(["lesson", last.name, "--file", str(last / "solution.py")]) == 0
    assert capsys.readouterr().out == f"{last.name}: passed\n"
    assert main(["lesson", "00", "--check"]) == 1
    assert capsys.readouterr().out.startswith(f"{folder.name}: not yet\n  still to be written: ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def counts(m, n, k):\n    return m / 0\n", "ZeroDivisionError: division by zero"),
        ("def counts(m, n, k):\n    return {}[0]\n", "KeyError: 0\n("),
        ("def counts(m, n, k)\n    return 1\n", "exercise.py:1: expected ':'"),
        ("count = 1\n", "exercise.py has no counts"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
    ids=["an error of its own", "a key that is not there", "not Python", "a missing name", "an exit"],
)
def test_broken_answer_is_told_with_its_line(tmp_path: Path, text: str, wanted: str) -> None:
    answer = tmp_path / "exercise.py"
    answer.write_text(text)
    failure = failure_of(LESSONS[0], answer)
    assert failure is not None
    assert wanted in failure
    if "m / 0" in text:
        assert failure.endswith("exercise.py:2: return m / 0")


def test_the_line_of_an_error_is_told_wherever_the_answer_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def keeps(written, read, order):\n    return 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    failure = failure_of(find("05"), Path("mine.py"))
    assert failure is not None
    assert failure.startswith("ZeroDivisionError: division by zero\n(keeps(")
    assert failure.endswith("\nmine.py:2: return 1 / 0")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer of computing time")
@pytest.mark.parametrize("text", ["def keeps(w, r, o):\n    while True:\n        pass\n", "while True:\n    pass\n"])
def test_an_answer_without_an_end_is_stopped(tmp_path: Path, text: str) -> None:
    answer = tmp_path / "answer.py"
    answer.write_text(text)
    failure = failure_of(find("05"), answer, seconds=0.5)
    assert failure is not None
    assert re.match(r"no end after 0\.5 seconds of computing, last at\nanswer\.py:[123]: .*\na loop", failure)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert failure_of(find("05"), find("05") / "solution.py") is None


@each_lesson
def test_lesson_is_a_notebook(folder: Path) -> None:
    """Text cells hold comments only, and every code cell is a program by itself."""
    found = cells((folder / "lesson.py").read_text(encoding="utf-8"))
    assert [is_text for _, is_text, _ in found[:1]] == [True]
    assert len({is_text for _, is_text, _ in found}) == 2
    for first, is_text, body in found:
        if is_text:
            assert all(line.startswith("#") for line in body.splitlines() if line), f"line {first}"
        else:
            ast.parse(body)


def test_cells_keep_line_numbers() -> None:
    text = "# %% [markdown]\n# # A\n\n# %%\nx = 1\n# %%\ny = 2\n"
    assert cells(text) == [(2, True, "# # A\n\n"), (5, False, "x = 1\n"), (7, False, "y = 2\n")]


# --- the ledger and the grading -----------------------------------------------------------------------------------


def test_ledger_of_a_program_small_enough_to_count_by_hand() -> None:
    """1 x 2 x 2: two sums of two products, in memory; A is loaded for both."""
    found = ledger.measure(example.three_loops(1, 2, 2), *example.inputs(1, 2, 2)).lesson_rows()
    found.pop("time interpreted")
    assert found == {
        "multiplies": "4",
        "adds": "6",  # one a product, one a bias
        "loads": "16",  # Y, A, B in four rounds; Y and bias for two elements
        "stores": "8",  # four for each of two elements
        "bytes loaded and stored": "96",
        "bytes moved by a cache of 1024 B": "256",  # a line for each of A, B, bias and Y
        "loaded again": "6",  # A: 2, and Y: 4
        "stored again": "6",
    }


def test_ledger_does_not_count_registers() -> None:
    memory = ledger.measure(example.three_loops(2, 3, 4), *example.inputs(2, 3, 4))
    register = ledger.measure(example.in_a_register(2, 3, 4), *example.inputs(2, 3, 4))
    assert sum(register.stores.values()) == 6
    assert sum(register.loads.values()) == sum(memory.loads.values()) - 30
    assert register.operations == memory.operations


@pytest.mark.parametrize(
    ("lines", "offsets", "misses"),
    [
        (2, [0, 1, 15, 16, 0, 16], 2),  # sixteen floats to a line
        (2, [0, 16, 32, 0], 4),  # the third line pushes out the first
        (2, [0, 16, 0, 32, 0], 3),  # ... but not when the first was used in between
        (1, [0, 16, 0], 3),
    ],
)
def test_toy_cache_forgets_what_was_not_used_for_longest(lines: int, offsets: list[int], misses: int) -> None:
    counted = ledger.LessonLedger(cache_lines=lines)
    for offset in offsets:
        counted.load(Access("A", "global", offset, 4))
    assert counted.lines_fetched == misses


@pytest.mark.parametrize(("seconds", "text"), [(1.5, "1.5 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 us"), (0, "0 us")])
def test_durations(seconds: float, text: str) -> None:
    assert ledger.duration(seconds) == text


def test_body_of_a_function_and_of_the_kernel_it_becomes() -> None:
    func = example.in_a_register(1, 2, 1)
    assert body_of(func).splitlines()[:2] == [
        '    total = T.alloc_buffer((1,), scope="local")',
        "    for i, j in T.grid(1, 2):",
    ]
    assert "T.reads" not in body_of(example.blocks(1, 2, 1))
    kernel = body_of(lower(func, stop_at="kernel")["example"]).splitlines()
    assert kernel[0].startswith("    ")
    assert not kernel[0].startswith("     "), "set in by four"
    assert not any("def " in line or "func_attr" in line for line in kernel)


def test_all_forms_of_the_example_mean_the_same() -> None:
    first = example.three_loops(3, 4, 5)
    for other in (example.in_a_register, example.blocks):
        verdict = check(first, other(3, 4, 5))
        assert verdict, str(verdict)
        assert verdict.mode == "exact"


def test_cases_tell_the_smallest_failure_and_nothing_else() -> None:
    with pytest.raises(AssertionError, match="^17$") as caught:

        @grading.cases(n=st.integers(0, 1000))
        def below_17(n: int) -> None:
            grading.require(n < 17, str(n))

    assert caught.value.__notes__ == []


def test_attempt_adds_the_case_to_an_error_but_not_to_a_stub() -> None:
    with pytest.raises(ZeroDivisionError, match=r"by zero\n\(with n=0\)$"):
        grading.attempt("with n=0", lambda n: 1 // n, 0)

    def stub(n: int) -> int:
        raise NotImplementedError("write me")

    with pytest.raises(NotImplementedError, match="^write me$"):
        grading.attempt("with n=0", stub, 0)


def test_attempt_refuses_a_changed_argument() -> None:
    def drops_the_last(values: list[int]) -> None:
        values.pop()

    def halves(rows: list[list[np.ndarray]]) -> None:
        rows[0][0] /= 2

    message = r"^a case: do not change the arguments: argument 1 of drops_the_last was \[1, 2\], and is \[1\] after"
    with pytest.raises(AssertionError, match=message):
        grading.attempt("a case", drops_the_last, [1, 2])
    with pytest.raises(AssertionError, match=r"argument 1 of halves was \[\[array\(\[4\.\]\)\]\], and is"):
        grading.attempt("a case", halves, [[np.array([4.0])]])
    with pytest.raises(AssertionError, match=r"argument 1 of <lambda> was \(\{3\},\), and is \(set\(\),\)"):
        grading.attempt("a case", lambda sets: sets[0].clear(), ({3},))
    grading.attempt("a case", drops_the_last, [1, 2], may_change=(0,))


def test_a_missing_function_is_named_beside_the_learners_file(tmp_path: Path) -> None:
    folder = next(f for f in LESSONS if f.name.startswith("21"))
    answer = tmp_path / "exercise_21.py"
    answer.write_text("def start(width):\n    return 0\n")
    assert failure_of(folder, answer) == "exercise_21.py has no add"
