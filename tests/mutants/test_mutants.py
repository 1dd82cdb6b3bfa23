"""A sample of the mutants in `make test`; all of them in `make test-full`. And: nothing in the compiler is left out."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from minitvm.tir.schedule.registry import PRIMITIVES

from . import faults  # noqa: F401  (registers them)
from .patch import MUTANTS, Moved, edit, locate

ROOT = Path(__file__).resolve().parents[2]
LEAST = 2  # faults of each part

# Modules of a package that has faults in each of its files, which change no program themselves.
CHANGES_NOTHING = {
    "minitvm.machines.simd.codegen.operands": "what spellings of instructions ask; these have the faults",
    "minitvm.machines.cpu.codegen.byte_instructions": "the spelling of one instruction, with one fault",
    "minitvm.tir.transform.target_vectors": "the width of a target's vectors",
    "minitvm.tir.transform.growth": "refuses what is too large, and changes no program",
    "minitvm.graph.passes.pipeline": "the list of the others",
}

# Of these a few are drawn: they take a fraction of a second each.
QUICK = (
    "lower_init: init lost",
    "drop_blocks: predicate dropped",
    "compact_buffers: one element too few",
    "flatten_buffers: no room for the last row's padding",
    "split: predicate dropped",
    "fuse: the outer loop runs fastest",
    "parallel: iterations that meet",
    "cache_read: a buffer that is written again later",
    "compute_at: inputs that are overwritten before",
    "compute_inline: the reader's indices in reverse",
    "rfactor: a loop that starts elsewhere",
    "rolling_buffer: inputs that change meanwhile",
    "get_loops: innermost first",
    "get_consumers: the first only",
    "sample_perfect_tile: the innermost too large",
    "inject_software_pipeline: the epilogue is lost",
    "inject_virtual_thread: the first thread only",
    "arith rules: quotients round toward zero",
    "te.create_prim_func: a condition of a reduction forgotten",
    "graph fuse: readers outside of the group",
)
SAMPLE = random.Random(20).sample(QUICK, 10)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The runner in a process of its own: it forks, and plants faults for good."""
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_sample_of_mutants_is_killed() -> None:
    # One process: the tests beside it use the other core.
    done = run("--no-control", "-j", "1", "--only", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(SAMPLE)} of {len(SAMPLE)} mutants killed"


def test_all_faults_can_be_planted() -> None:
    done = run("--plant", "-j", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_primitive_has_faults() -> None:
    found = Counter(m.part for m in MUTANTS.values() if not m.equivalent)
    own = [p.name for p in PRIMITIVES.values() if p.function.__module__.startswith("minitvm.")]
    assert {name: found[name] for name in own if found[name] < LEAST} == {}


PASSES_AND_GENERATORS = (
    "tir/transform", "codegen", "graph/passes", "machines/simd/transform", "machines/simd/codegen",
    "machines/simd/graph", "machines/cpu/codegen", "machines/gpu/transform", "machines/gpu/codegen",
    "machines/cuda/codegen", "machines/opencl/codegen",
)  # fmt: skip


@pytest.mark.parametrize("package", PASSES_AND_GENERATORS)
def test_every_pass_and_code_generator_has_faults(package: str) -> None:
    found = Counter(m.module for m in MUTANTS.values() if not m.equivalent)
    names = [f"minitvm/{package}/{f.stem}".replace("/", ".") for f in sorted((ROOT / "minitvm" / package).glob("*.py"))]
    modules = [n for n in names if not n.endswith("__init__") and n not in CHANGES_NOTHING]
    assert {name: found[name] for name in modules if found[name] < LEAST} == {}


@pytest.mark.parametrize("package", ["machines.vta", "arith", "expr", "graph", "te"])
def test_every_level_has_faults(package: str) -> None:
    own = [m for m in MUTANTS.values() if m.module.startswith(f"minitvm.{package}.") and not m.equivalent]
    assert len(own) >= LEAST


def test_equivalent_mutants_say_why() -> None:
    assert all(len(m.equivalent.split()) > 5 for m in MUTANTS.values() if m.equivalent)


def test_a_fault_whose_place_has_moved_on_is_told() -> None:
    with pytest.raises(Moved, match="0 times; wanted once"):
        edit("minitvm.tir.transform.unroll", "_unroll", "words that are not there", "")
    with pytest.raises(Moved, match="no unrolled"):
        edit("minitvm.tir.transform.unroll", "unrolled", "a", "b")


@pytest.mark.full
def test_all_mutants_are_killed() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr


WRAPPED = """
def tail(self, extent):
    # the last one
    if self.bound is not None and call(
        extent,
        self.bound,
    ):
        return f"{extent}"
"""


@pytest.mark.parametrize(
    ("old", "new", "there"),
    [
        ("call(extent, self.bound)", "call(self.bound)", "if self.bound is not None and call(self.bound):"),
        ("if self.limit is not None and", "if not self.limit and", "if not self.bound and call("),
        ("self.limit is not None and call(size, self.limit)", "size", "if extent:"),
        ("call(extent, self.bound", "call(None", "call(None,"),
    ],
)
def test_words_are_found_after_a_rename_or_a_line_break(old: str, new: str, there: str) -> None:
    if "size" in old:  # two names that are free
        assert [place.renamed for place in locate(WRAPPED, old)] == [(("limit", "bound"), ("size", "extent"))]
    (place,) = locate(WRAPPED, old)
    assert there in place.replaced(WRAPPED, new)
    ast.parse(place.replaced(WRAPPED, new))


@pytest.mark.parametrize(
    "old",
    [
        "if self.bound is None",  # other tokens
        "call(self.bound, extent)",  # another order: both names are there, so neither was renamed
        "call(limit, self.limit)",  # one name cannot be two
        "call(a, self.b, a)",
        'return f"{size}"',  # a string is one token
        "is not None_and",
    ],
)
def test_other_words_are_not_found(old: str) -> None:
    assert locate(WRAPPED, old) == []


def test_words_that_stand_twice_are_no_place() -> None:
    assert len(locate("a = f(x)\nb = f(x)", "f(x)")) == 2
    assert len(locate("a = f(x)\nb = f(y)", "f(gone)")) == 2
