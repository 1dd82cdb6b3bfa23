"""Generated kernels under Oclgrind: no race, no uninitialised read, no access out of bounds; a canary with a race."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.codegen.test_backends import GRIDS, PROGRAMS
from tests.conftest import ROOT
from tests.strategy.families import GPU_FAMILIES

pytest.importorskip("pyopencl")
REPORTS = ("data race", "Uninitialized", "Invalid read", "Invalid write", "divergence")
ENVIRONMENT = {"MINITVM_OPENCL_DEVICE": "oclgrind", "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1"}


def under_oclgrind(*words: str) -> tuple[str, str]:
    """What a run prints, and what Oclgrind reports."""
    command = [sys.executable, "-m", "tests.machines.opencl.oclgrind_run", *words]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    assert "Oclgrind" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_planted_race_is_reported() -> None:
    """A run that forgets Oclgrind's variables would pass silently."""
    assert "data race" in under_oclgrind("canary")[1]


def test_kernels_on_grids_are_not_reported() -> None:
    assert unreported("grids").count("right") == len(PROGRAMS) * len(GRIDS)


def unreported(*words: str) -> str:
    """What a run prints that is reported nowhere."""
    out, reports = under_oclgrind(*words)
    assert not [line for line in reports.splitlines() if any(word in line for word in REPORTS)], reports[:3000]
    return out


def test_candidates_for_gpus_are_not_reported() -> None:
    """Of each rule some are drawn: tiles that blocks share, windows, rows and reductions over threads."""
    out = unreported("candidates", "2")
    assert {line.split()[0] for line in out.splitlines() if line.endswith("right")} == {
        family.rule for family in GPU_FAMILIES if any(name.startswith("opencl") for name in family.targets)
    }
    assert "'shared': True" in out


def test_reductions_over_threads_are_not_reported() -> None:
    assert unreported("reductions", "6").count("right") >= 4


@pytest.mark.full
def test_many_candidates_and_reductions_are_not_reported() -> None:
    assert unreported("candidates", "25").count("right") > 75
    assert unreported("reductions", "60").count("right") > 40
