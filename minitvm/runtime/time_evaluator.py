"""TVM's interface for timing a compiled function: `f.time_evaluator("main", tvm.cpu(), number=10)(a, b, c).mean`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..executable import Executable, Loop
from .shapes import Bindings

# --- The result of a run with time stamps: when did each thread reach each step?


# The clock of `time.perf_counter` on Linux.
CLOCK = time.CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class StampedRun:
    """The outputs of a run, and the times of its steps.

    `times`, int64 [threads, steps + 1], holds nanoseconds of CLOCK: `times[thread, i]` is the time at which this thread
    reached step i of the executable (for a barrier: at which it had finished its work). The last column is the end; 0
    means that the thread took no part in the step. `sizes` holds the values of symbolic dimensions.
    """

    outputs: list[np.ndarray[Any, Any]]
    times: np.ndarray[Any, Any]
    sizes: Bindings


def fill_skipped(times: np.ndarray[Any, Any], executable: Executable) -> None:
    """Give the skipped steps of a loop without iterations a duration of zero: they begin when the step after the loop
    begins.
    """
    for number in reversed(range(len(executable.steps))):
        step = executable.steps[number]
        if isinstance(step, Loop):
            inside = times[:, number + 1 : number + 1 + step.steps]
            behind = np.broadcast_to(times[:, number + 1 + step.steps, None], inside.shape)
            inside[inside == 0] = behind[inside == 0]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The seconds per call. `results` holds the mean of each repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation over the repeats."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        heads = ("mean", "median", "max", "min", "std")
        row = "  ".join(f"{getattr(self, head) * 1e3:>10.4f}" for head in heads)
        return "Execution time (ms)\n" + "  ".join(f"{head:>10}" for head in heads) + "\n" + row


def evaluator(
    call: Callable[..., Any], number: int = 10, repeat: int = 1, min_repeat_ms: float = 0
) -> Callable[..., BenchmarkResult]:
    """Return a function that times calls: after one call to warm up, it measures the mean of `number` calls, `repeat`
    times.

    If a repeat is shorter than `min_repeat_ms`, `number` grows until it is long enough. Raises `InputError` for counts
    below 1.
    """
    if number < 1 or repeat < 1:
        raise InputError(f"number={number}, repeat={repeat}: wanted at least 1")

    def evaluate(*args: Any, **named: Any) -> BenchmarkResult:
        call(*args, **named)
        results = []
        calls = number
        for _ in range(repeat):
            took = _seconds(call, calls, args, named)
            while took * 1e3 < min_repeat_ms:
                calls = max(calls + 1, round(calls * min(10.0, 1.2 * min_repeat_ms / max(took * 1e3, 1e-6))))
                took = _seconds(call, calls, args, named)
            results.append(took / calls)
        return BenchmarkResult(tuple(results))

    return evaluate


def _seconds(call: Callable[..., Any], calls: int, args: Any, named: Any) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call(*args, **named)
    return time.perf_counter() - start
