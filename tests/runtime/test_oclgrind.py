"""Generated kernels under Oclgrind: no race, no uninitialised read, no access out of bounds; a canary with a race."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.codegen.test_backends import GRIDS, PROGRAMS
from tests.conftest import ROOT

pytest.importorskip("pyopencl")
REPORTS = ("data race", "Uninitialized", "Invalid read", "Invalid write", "divergence")
RACES, UNINITIALIZED = "OCLGRIND_DATA_RACES", "OCLGRIND_UNINITIALIZED"


def under_oclgrind(word: str, *looked_for: str) -> tuple[str, str]:
    """What a run prints, and what Oclgrind reports, if it looks for these kinds of mistakes."""
    command = [sys.executable, "-m", "tests.runtime.oclgrind_run", word]
    environment = {**os.environ, "MINITVM_OPENCL_DEVICE": "oclgrind", **dict.fromkeys(looked_for, "1")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "Oclgrind" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_planted_race_is_reported() -> None:
    """A run that forgets Oclgrind's variables would pass silently."""
    assert "data race" in under_oclgrind("canary", RACES)[1]


@pytest.mark.parametrize(("word", "looked_for", "count"), [
    ("all", (RACES,), len(GRIDS)),
    # Of vectors it takes lanes that are put together for uninitialised, whatever they hold.
    ("scalars", (RACES, UNINITIALIZED), len(GRIDS) - 1),
])  # fmt: skip
def test_kernels_on_grids_are_not_reported(word: str, looked_for: tuple[str, ...], count: int) -> None:
    out, reports = under_oclgrind(word, *looked_for)
    assert not [line for line in reports.splitlines() if any(word in line for word in REPORTS)]
    assert out.count("right") == len(PROGRAMS) * count
