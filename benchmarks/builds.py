"""Seconds of a build of the networks of `minitvm.tools.models`: with an empty cache and with a full one, two threads.

Run `python -m benchmarks.builds [resnet18 ...]`. Each build is in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from minitvm.tools import models

from . import harness

WANTED = 30.0  # seconds, at most, on two cores
_PROGRAM = (
    "import time, minitvm; from minitvm import models; from minitvm.tools.models import light; model = {model};"
    "start = time.perf_counter(); minitvm.build(model, threads=2); print(time.perf_counter() - start)"
)


def seconds(model: str) -> tuple[float, float]:
    """Of `build`, with an empty cache and with a full one; `model` is an expression of Python."""
    command = [sys.executable, "-c", _PROGRAM.format(model=model)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "MINITVM_CACHE_DIR": cache}
        cold, warm = (
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout) for _ in range(2)
        )
    return cold, warm


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all of them."""
    print(f"\nbuilds, seconds with an empty cache (at most {WANTED:.0f}) and with a full one")
    found = {}
    for name in names or models.ALL:
        cold, warm = found[name] = seconds(f"models.get({name!r})")
        print(f"  {name:<24}{cold:>8.1f}{warm:>8.1f}{'  short' if cold > WANTED else ''}", flush=True)
    harness.save("builds", [], seconds={name: {"cold": cold, "warm": warm} for name, (cold, warm) in found.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
