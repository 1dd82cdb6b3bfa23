"""`minitvm check FILE.py`: functions level by level, pairs and schedules by the oracle, mistakes with their place."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.reference import strategies
from minitvm.reference.strategies.pairs import Tally
from minitvm.reference.strategies.pinned import Attempts
from minitvm.tir.schedule.registry import transforms
from minitvm.tools.cli import main
from minitvm.tools.cli.check_primitive import check_primitive

HEAD = "from minitvm.script import ir as I, tir as T\nfrom minitvm import tir\n\n"
ROWS = """
@T.prim_func
def {name}(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + {value}
"""


def rows(name: str, value: str = "A[vi, vk]") -> str:
    return ROWS.format(name=name, value=value)


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, str, str]:
    path = tmp_path / "programs.py"
    path.write_text(text)
    status = main(["check", str(path)])
    out, err = capsys.readouterr()
    times = re.compile(r"\d+\.\d s")
    return status, times.sub("0.0 s", out), err.replace(str(tmp_path) + "/", "")


def test_a_function_is_compared_at_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = check(tmp_path, capsys, HEAD + rows("f"))
    assert (status, err) == (0, "")
    assert out == dedent("""\
        f
          verifier   ok     0.0 s
          tir        ok     ran on arrays of 4x6, 4, 0.0 s
          compiled   equal  largest difference 0.0e+00 of the largest value, 0.0 s
          kernel     equal  largest difference 0.0e+00 of the largest value, 0.0 s
          executable equal  largest difference 0.0e+00 of the largest value, 0.0 s
        all agree
        """)


def test_pairs_modules_and_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        HEAD
        + rows("before")
        + rows("after", "A[vi, 5 - vk]")
        + dedent("""
        @I.ir_module
        class Mod:
            @T.prim_func
            def twice(n: T.int32, a: T.handle, b: T.handle):
                A = T.match_buffer(a, (n,), "float32")
                B = T.match_buffer(b, (n,), "float32")
                for i in range(n):
                    with T.block("B"):
                        vi = T.axis.spatial(n, i)
                        B[vi] = A[vi] * 2.0

        sch = tir.Schedule(before)
        sch.split(sch.get_loops("B")[1], [2, 3])
        """)
    )
    status, out, err = check(tmp_path, capsys, text)
    assert (status, err) == (0, "")
    assert "before, after\n  equal (exact, field, shadow)\n" in out
    assert "sch: before\n  equal (exact, field, shadow)\n" in out
    assert "Mod.twice\n  verifier   ok" in out


def test_a_pair_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(tmp_path, capsys, HEAD + rows("sum_before") + rows("sum_after", "A[vi, vk] * 2.0"))
    assert status == 1
    assert out.endswith("# ----\n1 check failed\n")
    told, text = out.removesuffix("# ----\n1 check failed\n").split("# ---- sum_before, sum_after: ")
    assert told.endswith(
        "sum_before, sum_after\n"
        "  DIFFERENT: the programs differ in B[0] (exact mode, 1 of 4 elements)\n"
        "      before: np.float32(1.0)\n"
        "      after:  np.float32(2.0)\n"
        "      A = 0 but 1 at [0, 0] (4x6)\n"
    )
    exec(compile(text.split("\n", 1)[1], "counterexample.py", "exec"), {})
    assert capsys.readouterr().out == "before: B[0] = np.float32(1.0)\nafter: B[0] = np.float32(2.0)\n"


IN_PLACE = """
@T.prim_func
def {name}(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = {value}
"""


def test_functions_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (IN_PLACE.format(name=n, value="T.max(A[v], 0.0)") for n in ("before", "after"))
    status, out, _ = check(tmp_path, capsys, HEAD + first + second)
    assert status == 0
    assert out.startswith(
        dedent("""\
        before
          verifier   ok     0.0 s
          tir        ok     ran on arrays of 8; in and out: A (what the caller passes in is read), 0.0 s
          compiled   equal  largest difference 0.0e+00 of the largest value, 0.0 s
          kernel     equal  largest difference 0.0e+00 of the largest value, 0.0 s
          executable equal  largest difference 0.0e+00 of the largest value, 0.0 s
        """)
    )
    assert "before, after\n  equal (exact, field, shadow)\n  in and out: A (what the caller" in out


def test_a_pair_that_cannot_be_compared_does_not_hide_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rows("n_after").replace(", B:", ", n: T.int32, B:")
    text = HEAD + rows("n_before") + other + rows("x_before") + rows("x_after", "T.float32(1)")
    text += rows("y_before") + rows("y_after").replace("A[vi, vk]\n", "0.0\n").replace("B[vi] = ", "A[vi, 0] = ")
    status, out, _ = check(tmp_path, capsys, text)
    assert status == 1
    assert "n_before, n_after\n  cannot be compared: the programs have 2 and 3 parameters\n" in out
    assert "x_before, x_after\n  DIFFERENT: the programs differ in B[0]" in out
    assert "y_before, y_after\n  DIFFERENT: A is written by after and not by before\n" in out
    assert "    B is written by before and not by after\n" in out


def test_a_function_that_makes_the_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + rows("f") + '\ndef apply_trace(sch):\n    sch.split(sch.get_loops("B")[1], [2, 3])\n'
    status, out, _ = check(tmp_path, capsys, text)
    assert status == 0
    assert "f, scheduled\n  equal (exact, field, shadow)\n" in out


def test_what_is_undefined_is_not_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(tmp_path, capsys, HEAD + rows("f", "A[vi, vk + 1]"))
    assert status == 1
    assert "compiled" not in out
    assert "WRONG  out of bounds: A[vi, vk + 1] at index (0, 6)" in out


def test_what_the_verifier_refuses_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes = "vi = T.axis.spatial(3, i)\n            vk = T.axis.reduce(6, k)"
    text = HEAD + rows("f").replace('vi, vk = T.axis.remap("SR", [i, k])', axes)
    status, out, _ = check(tmp_path, capsys, text)
    assert status == 1
    assert "verifier   WRONG  f: iterators_stay_in_their_domains" in out
    assert "  tir " not in out


def test_files_written_for_tvm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import tvm\nfrom tvm.script import tir as T\n" + rows("f") + "\nsch = tvm.tir.Schedule(f)\n"
    status, out, err = check(tmp_path, capsys, text)
    assert (status, err) == (0, "")
    assert "sch: f\n  equal" in out


MISTAKES = {
    "python": (HEAD + "x = [1\n", "programs.py:4:5: '[' was never closed\n    x = [1\n        ^"),
    "the language": (
        HEAD + rows("f").replace("remap", "reap"),
        'programs.py:9:22: T.axis.reap does not exist\n    vi, vk = T.axis.reap("SR", [i, k])\n'
        "             ^^^^^^^^^^^\n  try:    did you mean remap?",
    ),
    "a name": (HEAD + "print(undefined)\n", "programs.py:4: NameError: name 'undefined' is not defined"),
    "a block": (
        HEAD + rows("f") + '\nsch = tir.Schedule(f)\nsch.get_block("Q")\n',
        "programs.py:15: no block 'Q' in function 'f'; known: B, root",
    ),
    "a step": (
        HEAD + rows("f") + '\nsch = tir.Schedule(f)\nsch.vectorize(sch.get_loops("B")[1])\n',
        "programs.py:15: vectorize(k): ",
    ),
    "no program": ("x = 1\n", "programs.py: holds no program\n  wanted: @T.prim_func, @I.ir_module, a tir."),
    "exit": ("import sys\nsys.exit(7)\n", "programs.py:2: SystemExit: 7"),
    "nothing": ("", "programs.py: holds no program"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_have_a_place_and_status_2(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, wanted = MISTAKES[name]
    status, out, err = check(tmp_path, capsys, text)
    assert (status, out) == (2, "")
    assert err.startswith(f"minitvm check: {wanted}")
    assert "Traceback" not in err


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "null.py").write_bytes(b"x = 1\x00\n")
    (tmp_path / "folder.py").mkdir()
    for name, wanted in (("missing", "no such file"), ("bytes", "not a text in UTF-8"), ("null", "null bytes"),
                         ("folder", "is a folder")):  # fmt: skip
        assert main(["check", str(tmp_path / f"{name}.py")]) == 2
        assert wanted in capsys.readouterr().err


def test_shapes_are_for_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.py").write_text(HEAD + rows("f"))
    assert main(["check", str(tmp_path / "f.py"), "--shape", "A=3"]) == 2
    assert "--shape is for models" in capsys.readouterr().err


def test_lowered_programs_begin_at_kernel_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        HEAD
        + "from minitvm.tir.transform.pipeline import lower\n"
        + rows("f_before")
        + dedent("""
        f_after = lower(f_before, None, "f")

        @T.prim_func
        def flat(A: T.Buffer((8,), "float32")):
            for i in range(9):
                A[i] = 1.0

        kernel = flat.with_body(flat.body.block.body)
        """)
    )
    status, out, err = check(tmp_path, capsys, text)
    assert (status, err) == (1, "")
    ran = "kernel     ok     ran on arrays of 24, 4, 0.0 s"
    assert f"f_after\n  verifier   ok     0.0 s\n  {ran}\n" in out
    assert "f_before, f_after\n  equal (exact, field, shadow)\n" in out
    assert "kernel\n  verifier   ok     0.0 s\n  kernel     WRONG  out of bounds: A[i] at index (8)\n" in out


RAISES = '''
from minitvm.tir.nodes import For
from minitvm.tir.schedule.registry import primitive, requirement
from minitvm.tir.schedule.state import ScheduleState

@requirement
def never(state: ScheduleState, loop: For):
    """never"""
    {requirement}

@primitive(requires=[never])
def stumble(state: ScheduleState, loop: For) -> None:
    """Do nothing.

    before:
        for i in T.grid(4):
            with T.block("B"): B[vi] = A[vi]
    call: `sch.stumble(i)`
    after:
        for i in T.grid(4):
            with T.block("B"): B[vi] = A[vi]
    """
    {body}

@stumble.space
def _space(state):
    {space}

stumble.refuses(never, "sch.stumble(i)")
'''


@pytest.mark.parametrize("place", ["requirement", "body", "space"])
@pytest.mark.parametrize("statement", ["1 // 0", "{}['key']", "import no_such_package", "raise SystemExit(0)"])
def test_what_a_primitive_of_the_user_raises_is_shown_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, statement: str
) -> None:
    texts = {"requirement": "pass", "body": "pass", "space": "yield from ()"}
    text = RAISES.format(**{**texts, place: f"{statement}; {texts[place]}"})
    path = tmp_path / "stumble.py"
    path.write_text(text)
    line = 1 + next(k for k, row in enumerate(text.split("\n")) if statement in row)
    with registrations_undone():
        assert main(["check", str(path)]) == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"minitvm check: {path}:{line}: ") and written.err.count("\n") == 1


@pytest.mark.parametrize(("pairs", "few"), [(7, True), (199, True), (200, False)])
def test_a_primitive_with_few_legal_calls_says_so(monkeypatch: pytest.MonkeyPatch, pairs: int, few: bool) -> None:
    tally = Tally("split", programs=800, calls=pairs, loops=pairs, kernels=pairs, pairs=pairs)
    monkeypatch.setattr(strategies, "draw_pairs", lambda *args, **options: tally)
    monkeypatch.setattr(strategies, "try_pinned", lambda *args: Attempts(1, 1))
    *_, (text, right) = check_primitive(next(p for p in transforms() if p.name == "split"), 0)
    assert right
    assert f"{pairs} legal calls on 800 random programs" in text
    assert ("fewer than 200: its space has no more legal calls on these programs" in text) == few
