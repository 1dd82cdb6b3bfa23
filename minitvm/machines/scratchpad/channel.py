"""The way to DRAM, which all modules share: one request after the other, in the order in which they are asked.

A request that is asked at cycle t begins when those before it have been served, takes as many cycles as its bytes need,
and its data are there `latency` cycles later. A module may have some requests on their way; the next one is asked when
the first of them is answered. So a long transfer hides the latency of all its requests but the first, and two modules
share the bandwidth burst by burst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .memory import Dram


@dataclass(slots=True)
class Channel:
    """When the channel is free again, and for how many cycles it was used by whom."""

    dram: Dram
    free: int = 0
    used: dict[str, int] = field(default_factory=dict)

    def ask(self, who: str, cycles: int, now: int) -> tuple[int, int]:
        """Ask for a request of so many cycles; returns when it is served from, and when its data are there."""
        start = max(now, self.free)
        self.free = start + cycles
        self.used[who] = self.used.get(who, 0) + cycles
        return start, self.free + self.dram.latency


def bursts(bytes_in_a_row: int, dram: Dram) -> list[int]:
    """The cycles of each request for so many bytes that follow each other."""
    whole, rest = divmod(bytes_in_a_row, dram.burst)
    last = [-(-rest // dram.bytes_per_cycle)] if rest else []
    return [dram.burst // dram.bytes_per_cycle] * whole + last


class OngoingTransfer:
    """One transfer on its way: which requests were asked, and what its cycles were spent on."""

    def __init__(self, channel: Channel, who: str, cycles: list[int], now: int) -> None:
        self.channel, self.who, self.cycles, self.began = channel, who, cycles, now
        self.asked: list[tuple[int, int, int]] = []  # (asked, served from, cycles)
        self.answered = 0

    def ask(self, now: int) -> Iterator[int]:
        """Ask for as many requests as may be on their way; yields when each is answered."""
        while len(self.asked) < len(self.cycles) and len(self.asked) - self.answered < self.channel.dram.outstanding:
            cycles = self.cycles[len(self.asked)]
            start, answered = self.channel.ask(self.who, cycles, now)
            self.asked.append((now, start, cycles))
            yield answered

    @property
    def done(self) -> bool:
        return self.answered == len(self.cycles)

    def spent(self, end: int) -> dict[str, int]:
        """The cycles from the beginning to `end`, when the last data came, by what they were spent on.

        transfer: data move. contention: a request waits while others are served. latency: all that is on its way waits.
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
