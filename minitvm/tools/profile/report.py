"""The result of a profile: a row per operator, and the timeline of one run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .peak_rates import Machine


@dataclass(frozen=True, slots=True)
class Row:
    """One operator: its time, its work, and a lower bound of the time that the machine needs for that work.

    `seconds` is the time from a thread's arrival at the operator to its arrival at the next one, in the mean of the
    threads: what one thread does for another counts as its share. `waiting` is the part of the team's time that threads
    spend at its barriers with nothing to do. Operators that need nothing of one another have no barrier between them:
    what threads wait for them counts as the last one's. `flops` are operations on data (floats, or integers in a
    quantised network), `bytes` the bytes that its kernels read and write, each byte once per kernel. `compute_seconds`
    is the time of the operations at the machine's peak, where an addition without a multiplication counts as both;
    `memory_seconds` is the time of the bytes, `levels` its parts by level of memory.
    `exact` is false if only a run can determine the work. `values` are the model's names for the operator's results,
    `nodes` those for the nodes that it computes.
    `refusal` is why the operator does not run on the machine that the network was compiled for, "" if it does.
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
    refusal: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def share_of_peak(self) -> float:
        """`rate` as a share of the machine's peak."""
        return self.rate / self.peak

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def bound(self) -> str:
        """The side of the roofline: "compute" or "memory"; "-" for an operator that does neither."""
        if not self.flops and not self.bytes:
            return "-"
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"

    @property
    def bound_seconds(self) -> float:
        """The least time that the roofline allows."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def share_of_bound(self) -> float:
        """The operator's bound divided by its time: 1 is on the roof.

        More than 1 means that bytes came from a nearer level than in the model of a least-recently-used cache.
        """
        return self.bound_seconds / self.seconds if self.seconds else 0.0

    @property
    def source(self) -> str:
        """The level of memory that most of the time for bytes is spent on."""
        return max(self.levels, key=lambda part: part[1])[0] if self.levels else "-"


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of a program by operator. Rows are in the order in which the program runs.

    `seconds` is the best time of the program with stamps, `plain_seconds` of the program as it is, the call from Python
    included; `disturbance` is how many times as long its median took. A row describes its operator's best run;
    `timeline` is the best single run: (operator, kernel, thread, start, end), times in seconds from the run's start; at
    a barrier the kernel is "wait".
    """

    name: str
    machine: Machine
    runs: int
    seconds: float
    plain_seconds: float
    rows: tuple[Row, ...]
    timeline: tuple[tuple[str, str, int, float, float], ...]
    disturbance: float = 1.0

    @property
    def threads(self) -> int:
        return self.machine.threads

    @property
    def flops(self) -> int:
        """Operations of one run."""
        return sum(row.flops for row in self.rows)

    def row(self, operator: str) -> Row:
        """The row of an operator, by the name that `minitvm show` prints, or of a node by its name in the model.

        Raises `InputError` where there is none.
        """
        from ...errors import InputError, nearest

        for row in self.rows:
            if row.operator == operator or operator in row.nodes:
                return row
        names = [name for row in self.rows for name in (row.operator, *row.nodes)]
        raise InputError(f"no operator {operator}; {nearest(operator, names)}")

    def table(self, by_time: bool = True) -> str:
        """The rows as text, the slowest first (else in program order)."""
        from .table import table

        return table(self, by_time)

    def __str__(self) -> str:
        return self.table()

    def trace(self) -> dict[str, Any]:
        """The timeline in the trace event format that chrome://tracing and ui.perfetto.dev read."""
        from .trace_events import trace

        return trace(self)

    def save_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write `trace()` as JSON."""
        from .trace_events import save

        return save(self, path)

    def save_roofline(self, path: str | os.PathLike[str]) -> Path:
        """Draw the operators under the machine's roofline, as a PNG. Needs matplotlib, the extra `viz`."""
        from .roofline import save

        return save(self, path)
