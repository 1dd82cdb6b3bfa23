"""The result of a timed run: when each instruction ran, why each module stood still, and summaries of this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

UNITS = ("fetch", "load", "compute", "store")

# The kinds of cycles of a module: work first, then the reasons for no work.
WORK = ("dispatch", "transfer", "gemm", "reset", "alu", "token")
STALLS = {
    "latency": "data are on their way from DRAM",
    "contention": "other modules use DRAM",
    "frame": "a frame is written around data that are there",
    "pipeline": "the last results are in the pipeline",
    "no command": "fetch has not brought the next instruction",
    "waits for load": "the token of a load is missing",
    "waits for compute": "the token of a computation is missing",
    "waits for store": "the token of a store is missing",
    "token queue full": "there is no room for the token",
    "command queue full": "there is no room for the next command",
    "memory": "instructions are on their way from DRAM",
    "done": "there is nothing more to do",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A unit runs an instruction in the cycles [start, end). For the fetch unit, it is the first instruction that it
    sends.
    """

    unit: str
    instruction: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A unit waits in the cycles [start, end), before `instruction` (-1 if there are no more)."""

    unit: str
    reason: str
    instruction: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenUse:
    """A token: one instruction pushed it at one cycle, and another one popped it at a later cycle."""

    queue: Any  # the machine's own, such as vta.isa.Queue
    pushed_by: int
    pushed_at: int
    popped_by: int
    popped_at: int


@dataclass(slots=True)
class Timeline:
    """The times of all events. `spent[unit][what]` holds cycles, and the cycles of each unit add up to `cycles`.

    `program` has a `name` and `instructions`. `config` has the `name`, `clock_mhz`, `macs_per_cycle` and `dram` of the
    machine, whose units are `units`. `work` lists the kinds of work that a unit's cycle can do, and `reasons` the
    reasons for a cycle without work. `micro_ops` is the number of cycles in which the array multiplies, which is the
    least that it needs. `moved` is the number of bytes that transfers move from or to DRAM.
    """

    program: Any
    config: Any
    micro_ops: int = 0
    moved: int = 0
    units: tuple[str, ...] = UNITS
    work: tuple[str, ...] = WORK
    reasons: Mapping[str, str] = field(default_factory=lambda: STALLS)
    cycles: int = 0
    intervals: list[Interval] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    tokens: list[TokenUse] = field(default_factory=list)
    spent: dict[str, dict[str, int]] = field(init=False)
    channel: dict[str, int] = field(default_factory=dict)  # cycles in which DRAM served a unit

    def __post_init__(self) -> None:
        self.spent = {unit: {} for unit in self.units}

    @property
    def bound(self) -> tuple[int, str]:
        """Return a lower bound on the cycles for any order of the same instructions, and which part needs them: the
        array or DRAM.
        """
        return max((self.micro_ops, "array"), (-(-self.moved // self.config.dram.bytes_per_cycle), "DRAM"))

    @property
    def utilisation(self) -> float:
        """The share of all cycles in which the array multiplies."""
        return self.micro_ops / self.cycles if self.cycles else 0.0

    @property
    def bandwidth(self) -> float:
        """The share of all cycles in which DRAM moves data."""
        return sum(self.channel.values()) / self.cycles if self.cycles else 0.0

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.config.clock_mhz / 1e3

    def table(self) -> list[tuple[str, dict[str, int]]]:
        """Return rows (kind, cycles of each unit) for all kinds that occur, work first."""
        rows = []
        for what in (*self.work, *self.reasons):
            row = {unit: self.spent[unit].get(what, 0) for unit in self.units}
            if any(row.values()):
                rows.append((what, row))
        return rows

    def text(self) -> str:
        """Return the summary and the table as text for a terminal."""
        lines = [
            f"{self.cycles:,} cycles, {self.milliseconds:.3f} ms at {self.config.clock_mhz} MHz",
            f"array in use {self.utilisation:.1%}, DRAM in use {self.bandwidth:.1%} ({self.config.dram.name}: "
            f"{self.config.dram.bytes_per_cycle} bytes a cycle, latency {self.config.dram.latency})",
            f"its bound, {self.bound[0]:,} cycles of the {self.bound[1]}, is {self.bound[0] / self.cycles:.1%} of that"
            if self.cycles
            else "nothing ran",
            f"{'cycles':<20}" + "".join(f"{unit:>12}" for unit in self.units),
        ]
        lines += [
            f"{what:<20}" + "".join(f"{row[unit]:>12,}" if row[unit] else f"{'-':>12}" for unit in self.units)
            for what, row in self.table()
        ]
        return "\n".join(lines)


def in_sequence(lines: Sequence[Timeline], name: str) -> Timeline:
    """Join several runs of one machine into a single run, in which each begins when the previous one has ended.

    Raises `ValueError` if there are no runs.
    """
    if not lines:
        raise ValueError("wanted at least one run")
    first = lines[0]
    whole = Timeline(first.program, first.config, 0, 0, first.units, first.work, first.reasons)
    instructions: list[Any] = []
    for line in lines:
        at, before = whole.cycles, len(instructions)
        instructions += line.program.instructions
        whole.cycles += line.cycles
        whole.micro_ops += line.micro_ops
        whole.moved += line.moved
        whole.intervals += [
            replace(i, instruction=before + i.instruction, start=at + i.start, end=at + i.end) for i in line.intervals
        ]
        whole.stalls += [
            replace(s, instruction=s.instruction if s.instruction < 0 else before + s.instruction, start=at + s.start,
                    end=at + s.end) for s in line.stalls
        ]  # fmt: skip
        whole.tokens += [
            TokenUse(t.queue, before + t.pushed_by, at + t.pushed_at, before + t.popped_by, at + t.popped_at)
            for t in line.tokens
        ]
        for unit, spent in line.spent.items():
            for what, cycles in spent.items():
                whole.spent[unit][what] = whole.spent[unit].get(what, 0) + cycles
        for unit, cycles in line.channel.items():
            whole.channel[unit] = whole.channel.get(unit, 0) + cycles
    whole.program = replace(first.program, name=name, instructions=tuple(instructions))
    return whole


def overlapping(intervals: Sequence[Interval]) -> int:
    """Return the number of cycles in which two or more of load, compute and store run at once."""
    edges = sorted(
        edge for i in intervals if i.unit != "fetch" for edge in ((i.start, 1), (i.end, -1)) if i.start < i.end
    )
    total, running, before = 0, 0, 0
    for at, change in edges:
        total += (at - before) * (running >= 2)
        running, before = running + change, at
    return total
