"""The ledger at the end of each lesson: what a program did, counted by the interpreter while it ran.

show({"three loops": measure(func, a, b, bias, y)})
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import minitvm
from minitvm import reference
from minitvm.events import Access
from minitvm.reference.listeners import LINE, CachedLedger
from minitvm.tir.nodes import IRModule, PrimFunc


@dataclass
class LessonLedger(CachedLedger):
    """A `CachedLedger` that also knows what was done twice.

    `loads_again` are loads of an element that was loaded before; `stores_again` are stores to an element that was
    stored before.
    """

    loads_again: int = 0
    stores_again: int = 0
    seconds: float = 0.0
    _loaded: set[tuple[str, int]] = field(default_factory=set)
    _stored: set[tuple[str, int]] = field(default_factory=set)
    _touches: Counter[tuple[str, int]] = field(default_factory=Counter)

    def load(self, access: Access) -> None:
        if access.scope == "local":
            return
        CachedLedger.load(self, access)
        element = (access.buffer, access.offset)
        self.loads_again += element in self._loaded
        self._loaded.add(element)
        self._touches[element] += 1

    def store(self, access: Access) -> None:
        if access.scope == "local":
            return
        CachedLedger.store(self, access)
        element = (access.buffer, access.offset)
        self.stores_again += element in self._stored
        self._stored.add(element)
        self._touches[element] += 1

    def touched(self, buffer: str, offset: int) -> int:
        """How often an element was loaded or stored."""
        return self._touches[buffer, offset]

    def lesson_rows(self) -> dict[str, str]:
        """What the lessons print, by name."""
        return {
            "multiplies": f"{self.operations['mul']:,}",
            "adds": f"{self.operations['add']:,}",
            "loads": f"{sum(self.loads.values()):,}",
            "stores": f"{sum(self.stores.values()):,}",
            "bytes loaded and stored": f"{sum(self.bytes_read.values()) + sum(self.bytes_written.values()):,}",
            f"bytes moved by a cache of {self.cache_lines * LINE} B": f"{self.lines_fetched * LINE:,}",
            "loaded again": f"{self.loads_again:,}",
            "stored again": f"{self.stores_again:,}",
            "time interpreted": duration(self.seconds),
        }


# Seconds of calls: what disturbs a long one is a small part of it. Who reads no times (a test) may ask for fewer.
ENOUGH = float(os.environ.get("MINITVM_LESSON_SECONDS", "0.3"))


def measure(program: PrimFunc | IRModule, *args: np.ndarray, cache_lines: int = 16) -> LessonLedger:
    """Run a program in the interpreter and count; the time is that of a run in which nobody listens."""
    counted = LessonLedger(cache_lines=cache_lines)
    reference.tir.run(program, *args, listeners=[counted])
    if ENOUGH:
        counted.seconds = best_of(3, lambda: reference.tir.run(program, *args, mode="slow", shadow=False))
    return counted


def best_of(times: int, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of the fastest of several calls: the others were disturbed. Long calls are fewer than `times`.

    `time.thread_time` as the clock leaves out the time in which other programs run. It is for calls in one thread.
    """
    found: list[float] = []
    while not found or (len(found) < times and sum(found) < ENOUGH):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)


def time_compiled(
    program: PrimFunc, args: Sequence[np.ndarray], expected: Callable[..., np.ndarray], threads: int = 1, calls: int = 5
) -> str:
    """The time of the compiled program; its last argument must then be `expected` of the others."""
    function = minitvm.build(program, threads=threads)
    function(*args)
    if not (args[-1] == expected(*args[:-1])).all():
        raise AssertionError("the compiled program computes something else")
    return duration(best_of(calls, lambda: function(*args)))


def duration(seconds: float) -> str:
    """Seconds for a person: `12.3 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    return ""


def show(columns: Mapping[str, LessonLedger | Mapping[str, str]]) -> None:
    """Print ledgers side by side, one column each."""
    rows = {name: entry.lesson_rows() if isinstance(entry, LessonLedger) else entry for name, entry in columns.items()}
    names = list(dict.fromkeys(name for column in rows.values() for name in column))
    left = max(map(len, names))
    widths = {name: max(len(name), *(len(v) for v in column.values())) for name, column in rows.items()}
    print(" " * left, *(f"{name:>{widths[name]}}" for name in rows), sep="   ")
    for row in names:
        print(f"{row:<{left}}", *(f"{rows[c].get(row, '-'):>{widths[c]}}" for c in rows), sep="   ")
