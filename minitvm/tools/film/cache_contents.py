"""The lines that a cache holds at each access."""

from __future__ import annotations

from dataclasses import dataclass

Line = tuple[str, int]  # a buffer, and the number of a line in it: each buffer begins on a line of its own


@dataclass(frozen=True, slots=True)
class Stay:
    """A line that was in the cache from one moment up to another one (None: to the end)."""

    line: Line
    begin: int
    end: int | None


class Cache:
    """A cache of `lines` lines of `line_bytes` bytes."""

    def __init__(self, lines: int, line_bytes: int) -> None:
        from ...reference.listeners import RecentLines

        self.line_bytes = line_bytes
        self._recent = RecentLines(lines)
        self._came: dict[Line, int] = {}  # the moment at which each line in the cache came
        self.stays: list[Stay] = []
        self.accesses = self.misses = 0

    def access(self, buffer: str, offset: int, size: int, moment: int) -> bool:
        """Touch an element of `size` bytes; returns True if its line was in the cache already."""
        line = buffer, offset * size // self.line_bytes
        self.accesses += 1
        hit, dropped = self._recent.touch(line)
        if not hit:
            self.misses += 1
            self._came[line] = moment
        if dropped is not None:
            self.stays.append(Stay(dropped, self._came.pop(dropped), moment))
        return hit

    def all_stays(self) -> list[Stay]:
        """Every stay of a line in the cache, those that have not ended at the end."""
        return [*self.stays, *(Stay(line, self._came[line], None) for line in self._recent)]
