"""The channel to DRAM, which all modules share. It serves requests one after the other, in the order of their arrival.

A request that is issued at cycle t begins when the earlier ones have been served. It takes as many cycles as its bytes
need, and its data arrive `latency` cycles later. A module may have several outstanding requests, and issues the next
one when the first of them is answered. So a long transfer hides the latency of all its requests except the first, and
two modules share the bandwidth burst by burst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .memory import Dram


@dataclass(slots=True)
class Channel:
    """The cycle at which the channel is free again, and for how many cycles each module has used it."""

    dram: Dram
    free: int = 0
    used: dict[str, int] = field(default_factory=dict)

    def ask(self, who: str, cycles: int, now: int) -> tuple[int, int]:
        """Issue a request that takes `cycles` cycles. Return when service starts, and when the data arrive."""
        start = max(now, self.free)
        self.free = start + cycles
        self.used[who] = self.used.get(who, 0) + cycles
        return start, self.free + self.dram.latency


def bursts(bytes_in_a_row: int, dram: Dram) -> list[int]:
    """Return the cycles of each request for this many consecutive bytes."""
    whole, rest = divmod(bytes_in_a_row, dram.burst)
    last = [-(-rest // dram.bytes_per_cycle)] if rest else []
    return [dram.burst // dram.bytes_per_cycle] * whole + last


class OngoingTransfer:
    """A transfer in progress: the requests that it has issued, and a record of how its cycles were spent."""

    def __init__(self, channel: Channel, who: str, cycles: list[int], now: int) -> None:
        self.channel, self.who, self.cycles, self.began = channel, who, cycles, now
        self.asked: list[tuple[int, int, int]] = []  # (asked, served from, cycles)
        self.answered = 0

    def ask(self, now: int) -> Iterator[int]:
        """Issue as many requests as may be outstanding, and yield the cycle at which each is answered."""
        while len(self.asked) < len(self.cycles) and len(self.asked) - self.answered < self.channel.dram.outstanding:
            cycles = self.cycles[len(self.asked)]
            start, answered = self.channel.ask(self.who, cycles, now)
            self.asked.append((now, start, cycles))
            yield answered

    @property
    def done(self) -> bool:
        return self.answered == len(self.cycles)

    def spent(self, end: int) -> dict[str, int]:
        """Return how the cycles from the beginning to `end`, when the last data arrived, were spent.

        transfer: data are moving. contention: a request waits while others are served. latency: all outstanding
        requests wait.
        """
        spent = {"transfer": 0, "contention": 0, "latency": 0}
        cursor = self.began
        for asked, start, cycles in self.asked:
            waits_from = max(cursor, asked)
            spent["latency"] += waits_from - cursor
            spent["contention"] += start - waits_from
            spent["transfer"] += cycles
            cursor = start + cycles
        spent["latency"] += end - cursor
        return spent
