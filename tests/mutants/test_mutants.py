"""A sample of the mutants in `make test`, one a part; all of them, and their control run, in `make test-full`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Quick ones, from different parts of the compiler.
SAMPLE = (
    "lower_init: init lost",
    "drop_blocks: predicate dropped",
    "compact_buffers: one element too few",
    "vectorize: stride one, whatever the index says",
    "split_host: no barrier: parallel loops share a kernel",
    "split: predicate dropped",
    "fuse: the outer loop runs fastest",
    "parallel: a reduction loop",
    "compute_inline: the reader's indices in reverse",
    "decompose_reduction: the init is lost",
    "arith normal form: a - b is a + b",
    "graph fuse: readers outside of the group",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The runner in a process of its own: it forks, and plants faults for good."""
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_sample_of_mutants_is_killed() -> None:
    # One process: the tests beside it use the other core.
    done = run("--no-control", "-j", "1", "-s", "60", "--only", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(SAMPLE)} of {len(SAMPLE)} mutants killed"


def test_a_fault_whose_place_has_moved_on_is_told() -> None:
    from .patch import Moved, edit

    with pytest.raises(Moved, match="0 times; wanted once"):
        edit("minitvm.tir.transform.unroll", "_unroll", "words that are not there", "")
    with pytest.raises(Moved, match="no unrolled"):
        edit("minitvm.tir.transform.unroll", "unrolled", "a", "b")


@pytest.mark.full
def test_all_mutants_are_killed() -> None:
    done = run("-s", "40")
    assert done.returncode == 0, done.stdout + done.stderr
