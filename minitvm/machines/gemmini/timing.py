"""How long programs take, cycle by cycle: three units that run ahead of each other as far as hazards permit.

- The host sends one instruction a cycle, in order, while there is room in the queue of its unit; a unit sees it in the
  next cycle. An instruction leaves its queue when it has ended.
- A unit begins its instructions in order. One begins when every earlier instruction of another unit has ended that
  wrote a row which this one touches, or that touched a row which this one writes. The hardware tracks that
  (Gemmini's reservation station), so programs have no tokens.
- MVIN and MVOUT ask DRAM for bursts, of which so many are on their way at most; the next transfer asks when the last
  burst of the one before was asked, so latency is paid once. A row of zeros takes a cycle.
- PRELOAD moves weights into the array's second set of registers, a row a cycle, while the first set is at work. It
  begins when a COMPUTE has taken what the second set held.
- COMPUTE takes a row a cycle, two at least for each command (`isa`), and ends when its last sums have left the array.

Not modelled: banks of the scratchpad, and the TLB.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import ExecutionError, InternalError, report
from ..scratchpad.channel import Channel, bursts
from ..scratchpad.timeline import Interval, Stall, Timeline
from . import isa
from .config import Gemmini

Array = np.ndarray[Any, Any]
ROWS = ("host", "load", "preload", "execute", "store")  # of a chart: PRELOAD and COMPUTE overlap
WORK = ("sends", "transfer", "weights", "multiply", "config")
REASONS = {
    "no instruction": "the host has not sent the next one",
    "waits for load": "a load has not ended that touches the same rows",
    "waits for execute": "products have not ended that touch the same rows",
    "waits for store": "a store has not ended that touches the same rows",
    "waits for weights": "the weights are not in the array yet",
    "array full": "the array holds the next weights already",
    "queue full": "there is no room in the unit's queue",
    "done": "there is nothing more to do",
}


@dataclass(slots=True)
class Footprint:
    """The rows that an instruction reads and writes, by memory; and what it costs."""

    reads: list[tuple[str, Array]]
    writes: list[tuple[str, Array]]
    cycles: int = 1
    requests: list[int] | None = None


def footprints(program: isa.Program, config: Gemmini) -> list[Footprint]:
    """What each instruction touches and costs."""
    footprints: list[Footprint] = []
    stride, apart = 1, 0
    for one in program.instructions:
        if isinstance(one, isa.ConfigEx):
            stride = one.stride
        elif isinstance(one, isa.ConfigLd):
            apart = one.stride
        if isinstance(one, isa.Mvin):
            name, first = ("acc", one.acc) if one.acc is not None else ("sp", one.sp or 0)
            rows = _rows(first, one, one.step[1])
            cost = Footprint([(name, rows)] if one.add else [], [(name, rows)], one.rows * one.lines)
            if one.source != isa.ZERO:
                nbytes = config.side * (4 if name == "acc" else 1)
                cost.requests = _requests(one, nbytes, apart, config)
            footprints.append(cost)
        elif isinstance(one, isa.Preload):
            footprints.append(Footprint([("sp", one.sp + np.arange(config.side))], [], config.side))
        elif isinstance(one, isa.Compute):
            image = _rows(one.sp, one, one.step[0], stride)
            sums = [("acc", _rows(one.acc, one, one.step[1]))]
            whole, rest = divmod(one.rows, config.side)
            cycles = one.lines * (whole * max(config.side, 2) + (max(rest, 2) if rest else 0))
            footprints.append(Footprint([("sp", image), *(sums if one.add else [])], sums, cycles))
        elif isinstance(one, isa.Mvout):
            rows = _rows(one.acc, one, one.step[1])
            requests = _requests(one, config.side, config.side, config)
            footprints.append(Footprint([("acc", rows)], [], len(rows), requests))
        else:
            footprints.append(Footprint([], []))
    return footprints


def _rows(first: int, one: Any, step: int, stride: int = 1) -> Array:
    return (first + np.arange(one.lines)[:, None] * step + np.arange(one.rows) * stride).reshape(-1)


def _requests(one: Any, nbytes: int, apart: int, config: Gemmini) -> list[int]:
    """The cycles of each request of a transfer; rows that follow each other in memory are one piece."""
    if apart == nbytes:
        whole = one.lines == 1 or one.step[0] == one.rows * nbytes
        lines, length = (1, one.lines * one.rows) if whole else (one.lines, one.rows)
        return bursts(length * nbytes, config.dram) * lines
    return bursts(nbytes, config.dram) * (one.lines * one.rows)


def hazards(program: isa.Program, config: Gemmini, costs: list[Footprint]) -> list[dict[str, int]]:
    """For each instruction, by unit, the last earlier instruction of another unit that has to end before it begins.

    Raises `ExecutionError` for a row that is not there.
    """
    sizes = {"sp": config.scratchpad_rows, "acc": config.accumulator_rows}
    wrote = {(name, unit): np.full(n, -1) for name, n in sizes.items() for unit in isa.UNITS}
    touched = {(name, unit): np.full(n, -1) for name, n in sizes.items() for unit in isa.UNITS}
    waits: list[dict[str, int]] = []
    for number, (one, cost) in enumerate(zip(program.instructions, costs, strict=True)):
        for name, rows in (*cost.reads, *cost.writes):
            if rows.min() < 0 or rows.max() >= sizes[name]:
                raise ExecutionError(
                    report(
                        f"{program.name}: instruction {number}, {one}", wanted=f"rows 0 to {sizes[name] - 1} of {name}",
                        found=f"{rows.min()} to {rows.max()}",
                    )
                )  # fmt: skip
        latest: dict[str, int] = {}
        for unit in isa.UNITS:
            if unit == one.unit:
                continue
            at = [int(wrote[name, unit][rows].max()) for name, rows in cost.reads]
            at += [int(touched[name, unit][rows].max()) for name, rows in cost.writes]
            if max(at, default=-1) >= 0:
                latest[unit] = max(at)
        waits.append(latest)
        for name, rows in (*cost.reads, *cost.writes):
            touched[name, one.unit][rows] = number
        for name, rows in cost.writes:
            wrote[name, one.unit][rows] = number
    return waits


def simulate(program: isa.Program, config: Gemmini) -> Timeline:
    """Time a program."""
    return _GemminiSimulation(program, config).run()


def by_start(program: isa.Program, config: Gemmini) -> isa.Program:
    """The same instructions in the order in which units of endless queues would begin them.

    Then loads are sent as early as their rows are free, and no queue that is full keeps another unit's instructions
    back. Each unit's order stays, and so does the order of two instructions that touch the same rows: the first one
    ends before the second begins.
    """
    endless = replace(config, depth_load=1 << 30, depth_execute=1 << 30, depth_store=1 << 30)
    starts = _GemminiSimulation(program, endless)
    starts.run()
    body, last = program.instructions[:-1], program.instructions[-1:]
    order = sorted(range(len(body)), key=lambda number: (starts.began[number], number))
    return replace(program, instructions=(*(body[number] for number in order), *last))


class _GemminiSimulation:
    """When each instruction was sent, began and ended.

    What can happen first happens first, so time never runs back, and DRAM serves requests in the order of their times.
    """

    def __init__(self, program: isa.Program, config: Gemmini) -> None:
        self.program, self.config = program, config
        self.costs = footprints(program, config)
        self.waits = hazards(program, config, self.costs)
        n = len(program.instructions)
        self.sent, self.began, self.ended = [-1] * n, [-1] * n, [-1] * n
        self.queues: dict[str, deque[int]] = {unit: deque() for unit in isa.UNITS}
        self.room_after = [-1] * n  # the instruction whose end makes room in the queue; -1 where there is room
        depths = {"load": config.depth_load, "execute": config.depth_execute, "store": config.depth_store}
        numbers: dict[str, list[int]] = {unit: [] for unit in isa.UNITS}
        for number, one in enumerate(program.instructions):
            if not isinstance(one, isa.Fence):
                mine = numbers[one.unit]
                self.room_after[number] = mine[-depths[one.unit]] if len(mine) >= depths[one.unit] else -1
                mine.append(number)
        self.next_sent = 0
        self.free = dict.fromkeys(isa.UNITS, 0)  # from when on a unit can begin the next instruction
        self.last_end = dict.fromkeys(isa.UNITS, 0)
        self.last_begin = 0  # of PRELOAD and COMPUTE
        self.weights_in = self.second_free = 0  # when the last PRELOAD is done; when the second set may be written
        self.taken = True  # whether a COMPUTE took what the second set holds
        self.channel = Channel(config.dram)
        self.moving: dict[str, _Transfer] = {}
        self.answers: dict[str, deque[int]] = {unit: deque(maxlen=config.outstanding) for unit in isa.UNITS}
        products = sum(one.rows * one.lines for one in program.instructions if isinstance(one, isa.Compute))
        moved = sum(
            one.rows * one.lines * config.side * (4 if isinstance(one, isa.Mvin) and one.acc is not None else 1)
            for one in program.instructions
            if isinstance(one, isa.Mvout) or (isinstance(one, isa.Mvin) and one.source != isa.ZERO)
        )
        self.timeline = Timeline(program, config, products, moved, ROWS, WORK, REASONS)
        self.until = dict.fromkeys(ROWS, 0)
        self.on_the_way: dict[str, tuple[int, int, int]] = {}

    def run(self) -> Timeline:
        """Until all have ended."""
        self.send()
        while any(self.queues.values()) or self.moving:
            asks = min(((move.asks_at, unit) for unit, move in self.moving.items()), default=None)
            begins = min((found for unit in isa.UNITS if (found := self.ready(unit)) is not None), default=None)
            if begins is None and asks is None:
                raise InternalError(f"the timed machine stands still with {self.queues}")
            if asks is not None and (begins is None or asks[0] <= begins[0]):
                self.ask(asks[1], asks[0])
            elif begins is not None:
                self.begin(*begins)
            self.send()
        line = self.timeline
        line.cycles = max([*self.last_end.values(), *(when + 1 for when in self.sent)], default=0)
        for row in ROWS:
            self.stand(row, line.cycles, "done", -1)
        line.channel = dict(self.channel.used)
        return line

    def send(self) -> None:
        """All instructions that the host can send, as far as it is known when there will be room."""
        while self.next_sent < len(self.program.instructions):
            number = self.next_sent
            one, after = self.program.instructions[number], self.room_after[number]
            if after >= 0 and self.ended[after] < 0:
                return
            now = max(self.until["host"], self.ended[after] if after >= 0 else 0)
            self.stand("host", now, "queue full", number)
            self.work("host", "sends", number, now, now + 1)
            self.sent[number] = now
            self.next_sent += 1
            if not isinstance(one, isa.Fence):
                self.queues[one.unit].append(number)

    def ready(self, unit: str) -> tuple[int, str, str] | None:
        """(when, unit, what it waited for) of a unit's next instruction; None where that is not known yet."""
        if not self.queues[unit] or unit in self.moving:
            return None
        number = self.queues[unit][0]
        one = self.program.instructions[number]
        free = self.last_begin if isinstance(one, isa.Preload) else self.free[unit]  # the array works meanwhile
        reasons = [(free, ""), (self.sent[number] + 1, "no instruction")]
        for other, earlier in self.waits[number].items():
            if self.ended[earlier] < 0:
                return None
            reasons.append((self.ended[earlier], f"waits for {other}"))
        if isinstance(one, isa.Preload):
            reasons.append((max(self.second_free, self.weights_in), "array full"))
        elif isinstance(one, isa.Compute):
            reasons.append((self.weights_in, "waits for weights"))
        when, why = max(reasons)
        return when, unit, why

    def begin(self, when: int, unit: str, why: str) -> None:
        """A unit begins its next instruction."""
        number = self.queues[unit].popleft()
        one, cost = self.program.instructions[number], self.costs[number]
        row = "preload" if isinstance(one, isa.Preload) else unit
        self.stand(row, when, why or "no instruction", number)
        self.began[number] = when
        if unit == "execute":
            self.last_begin = when
        if cost.requests is not None:
            self.moving[unit] = _Transfer(number, when, deque(cost.requests), asks_at=when)
            return
        end = when + cost.cycles
        what = {isa.Preload: "weights", isa.Compute: "multiply", isa.Mvin: "transfer"}.get(type(one), "config")
        self.work(row, what, number, when, end)
        if isinstance(one, isa.Preload):
            self.weights_in, self.taken = end, False
        else:
            self.free[unit] = end
        if isinstance(one, isa.Compute):
            if not self.taken:
                self.second_free, self.taken = when, True
            end += self.config.drain
        self.end(number, unit, end)

    def ask(self, unit: str, now: int) -> None:
        """A transfer asks for its next burst. When all are asked the unit can begin another transfer."""
        move, answers = self.moving[unit], self.answers[unit]
        _, answered = self.channel.ask(unit, move.requests.popleft(), now)
        answers.append(answered)
        # The next burst, of this transfer or of another one, is asked when there are few enough on their way.
        move.asks_at = max(now, answers[0]) if len(answers) == self.config.outstanding else now
        if not move.requests:
            del self.moving[unit]
            self.free[unit] = max(move.asks_at, move.began + 1)
            self.until[unit] = self.free[unit]
            self.on_the_way[unit] = (move.number, move.began, answered)
            self.end(move.number, unit, answered)

    def end(self, number: int, unit: str, when: int) -> None:
        """An instruction ends; a unit's instructions end in their order."""
        self.last_end[unit] = self.ended[number] = max(self.last_end[unit], when)

    def work(self, row: str, what: str, number: int, start: int, end: int) -> None:
        spent = self.timeline.spent[row]
        spent[what] = spent.get(what, 0) + end - start
        self.timeline.intervals.append(Interval(row, number, start, end))
        self.until[row] = end

    def stand(self, row: str, now: int, reason: str, number: int) -> None:
        """A row of the chart stood still until now."""
        if row in self.on_the_way:  # a transfer is shown until its data are there, or the next one begins
            last, began, answered = self.on_the_way.pop(row)
            self.work(row, "transfer", last, began, min(now, answered))
        since = self.until[row]
        if now > since:
            spent = self.timeline.spent[row]
            spent[reason] = spent.get(reason, 0) + now - since
            self.timeline.stalls.append(Stall(row, reason, number, since, now))
            self.until[row] = now


@dataclass(slots=True)
class _Transfer:
    """A transfer whose requests are not all asked."""

    number: int
    began: int
    requests: deque[int]
    asks_at: int
