"""The result of a run with time stamps: when did each thread reach each step?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..executable import Executable, Loop
from .shapes import Bindings

# The clock of `time.perf_counter` on Linux.
CLOCK = time.CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class StampedRun:
    """The outputs of a run, and the times of its steps.

    `times`, int64 [threads, steps + 1], are nanoseconds of CLOCK: `times[thread, i]` is when that thread reached step i
    of the executable (a barrier: when it had nothing left to do), the last column is the end; 0 means that the thread
    took no part in the step. `sizes` are the values of symbolic dimensions.
    """

    outputs: list[np.ndarray[Any, Any]]
    times: np.ndarray[Any, Any]
    sizes: Bindings


def fill_skipped(times: np.ndarray[Any, Any], executable: Executable) -> None:
    """Let the steps of a loop that had no iteration take no time: they begin when what is behind the loop begins."""
    for number in reversed(range(len(executable.steps))):
        step = executable.steps[number]
        if isinstance(step, Loop):
            inside = times[:, number + 1 : number + 1 + step.steps]
            behind = np.broadcast_to(times[:, number + 1 + step.steps, None], inside.shape)
            inside[inside == 0] = behind[inside == 0]
