"""Who may look at a clock. Verdicts and tests say the same on a slow and on a busy machine: budgets are in steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CLOCKS = {"time", "timeit", "datetime", "sched"}  # modules
LIMITS = {"timeout", "deadline"}  # arguments that stop something after so many seconds

_PERHAPS = re.compile(rf"import.*\b({'|'.join(CLOCKS)})\b|from +({'|'.join(CLOCKS)})\b|\b({'|'.join(LIMITS)})\s*=")

# Where verdicts are made, and the programs that they are about.
NEVER = ("minitvm/reference", "tests/reference", "tests/tir", "tests/arith", "tests/te", "tests/topi", "tests/graph")
# Each file that looks at one all the same, and why it may.
ALLOWED = {
    "tests/frontends/onnx/sizes/__main__.py": "sweeps for as many seconds as it is asked to",
    "tests/frontends/onnx/mixed_graphs/__main__.py": "sweeps for as many seconds as it is asked to",
    "tests/frontends/onnx/mixed_graphs/judging.py": "its sweep lists slow builds",
    "tests/frontends/onnx/sizes/workers.py": "a worker that hangs is ended",
    "tests/tune/farm/boards.py": "processes are waited for, and work takes a while",
    "tests/tune/farm/test_farm.py": "a cable is pulled while work is done",
    "tests/tune/test_devices.py": "a device's clock is held against the host's",
    "tests/tools/language/server/test_server.py": "a server that hangs is ended, and a step of a model takes a while",
    "tests/runtime/test_kept.py": "a process that hangs is ended",
    "tests/tune/test_remote.py": "says when a session began",
    "minitvm/reference/executable.py": "reports to listeners when a step began and ended",
    "minitvm/reference/graph.py": "reports to listeners when an operator began and ended",
    "tests/machines/scratchpad/test_viz.py": "a browser that hangs is ended",
    "tests/fuzz.py": "runs for as many minutes as it is asked to",
    "tests/compat/tvm/fuzz_tvm.py": "runs for as many minutes as it is asked to",
    "tests/compat/tvm/test_tvm.py": "a server that hangs is ended",
    "tests/compat/tvm/test_tvm_findings.py": "a process that hangs is ended",
    "tests/other_machines.py": "tests that hang are ended",
    "tests/mutants/__main__.py": "a fault that makes the compiler hang is ended; it counts as not noticed",
    "tests/records/test_database.py": "a process is ended in the middle of its writing",
    "tests/runtime/test_artifact.py": "a process that hangs is ended",
    "tests/lowering/test_cache.py": "a process that hangs is ended",
    "tests/machines/cpu/runtime/test_kernel_cache.py": "a process that hangs is ended",
    "tests/runtime/test_module.py": "a process that hangs is ended",
    "tests/machines/opencl/test_opencl_driver.py": "a process is ended while the driver compiles",
    "tests/runtime/test_robustness.py": "a call costs microseconds: the best of many, beside a yardstick",
    "tests/machines/cpu/runtime/test_team.py": "workers that fall asleep",
    "tests/test_lessons.py": "a process that hangs is ended",
    "tests/tune/test_measure.py": "a kernel that never returns is ended",
    "tests/runtime/test_workers.py": "at a moment, workers are stopped",
    "tests/tune/test_prepare.py": "a file was written now",
    "tests/test_without_packages.py": "a process that hangs is ended",
    "tests/tools/explore/test_pages.py": "a browser that hangs is ended",
    "tests/tools/explore/test_server.py": "a server or a browser that hangs is ended",
    "tests/tir/schedule/pairs.py": "its table shows the time of a row",
    "tests/export/c/c_kernels.py": "a program that never ends is ended",
}


def clocks(text: str) -> Iterator[str]:
    """The places at which a file looks at a clock, as text."""
    if not _PERHAPS.search(text):  # most files: no need to parse them
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"line {node.lineno}: {a.name}" for a in node.names if a.name.split(".")[0] in CLOCKS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in CLOCKS and not node.level:
            yield f"line {node.lineno}: {node.module}"
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                unlimited = isinstance(keyword.value, ast.Constant) and keyword.value.value is None
                if keyword.arg in LIMITS and not unlimited:
                    yield f"line {node.lineno}: {keyword.arg}="


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("text", [
    "import time", "from time import process_time", "import datetime as d", "run(timeout=3)", "settings(deadline=200)",
])  # fmt: skip
def test_a_clock_is_seen(text: str) -> None:
    assert list(clocks(text))
    assert not list(clocks("from .time import x\nsettings(deadline=None)"))


@pytest.mark.parametrize("folder", NEVER)
def test_verdicts_do_not_depend_on_a_clock(folder: str) -> None:
    seen = {str(f.relative_to(ROOT)): list(clocks(f.read_text())) for f in files(folder)}
    assert len(seen) > 2
    assert {name: places for name, places in seen.items() if places and name not in ALLOWED} == {}


def test_every_clock_of_the_tests_has_a_reason() -> None:
    seen = {str(f.relative_to(ROOT)) for f in files("tests") if list(clocks(f.read_text()))}
    assert seen - set(ALLOWED) == set(), "say why in ALLOWED, or count steps (`reference.meaning.steps`)"
    of_tests = {name for name in ALLOWED if name.startswith("tests")}
    assert of_tests - seen == set(), "these do not look at a clock any more"
