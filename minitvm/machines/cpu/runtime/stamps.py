"""A program with a time stamp between its steps: when did each thread reach each step?

Stamps are steps of the executor's table like any other (`executor`), so that a timed run is still one program on the
thread team, with no Python between kernels. A stamp takes some 25 ns of each thread.

Of the steps of a loop the last iteration is timed; the time of those before it counts as the loop's own.
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
    """The steps of a bound program, a stamp before each and one after the last."""

    def __init__(self, bound: BoundProgram) -> None:
        self._count = len(bound.program.executable.steps)
        pitch = -(-(self._count + 1) // _LINE) * _LINE
        self._words = np.zeros((bound.program.team.threads, pitch), np.int64)
        self._parts = bound.parts(self._stamp)

    def _stamp(self, step: int) -> tuple[int, int, int, int]:
        return (STAMP, CLOCK, address(self._words) + 8 * step, self._words.shape[1])

    def run(self, bound: BoundProgram) -> np.ndarray[Any, Any]:
        """Run `bound` on the addresses that its argument table holds; `StampedRun.times`."""
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
