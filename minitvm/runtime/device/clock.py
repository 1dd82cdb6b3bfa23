"""Measure the time of calls of a function by the device's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from .bound import BoundProgram
from .device import reported

SAMPLE = 2e-4  # seconds of device work that are timed together: events are exact to half a microsecond
LONG = 10 * SAMPLE  # a call that takes this long is timed alone, although the host's commands then count
MOST = 64  # the most calls that are timed together

Call = tuple[Sequence[Any], Sequence[Any]]  # inputs and outputs


class Clock:
    """A clock that times `calls` of a program, in groups of consecutive calls. Short calls are repeated many times in a
    group.

    `kept` holds objects that must live as long as the calls, such as copies of arguments.
    """

    def __init__(self, bound: BoundProgram, calls: Sequence[Call], kept: Any = None) -> None:
        self.device, self._kept = bound.device, kept
        self._name = bound.program.executable.name
        with reported(self.device, self._name):
            once = bound.commands(calls[:1])
            seconds = max(self.device.timed(once, once), 1e-9)
        size = min(MOST, ceil(SAMPLE / seconds))
        self._is_long = seconds > LONG
        if size >= len(calls):
            groups = [list(calls) * ceil(size / len(calls))]
        else:
            groups = [list(calls[begin : begin + size]) for begin in range(0, len(calls), size)]
        with reported(self.device, self._name):
            self._groups = [(bound.commands(group), len(group)) for group in groups]

    def __call__(self, number: int) -> float:
        """Return the mean seconds per call of group `number`. A number beyond the last group selects a group modulo the
        number of groups.
        """
        commands, count = self._groups[number % len(self._groups)]
        before, _ = self._groups[(number - 1) % len(self._groups)]
        if self._is_long:
            before = _nothing
        with reported(self.device, self._name):
            return self.device.timed(before, commands) / count


def _nothing() -> None:
    """Queue no commands."""
