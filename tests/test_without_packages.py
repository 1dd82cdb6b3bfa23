"""minitvm without Numba, without islpy, without both: what runs, and what a missing package is reported as.

Each test starts a process in which the imports of the packages fail and their versions are unknown. A sitecustomize.py
on its path sees to that, so it holds for the processes that this one starts, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from minitvm.tools.cli.lesson import folders
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
NUMBA = ("numba", "llvmlite", "numba_cuda")
BLOCK = """
import importlib.metadata as metadata, os, sys
blocked = os.environ["BLOCKED"].split()
sys.modules.update(dict.fromkeys(blocked))  # importing them fails
find = metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name.replace("-", "_").removesuffix("_solver") in blocked:
        raise metadata.PackageNotFoundError(name)
    return find(cls, name)
metadata.Distribution.from_name = classmethod(from_name)
"""
# Runs command lines one after the other; prints the status, the output and the errors of each.
RUN = """
import contextlib, io, json, sys
from minitvm.tools.cli import main
done = []
for line in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(line)
    done.append((status, out.getvalue(), err.getvalue()))
assert not set(sys.argv[2:]) & {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
json.dump(done, sys.stdout)
"""

# The lessons that cannot run to their end without Numba: each measures or calls compiled kernels. They run up to that
# cell. The checks of their exercises run too, but for one.
COMPILED = {
    "03": "times loops, tiled and not",
    "04": "ends with the machine code of a network",
    "07": "times parallel loops",
    "09": "times a producer that is computed again",
    "10": "times sums in lanes",
    "11": "times a tensorized product",
    "15": "measures the peak of this machine",
    "16": "measures the caches of this machine",
    "17": "times two layouts",
    "18": "times convolutions by Winograd's algorithm",
    "19": "times one kernel and three",
    "21": "times attention in one kernel",
    "22": "times a network in eight bits",
    "23": "times a module of an open dimension",
    "30": "runs the operators of a network that stay on the host",
    "32": "measures what a model predicts",
    "37": "runs a language model",
    "38": "times products of one row and of many",
}
CHECKED_BY_KERNELS = {"04"}  # its exercise is an operator, and the check compiles a model with it
MISSING = "llvmlite is not installed, and it is needed to prepare"


def run(blocked: Sequence[str], folder: Path, *lines: str) -> list[tuple[int, str, str]]:
    """(status, output, errors) of each command line of `minitvm`, in one process without the packages."""
    (folder / "sitecustomize.py").write_text(BLOCK)
    path = os.pathsep.join(map(str, (folder, ROOT)))
    environment = {"PYTHONPATH": path, "BLOCKED": " ".join(blocked), "MINITVM_LESSON_SECONDS": "0"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([line.split() for line in lines]), *blocked],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(one) for one in json.loads(done.stdout)]


PROGRAM = """
from minitvm import tir
from minitvm.script import tir as T

@T.prim_func
def skewed(A: T.Buffer((6, 6), "float32")):
    for i, j in T.grid(5, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj + 1] = A[vi, vj] * 2.0

sch = tir.Schedule(skewed)
sch.split(sch.get_loops("A")[1], [None, 2])
"""
REORDERED = PROGRAM + 'i, j_0, j_1 = sch.get_loops("A")\nsch.reorder(j_0, i)\n'


def test_without_numba_and_islpy_all_but_compiled_kernels_runs(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from tests.tools.cli.models import tiny

    model = tiny(tmp_path / "tiny.onnx")
    (tmp_path / "program.py").write_text(REORDERED)
    solution = next(folder for folder in folders() if folder.name.startswith("05")) / "solution.py"
    right = [
        "info",
        "lesson",
        "lesson 00",
        f"lesson 05 --check --file {solution}",
        *(f"show {model} --level {level}" for level in ("fused", "te", "schedule", "source", "executable")),
        f"run {model} --target interpreter --check",
        f"check {model} --target interpreter",
        "check program.py --target interpreter",
        f"export {model} -o tiny.mtvm --target interpreter",
        "run tiny.mtvm",
    ]
    done = dict(zip(right, run((*NUMBA, "islpy"), tmp_path, *right), strict=True))
    assert {line: err for line, (status, _, err) in done.items() if status != 0} == {}
    assert "numba        not installed" in done["info"][1] and "islpy        not installed" in done["info"][1]
    assert "minitvm lesson 00 --check" in done["lesson 00"][1]
    assert "from numba" not in done[f"show {model} --level te"][1]
    assert "sch: skewed\n  equal (exact, field, shadow)\n" in done["check program.py --target interpreter"][1]


def test_a_command_that_needs_numba_ends_with_one_line(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from tests.tools.cli.models import tiny

    model = tiny(tmp_path / "tiny.onnx")
    ran, shown, lesson = run(NUMBA, tmp_path, f"run {model}", f"show {model} --level asm", "lesson 15")
    way_out = (
        "  try:    pip install numba, which brings llvmlite\n"
        '          target="interpreter" (--target interpreter), which is slow and needs no compiler\n'
        "          an artifact that was exported on a machine with this CPU, by this version: it needs NumPy alone\n"
    )
    assert (ran[0], ran[2]) == (2, f"minitvm run: {MISSING} tiny for this machine (cpu)\n{way_out}")
    headline = "minitvm show: llvmlite is not installed, and it is needed for this command (minitvm show)"
    assert (shown[0], shown[2]) == (2, f"{headline}\n  try:    pip install numba, which brings llvmlite\n")
    assert (lesson[0], lesson[2]) == (2, f"minitvm lesson: {MISSING} multiply_add for this machine (cpu)\n{way_out}")


def test_without_islpy_and_z3_only_what_asks_for_an_order_stops(tmp_path: Path) -> None:
    (tmp_path / "split.py").write_text(PROGRAM)
    (tmp_path / "reordered.py").write_text(REORDERED)
    lines = (f"check {name}.py --target interpreter" for name in ("split", "reordered"))
    (status, out, err), stopped = run((*NUMBA, "islpy", "z3"), tmp_path, *lines)
    assert (status, err) == (0, "") and "sch: skewed\n  equal" in out
    assert stopped[0] == 2
    assert stopped[2] == (
        "minitvm check: islpy is not installed,"
        " and it is needed to decide whether iterations may run in another order\n"
        "  try:    pip install islpy\n"
        "          pip install z3-solver, which answers the same questions\n"
    )


@pytest.mark.full
@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_lessons_without_numba_and_islpy(folder: Path, tmp_path: Path) -> None:
    number = folder.name.partition("_")[0]
    lines = f"lesson {number}", f"lesson {number} --check --file {folder / 'solution.py'}"
    (status, out, err), graded = run((*NUMBA, "islpy"), tmp_path, *lines)
    if number in COMPILED:
        assert status == 2 and err.startswith(f"minitvm lesson: {MISSING}"), err
        assert len(out) > 2000
    else:
        assert (status, err) == (0, "")
        assert f"minitvm lesson {number} --check" in out
    assert graded[0] == (2 if number in CHECKED_BY_KERNELS else 0), graded[1:]
