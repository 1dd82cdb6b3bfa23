"""What a run with time stamps returns: when did each thread come to each step?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .shapes import Bindings

# What `time.perf_counter` reads on Linux.
CLOCK = time.CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class StampedRun:
    """What a run made, and when.

    `times`, int64 [threads, steps + 1], are nanoseconds of CLOCK: `times[thread, i]` is when that thread came to step i
    of the executable, the last column is the end; 0 stands where a thread took no part. `sizes` are the values of
    symbolic dimensions.
    """

    outputs: list[np.ndarray[Any, Any]]
    times: np.ndarray[Any, Any]
    sizes: Bindings
