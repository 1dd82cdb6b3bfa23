"""Run a program with a time stamp between its steps, to find when each thread reached each step.

Stamps are ordinary steps of the executor's table (`executor`), so a timed run is still one program on the thread team,
with no Python between kernels. A stamp takes about 25 ns of each thread.

The steps in a loop are timed in the last iteration. The time of earlier iterations counts for the loop itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ....executable.alignment import address
from ....runtime.steps import Stretch
from ....runtime.time_evaluator import CLOCK, fill_skipped
from .executor import STAMP

if TYPE_CHECKING:
    from .program import BoundProgram

_LINE = 16  # words in 128 bytes: words of two threads are on different cache lines


class StampedProgram:
    """The steps of a bound program, with a stamp before each step and one after the last."""

    def __init__(self, bound: BoundProgram) -> None:
        self._count = len(bound.program.executable.steps)
        pitch = -(-(self._count + 1) // _LINE) * _LINE
        self._words = np.zeros((bound.program.team.threads, pitch), np.int64)
        self._parts = bound.parts(self._stamp)

    def _stamp(self, step: int) -> tuple[int, int, int, int]:
        return (STAMP, CLOCK, address(self._words) + 8 * step, self._words.shape[1])

    def run(self, bound: BoundProgram) -> np.ndarray[Any, Any]:
        """Run `bound` on the addresses in its argument table, and return `StampedRun.times`."""
        words = self._words
        words[...] = 0

        def stamp(number: int) -> None:
            words[0, number] = time.clock_gettime_ns(CLOCK)

        bound.run_parts(self._parts, stamp)
        if not (self._parts and isinstance(self._parts[-1], Stretch)):
            stamp(self._count)
        times = words[:, : self._count + 1].copy()
        # A step at the end of a table takes until all are done, which the caller sees; a worker may not be there.
        unfinished = (times[:, :-1] != 0) & (times[:, 1:] == 0)
        times[:, 1:][unfinished] = np.broadcast_to(times[:1, 1:], unfinished.shape)[unfinished]
        fill_skipped(times, bound.program.executable)
        return times
