"""Which lines a cache holds at each access: fully associative, the line that was used longest ago goes first (LRU)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

Spot = tuple[str, int]  # a buffer, and the number of a line in it: each buffer begins on a line of its own


@dataclass(frozen=True, slots=True)
class Stay:
    """A line that was in the cache from one moment up to another one (None: to the end)."""

    line: Spot
    begin: int
    end: int | None


class Cache:
    """A cache of `lines` lines of `line_bytes` bytes."""

    def __init__(self, lines: int, line_bytes: int) -> None:
        self.lines, self.line_bytes = lines, line_bytes
        self.held: OrderedDict[Spot, int] = OrderedDict()  # each line with the moment when it came, last used last
        self.stays: list[Stay] = []
        self.accesses = self.misses = 0

    def access(self, buffer: str, offset: int, size: int, moment: int) -> bool:
        """Touch an element of `size` bytes; returns True if its line was in the cache already."""
        line = buffer, offset * size // self.line_bytes
        self.accesses += 1
        hit = line in self.held
        if hit:
            self.held.move_to_end(line)
            return True
        self.misses += 1
        self.held[line] = moment
        if len(self.held) > self.lines:
            oldest, came = self.held.popitem(last=False)
            self.stays.append(Stay(oldest, came, moment))
        return False

    def all_stays(self) -> list[Stay]:
        """Every stay of a line in the cache, those that have not ended at the end."""
        return [*self.stays, *(Stay(line, came, None) for line, came in self.held.items())]
