"""How many (program, schedule) pairs the oracle checks in a second, on one core.

    python -m benchmarks.oracle [PAIRS]

Programs and schedules are those of `minitvm.reference.strategies`: up to four blocks, up to six legal steps. A check
runs the modes exact, field and shadow. With lowering, the kernel-level module is made and compared with the program
before its schedule. What bounds it is Python: a NumPy call takes a microsecond, whatever the size of a tensor.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from minitvm.errors import MinitvmError
from minitvm.reference import check
from minitvm.reference.strategies import Scheduled, scheduled
from minitvm.target import Target
from minitvm.tir.transform import lower

from . import harness

PAIRS = 100
WANTED_TIR, WANTED_KERNEL = 20.0, 5.0  # pairs a second


def pairs(count: int) -> list[Scheduled]:
    """Random pairs, the same every time."""
    drawn: list[Scheduled] = []

    @settings(max_examples=count, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(scheduled(min_steps=1))
    def collect(pair: Scheduled) -> None:
        drawn.append(pair)

    collect()
    return drawn


def at_tir_level(pair: Scheduled) -> Any:
    """The schedule against the program."""
    return check(pair.before, pair.after)


def at_kernel_level(pair: Scheduled) -> Any:
    """The lowered schedule against the program."""
    return check(pair.before, lower(pair.after, Target("cpu"), "f"))


def seconds_each(judge: Callable[[Scheduled], Any], drawn: list[Scheduled]) -> float:
    """Mean seconds of a check; RuntimeError for a pair that is judged different."""
    start = time.perf_counter()
    for pair in drawn:
        try:
            verdict = judge(pair)
        except MinitvmError as error:
            raise RuntimeError(f"{error}\n{pair!r}") from error
        if not verdict:
            raise RuntimeError(f"{verdict}\n{pair!r}")
    return (time.perf_counter() - start) / len(drawn)


def main(arguments: list[str] | None = None) -> None:
    """Measure on so many pairs, 100 by default."""
    count = int(arguments[0]) if arguments else PAIRS
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = time.perf_counter()
    drawn = pairs(count)
    drawing = (time.perf_counter() - start) / len(drawn)
    rows = []
    for name, judge, wanted in (("tir", at_tir_level, WANTED_TIR), ("kernel", at_kernel_level, WANTED_KERNEL)):
        seconds_each(judge, drawn[:3])  # imports, and what is compiled once
        each = seconds_each(judge, drawn)
        rows.append(harness.Row(f"{name}, {1 / each:.0f} a second", 1, each, 1 / wanted, f"{wanted:.0f} a second", 1.0))
    harness.table(f"checks of {len(drawn)} random (program, schedule) pairs", rows)
    print(f"  drawing a pair, its schedule included, took {drawing * 1e3:.1f} ms")
    harness.save("oracle", rows, drawing=drawing)


if __name__ == "__main__":
    main(sys.argv[1:])
