"""An exception that a user's own file raises is told as the user's mistake; any other one is a bug in minitvm."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.errors import InternalError
from minitvm.reference import strategies
from minitvm.reference.strategies.pairs import Tally
from minitvm.reference.strategies.pinned import Attempts
from minitvm.tools.cli import main
from minitvm.tools.cli.check import Case, blame


def calls(path: Path, text: str) -> object:
    """What a user's file defines as `called`."""
    path.write_text(text)
    names: dict[str, object] = {}
    exec(compile(text, str(path), "exec"), names)
    return names["called"]


def status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: object) -> int:
    """The exit status of `minitvm run` when reading the model calls the function."""

    def run(options: object) -> int:
        function()  # type: ignore[operator]
        return 0

    monkeypatch.setattr("minitvm.tools.cli.options.read_graph", lambda *_: run(None))
    return main(["run", str(tmp_path / "any.onnx")])


def wrapped(function: object) -> object:
    """As a part of minitvm that catches what a user's code generator raises."""

    def call() -> None:
        try:
            function()  # type: ignore[operator]
        except Exception as error:
            raise InternalError("kernel main_kernel_0 does not compile") from error

    return call


@pytest.mark.parametrize("wrap", [lambda f: f, wrapped], ids=["as it is", "wrapped"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("spread * 2", "NameError: name 'spread' is not defined"),
        ("__import__('numpy').zeros(3, 'no dtype')", "TypeError: "),  # a library's, on behalf of the file
        ("[][1]", "IndexError: list index out of range"),
    ],
)
def test_what_a_users_file_raises_is_the_users(
    wrap: object, statement: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "mine.py"
    function = calls(file, f"def called():\n    return {statement}\n")
    assert status(monkeypatch, tmp_path, wrap(function)) == 2  # type: ignore[operator]
    error = capsys.readouterr().err
    assert error.startswith(f"minitvm run: {file}:2, in called: {told}")
    assert error.endswith(f"\n    return {statement}\n") and "Traceback" not in error


def test_what_minitvm_raises_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    function = calls(
        tmp_path / "mine.py", "from minitvm.topi.shapes import constant\ndef called():\n    constant([], 1)\n"
    )
    assert status(monkeypatch, tmp_path, function) == 3
    error = capsys.readouterr().err
    assert "Traceback" in error and "this is a bug in minitvm" in error


EXTENSION = '''
from minitvm.tir.schedule import requirements as req
from minitvm.tir.schedule.registry import primitive

@primitive(requires=[req.plain_loops])
def stays(state, loop):
    """Change nothing.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.stays({call})`
    after:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """

@stays.space
def _(state):
    for loop in state.tree().loops.values():
        yield (loop,)

stays.refuses(req.plain_loops, "sch.bind(i, 'threadIdx.x'); sch.stays({bad})")
'''


@pytest.mark.parametrize(
    ("call", "bad", "told"),
    [
        ("j", "i", "stays: the call of its docstring, `sch.stays(j)`, raises NameError: name 'j' is not defined"),
        ("i", "j", "stays: the bad call for plain_loops, `sch.stays(j)`, raises NameError: name 'j' is not defined"),
        ("i", "i +", "stays: the bad call for plain_loops, `sch.stays(i +)`, raises SyntaxError: invalid syntax"),
    ],
)
def test_a_mistake_in_the_text_of_a_registration_is_told_with_the_text(
    call: str, bad: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "draw_pairs", lambda *args, **options: Tally("stays", 1, 1, 1, 1, 1))
    monkeypatch.setattr(strategies, "try_pinned", lambda *args: Attempts(1, 1))
    file = tmp_path / "stays.py"
    file.write_text(EXTENSION.format(call=call, bad=bad))
    with registrations_undone():
        assert main(["check", str(file)]) == 1
    shown = capsys.readouterr()
    assert told in " ".join(shown.out.split()) and "Traceback" not in shown.err


def case_of(name: str, **agrees: bool) -> Case:
    """An operator that was compared at some levels."""
    case = Case(name, None, [], [], reduced=False)  # type: ignore[arg-type]
    case.agrees.update(agrees)
    return case


def test_a_fault_is_blamed_on_the_step_where_results_change() -> None:
    levels = dict.fromkeys(("te", "tir", "schedule", "kernel", "executable"), False)
    wrong_code = case_of("relu", **levels)
    wrong_schedule = case_of("conv2d", **levels | {"schedule": True, "kernel": True, "executable": True})
    wrong_interpreter = case_of("sum", te=True, tir=True, kernel=False, executable=True)
    right = case_of("add", te=True, executable=True)
    assert blame([wrong_code, right, wrong_schedule, wrong_interpreter], "mine") == [
        "  relu: the result changes between executable and compiled; the levels above agree, so look at what the back "
        "end of 'mine' generates and runs",
        "  conv2d: the result changes between tir and schedule",
        "  sum: the result changes between tir and kernel, and between kernel and executable",
    ]
