"""The time of a call: the first one, which finds memory and caches cold, and those that follow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from ...durations import duration

_T = TypeVar("_T")
_MOST_RUNS = 20
_MOST_SECONDS = 0.5  # for the runs after the first one


def timed(call: Callable[[], _T], reset: Callable[[], None] | None = None) -> tuple[_T, str]:
    """The result of the first call, and its time and that of later ones as text; `reset` is called before each."""
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    again: list[float] = []
    begun = time.perf_counter()
    while not again or (len(again) < _MOST_RUNS and time.perf_counter() - begun < _MOST_SECONDS):
        if reset is not None:
            reset()
        start = time.perf_counter()
        call()
        again.append(time.perf_counter() - start)
    runs = "one more run" if len(again) == 1 else f"median of {len(again)} more runs"
    return result, f"ran in {duration(first)} the first time, in {duration(statistics.median(again))} then ({runs})"
