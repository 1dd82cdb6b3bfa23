"""What a profile says: a row an operator, and the run that it is of."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .machine import Machine


@dataclass(frozen=True, slots=True)
class Row:
    """One operator: what it took, what it did, and what the machine would need for that at least.

    `seconds` run from the moment at which thread 0 comes to it until all threads are through; `waiting` is the part of
    the team's time in it that threads spend at its barriers. `flops` are operations on data (floats, or integers in a
    quantised network), `bytes` what its kernels read and write, each byte once a kernel. `compute_seconds` is what
    the operations take at the machine's peak, an addition without a multiplication as long as both;
    `memory_seconds` what the bytes take, `levels` how much of that goes to each level of memory that they come from.
    `exact` is false where only a run can tell how much is done. `values` are the names that the model gives to what
    the operator computes.
    """

    operator: str
    kernels: tuple[str, ...]
    seconds: float
    waiting: float
    flops: int
    bytes: int
    levels: tuple[tuple[str, float], ...]
    compute_seconds: float
    memory_seconds: float
    peak: float
    exact: bool = True
    values: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Operations in a second."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def share_of_peak(self) -> float:
        """`rate` as a part of the machine's peak."""
        return self.rate / self.peak

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def bound(self) -> str:
        """Which side of the roofline: "compute" or "memory"; "-" for what does neither."""
        if not self.flops and not self.bytes:
            return "-"
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"

    @property
    def bound_seconds(self) -> float:
        """The least time that the roofline allows."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def share_of_bound(self) -> float:
        """How near to its bound the operator comes: 1 is on the roof.

        More than 1 says that bytes came from a nearer level than a cache that drops the oldest would have them in.
        """
        return self.bound_seconds / self.seconds if self.seconds else 0.0

    @property
    def source(self) -> str:
        """The level of memory that most of the time for bytes is spent on."""
        return max(self.levels, key=lambda part: part[1])[0] if self.levels else "-"


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a program goes. Rows are in the order in which the program runs.

    `seconds` is the best time of the program with stamps, `plain_seconds` of the program as it is, the call from Python
    included. A row is of its operator's best run; `timeline` is one run, the best: (operator, kernel, thread, start,
    end), times in seconds from the run's start; "wait" stands for a kernel at a barrier.
    """

    name: str
    machine: Machine
    runs: int
    seconds: float
    plain_seconds: float
    rows: tuple[Row, ...]
    timeline: tuple[tuple[str, str, int, float, float], ...]

    @property
    def threads(self) -> int:
        return self.machine.threads

    @property
    def flops(self) -> int:
        """Operations of one run."""
        return sum(row.flops for row in self.rows)

    def row(self, operator: str) -> Row:
        """The row of an operator, by the name that `minitvm show` prints; raises `InputError`."""
        from ..errors import InputError, nearest

        for row in self.rows:
            if row.operator == operator:
                return row
        raise InputError(f"no operator {operator}; {nearest(operator, [row.operator for row in self.rows])}")

    def table(self, by_time: bool = True) -> str:
        """The rows as text, the slowest first (else in program order)."""
        from .table import table

        return table(self, by_time)

    def __str__(self) -> str:
        return self.table()

    def trace(self) -> dict[str, Any]:
        """The timeline in the trace event format that chrome://tracing and ui.perfetto.dev read."""
        from .trace import trace

        return trace(self)

    def save_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write `trace()` as JSON."""
        from .trace import save

        return save(self, path)

    def save_roofline(self, path: str | os.PathLike[str]) -> Path:
        """Draw the operators under the machine's roofline, as a PNG. Needs matplotlib, the extra `viz`."""
        from .roofline import save

        return save(self, path)
