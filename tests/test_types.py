"""What a user's type checker sees: a script in TVM's style passes, and a wrong call of a schedule is found.

That `methods.pyi` is in step with the registrations, tests/test_docs.py asks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "user_script.py"

WRONG = """\
from minitvm import te, tir

A = te.placeholder((4,), name="A")
sch = tir.Schedule(te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2.0, name="B")]))
sch.spilt(sch.get_loops("B")[0], factors=[2, None])
sch.split("B", factors=[2, None])
sch.split(sch.get_loops("B")[0], factor=2)
"""


def mypy(*files: Path) -> str:
    """What mypy prints, as a user's shell would show it. The cache is that of `make lint`."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "setup.cfg"), *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment).stdout


def test_a_script_of_a_user_passes_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    lines = [line for line in mypy(SCRIPT, wrong).splitlines() if ": error: " in line]
    assert [line.split(": error: ")[0].rpartition(os.sep)[2] for line in lines] == [f"wrong.py:{n}" for n in (5, 6, 7)]
    assert '"Schedule" has no attribute "spilt"' in lines[0]
    assert 'expected "LoopRV"' in lines[1]
    assert "factor" in lines[2]


def test_the_script_runs() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "True exact" in done.stdout
