"""The quick tests as other machines would run them: `python -m tests.other_machines [NAMES]`, part of `make test-full`.

A test's verdict is the same on every machine. Each variant describes another CPU as the host, so that schedules and
vectors are those of such a machine. Code that is generated for it runs here: no variant names an instruction that the
compiler could not replace. `one-core` may use a single core.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
CPU, ONE_CORE = "MINITVM_CPU", "MINITVM_TEST_ONE_CORE"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "sse": {CPU: "x86-64"},
    "avx2": {CPU: "haswell"},
    "avx512": {CPU: "skylake-avx512"},
    "zen4": {CPU: "znver4"},
    "one-core": {ONE_CORE: "1"},
}


def command(name: str) -> list[str]:
    """What runs the quick tests: by two processes, or by one where there is one core."""
    several = [] if name == "one-core" else ["-n", "2", "--dist", "worksteal"]
    return [sys.executable, "-m", "pytest", "-q", *several, "-p", "tests.quick", "-p", "tests.other_machines"]


def pytest_configure() -> None:
    """As a plugin: leave the process one core, if the variant says so."""
    if os.environ.get(ONE_CORE) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main(names: Sequence[str]) -> int:
    """Run the variants of these names, or all; the number of those that fail."""
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        print(f"no variant {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
        return 2
    failed = []
    for name in names or VARIANTS:
        print(f"== {name}", flush=True)
        setting = {**os.environ, **VARIANTS[name], "HYPOTHESIS_PROFILE": "ci"}
        if subprocess.run(command(name), cwd=ROOT, env=setting, timeout=10 * PATIENCE, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else f"{len(names or VARIANTS)} machines agree")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
