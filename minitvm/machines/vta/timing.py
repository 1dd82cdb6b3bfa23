"""When each instruction runs, cycle by cycle: fetch, load, compute and store with bounded queues and one DRAM.

The rules of time:

- Fetch brings instructions in bursts, keeps at most two bursts, and sends one instruction a cycle to its module, in
  order. A module sees it a cycle later. If the module's command queue is full, everything behind waits.
- A module runs one instruction at a time. It begins when all its tokens are there, takes them, and pushes its own when
  it has ended; if there is no room it waits.
- LOAD and STORE are as long as their requests (`channel`). The frame of a LOAD is written meanwhile, one element in
  each cycle.
- GEMM takes a cycle a micro-op, ALU one or, with two registers to read, two. Behind the last micro-op an instruction
  stays until its results have left the pipeline.
- FINISH, and a transfer of nothing, take one cycle.

The simulation goes from event to event: nothing changes between them, so the cycles are exact. Tiles are chosen by an
estimate of the same, `scratchpad.strategy.convolution` and `strategy.registers`.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from ...errors import InternalError
from ..scratchpad.channel import Channel, OngoingTransfer, bursts
from ..scratchpad.timeline import Interval, Stall, Timeline, TokenUse
from .config import AccelConfig
from .encoding import BYTES
from .isa import QUEUES, Alu, Gemm, Instruction, Load, Module, Program, Queue, Transfer
from .verifier import verify

MODULES = tuple(Module)


def simulate(program: Program, config: AccelConfig, *, verified: bool = False) -> Timeline:
    """Time a program. Raises VerificationError for one that breaks a rule, a hazard on a scratchpad among them.

    `verified` says that `verify` was called before.
    """
    if not verified:
        verify(program, config)
    return _Simulation(program, config).run()


class _Simulation:
    """Events, queues and units."""

    def __init__(self, program: Program, config: AccelConfig) -> None:
        self.config, self.instructions = config, program.instructions
        products = sum(one.count for one in program.instructions if isinstance(one, Gemm) and not one.reset)
        moved = sum(
            one.elements * config.element_bytes(one.memory) for one in program.instructions if isinstance(one, Transfer)
        )
        self.timeline = Timeline(program, config, products, moved)
        self.channel = Channel(config.dram)
        self.events: list[tuple[int, int, str]] = []  # (when, number, who is woken, by the answer to a request or not)
        self.count = 0
        self.commands: dict[Module, deque[int]] = {module: deque() for module in MODULES}
        self.tokens: dict[Queue, deque[tuple[int, int]]] = {queue: deque() for queue in QUEUES}
        self.fetch = _Fetch(self)
        self.units: list[_Fetch | _Unit] = [self.fetch, *(_Unit(self, module) for module in MODULES)]

    def wake(self, when: int, who: str) -> None:
        """Something happens at a cycle."""
        self.count += 1
        heappush(self.events, (when, self.count, who))

    def run(self) -> Timeline:
        """From event to event, until all are done."""
        by_name = {unit.name: unit for unit in self.units}
        now = 0
        while True:
            while sum(unit.advance(now) for unit in self.units):  # all of them, in their order
                pass
            if all(unit.done for unit in self.units):
                break
            if not self.events:
                raise InternalError(f"the timed machine stands still at cycle {now}")
            now = self.events[0][0]
            while self.events and self.events[0][0] == now:
                who = heappop(self.events)[2]
                if who:
                    by_name[who].answer(now)
        for unit in self.units:
            unit.stand(now, "done", -1)
            unit.close(now)
        self.timeline.cycles = now
        self.timeline.channel = dict(self.channel.used)
        return self.timeline


class _Standing:
    """A unit, and since when it stands still, and why."""

    name = ""

    def __init__(self, simulation: _Simulation) -> None:
        self.simulation = simulation
        self.reason, self.since, self.instruction = "", 0, -1

    def stand(self, now: int, reason: str, instruction: int) -> None:
        """From now on the unit stands still for this reason, which may be what it was."""
        if (reason, instruction) != (self.reason, self.instruction):
            self.close(now)
            self.reason, self.instruction = reason, instruction

    def close(self, now: int) -> None:
        """What it stood still for ends now."""
        if self.reason and now > self.since:
            self.spend(self.reason, now - self.since)
            stall = Stall(self.name, self.reason, self.instruction, self.since, now)
            self.simulation.timeline.stalls.append(stall)
        self.reason, self.since = "", now

    def spend(self, what: str, cycles: int) -> None:
        spent = self.simulation.timeline.spent[self.name]
        if cycles:
            spent[what] = spent.get(what, 0) + cycles


class _Fetch(_Standing):
    """Brings instructions from DRAM, and sends one a cycle."""

    name = "fetch"

    def __init__(self, simulation: _Simulation) -> None:
        super().__init__(simulation)
        self.burst = max(1, simulation.config.dram.burst // BYTES)
        self.asked = self.here = self.sent = 0  # instructions
        self.arriving: deque[int] = deque()
        self.next_at = 0  # the cycle from which on it may send again

    @property
    def done(self) -> bool:
        return self.sent == len(self.simulation.instructions)

    def answer(self, _now: int) -> None:
        """A burst is here."""
        self.here += self.arriving.popleft()

    def advance(self, now: int) -> bool:
        """Ask for what there is room for, and send an instruction if one can go."""
        simulation, total = self.simulation, len(self.simulation.instructions)
        while self.asked < total and self.asked + self.burst - self.sent <= 2 * self.burst:
            count = min(self.burst, total - self.asked)
            for cycles in bursts(count * BYTES, simulation.config.dram):
                _, answered = simulation.channel.ask(self.name, cycles, now)
            self.arriving.append(count)
            self.asked += count
            simulation.wake(answered, self.name)
        if now < self.next_at:
            return False
        if self.done:
            self.stand(now, "done", -1)
        elif self.sent == self.here:
            self.stand(now, "memory", self.sent)
        elif len(simulation.commands[self._target()]) >= simulation.config.command_depth:
            self.stand(now, "command queue full", self.sent)
        else:
            self._send(now)
            return True
        return False

    def _target(self) -> Module:
        return self.simulation.instructions[self.sent].module

    def _send(self, now: int) -> None:
        self.close(now)
        self.simulation.commands[self._target()].append(self.sent)
        self.simulation.timeline.intervals.append(Interval(self.name, self.sent, now, now + 1))
        self.spend("dispatch", 1)
        self.sent += 1
        self.since = self.next_at = now + 1
        self.simulation.wake(now + 1, "")


class _Unit(_Standing):
    """Load, compute or store: runs its instructions in order."""

    def __init__(self, simulation: _Simulation, module: Module) -> None:
        super().__init__(simulation)
        self.name, self.module = module.value, module
        self.left = sum(one.module is module for one in simulation.instructions)
        self.state = "idle"
        self.running, self.started, self.ends = -1, 0, 0
        self.moving: OngoingTransfer | None = None

    @property
    def done(self) -> bool:
        return self.left == 0

    def answer(self, now: int) -> None:
        """A request is answered."""
        assert self.moving is not None
        self.moving.answered += 1
        for when in self.moving.ask(now):
            self.simulation.wake(when, self.name)
        if self.moving.done:
            self._data_here(now)

    def advance(self, now: int) -> bool:
        """Begin or end an instruction if that can be; whether anything changed."""
        if self.state == "running" and self.moving is None and now >= self.ends:
            self.simulation.timeline.intervals.append(Interval(self.name, self.running, self.started, now))
            self.state, self.since = "ended", now
        if self.state == "ended":
            return self._push(now)
        return self.state == "idle" and self._begin(now)

    def _begin(self, now: int) -> bool:
        if self.done:
            self.stand(now, "done", -1)
            return False
        commands = self.simulation.commands[self.module]
        # What fetch sends in this cycle is seen in the next one.
        if not commands or (commands[0] == self.simulation.fetch.sent - 1 and now < self.simulation.fetch.next_at):
            self.stand(now, "no command", commands[0] if commands else -1)
            return False
        one = self.simulation.instructions[commands[0]]
        for queue in one.pops:
            if not self.simulation.tokens[queue]:
                self.stand(now, f"waits for {queue[0].value}", commands[0])
                return False
        self.close(now)
        self.running, self.started, self.state = commands[0], now, "running"
        for queue in one.pops:
            pushed_by, pushed_at = self.simulation.tokens[queue].popleft()
            self.simulation.timeline.tokens.append(TokenUse(queue, pushed_by, pushed_at, self.running, now))
        self._start(one, now)
        return True

    def _start(self, one: Instruction, now: int) -> None:
        """Ask for the data of a transfer, or see when the work will be done."""
        pipelines = self.simulation.config.pipelines
        work: dict[str, int] = {"token": 1}
        if isinstance(one, Transfer) and one.elements:
            cycles = requests(one, self.simulation.config)
            self.moving = OngoingTransfer(self.simulation.channel, self.name, cycles, now)
            for when in self.moving.ask(now):
                self.simulation.wake(when, self.name)
            return
        if isinstance(one, Gemm) and one.count:
            work = {"reset" if one.reset else "gemm": one.count, "pipeline": pipelines.gemm}
        elif isinstance(one, Alu) and one.count:
            each = pipelines.alu_two if one.immediate is None else 1
            work = {"alu": one.count * each, "pipeline": pipelines.alu}
        elif isinstance(one, Load) and _frame(one):
            work = {"frame": _frame(one)}
        self._end_at(now, work)

    def _end_at(self, begin: int, work: dict[str, int]) -> None:
        for what, cycles in work.items():
            self.spend(what, cycles)
        self.ends = begin + sum(work.values())
        self.simulation.wake(self.ends, "")

    def _data_here(self, now: int) -> None:
        """The last data came; what is left of the frame is written now."""
        assert self.moving is not None
        one = self.simulation.instructions[self.running]
        for what, cycles in self.moving.spent(now).items():
            self.spend(what, cycles)
        frame = _frame(one) if isinstance(one, Load) else 0
        self.moving = None
        self._end_at(now, {"frame": max(0, self.started + frame - now)})

    def _push(self, now: int) -> bool:
        """Give the tokens, if there is room for all; then the command has left its queue."""
        one = self.simulation.instructions[self.running]
        for queue in one.pushes:
            if len(self.simulation.tokens[queue]) >= self.simulation.config.token_depth:
                self.stand(now, "token queue full", self.running)
                return False
        self.close(now)
        for queue in one.pushes:
            self.simulation.tokens[queue].append((self.running, now))
        self.simulation.commands[self.module].popleft()
        self.left -= 1
        self.state = "idle"
        return True


def requests(transfer: Transfer, config: AccelConfig) -> list[int]:
    """The cycles of each request of an instruction; rows that lie one behind the other are one row."""
    size = config.element_bytes(transfer.memory)
    if transfer.y_size == 1 or transfer.x_stride == transfer.x_size:
        return bursts(transfer.elements * size, config.dram)
    return bursts(transfer.x_size * size, config.dram) * transfer.y_size


def _frame(load: Load) -> int:
    """The elements of a load's frame."""
    rows, columns = load.written_shape
    return rows * columns - load.elements
