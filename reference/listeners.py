"""Listeners that count what a program does, for the ledgers that the lessons print."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from minitvm.events import Access, Listener, Loop

LINE = 64  # bytes that a cache fetches at a time
Line = tuple[str, int]  # a buffer, and the number of a line in it: each buffer begins on a line of its own
_FLOPS = {"add": 1, "sub": 1, "mul": 1, "div": 1, "fma": 2, "min": 1, "max": 1}


@dataclass
class Ledger(Listener):
    """Counts of one run or several.

    `loads` and `stores` count elements by buffer name, and `bytes_read` and `bytes_written` count bytes. `operations`
    counts the operations on data by name (without index arithmetic), `iterations` the iterations by loop variable, and
    `blocks` the executions of each block. `peak_bytes` is the largest amount of storage allocated at a time.
    """

    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    bytes_read: Counter[str] = field(default_factory=Counter)
    bytes_written: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    flops: int = 0
    iterations: Counter[str] = field(default_factory=Counter)
    blocks: Counter[str] = field(default_factory=Counter)
    barriers: int = 0
    allocated: int = 0
    peak_bytes: int = 0

    def load(self, access: Access) -> None:
        self.loads[access.buffer] += 1
        self.bytes_read[access.buffer] += access.bytes

    def store(self, access: Access) -> None:
        self.stores[access.buffer] += 1
        self.bytes_written[access.buffer] += access.bytes

    def operation(self, name: str, dtype: str) -> None:
        lanes = int(dtype.rsplit("x", 1)[1]) if "x" in dtype else 1
        self.operations[name] += lanes
        if dtype.startswith("float"):
            self.flops += _FLOPS.get(name, 1) * lanes

    def loop_iteration(self, loop: Loop, value: int) -> None:
        self.iterations[loop.var] += 1

    def block(self, name: str) -> None:
        self.blocks[name] += 1

    def barrier(self, scope: str) -> None:
        self.barriers += 1

    def allocate(self, buffer: str, scope: str, size: int) -> None:
        self.allocated += size
        self.peak_bytes = max(self.peak_bytes, self.allocated)

    def free(self, buffer: str, scope: str, size: int) -> None:
        self.allocated -= size

    def rows(self) -> list[tuple[str, int]]:
        """Return the ledger as rows (text, count), for printing."""
        names = sorted({*self.loads, *self.stores})
        return [
            *((f"loads of {name}", self.loads[name]) for name in names if self.loads[name]),
            *((f"stores to {name}", self.stores[name]) for name in names if self.stores[name]),
            ("multiplications", self.operations["mul"] + self.operations["fma"]),
            ("additions", self.operations["add"] + self.operations["sub"] + self.operations["fma"]),
            ("float operations", self.flops),
            ("bytes read", sum(self.bytes_read.values())),
            ("bytes written", sum(self.bytes_written.values())),
            ("storage at a time", self.peak_bytes),
        ]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {count:>12,}" for name, count in rows)


class RecentLines:
    """The lines in a fully associative cache that drops the least recently used line when it has more than `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lines: OrderedDict[Line, None] = OrderedDict()  # the last used line is last

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    def touch(self, line: Line) -> tuple[bool, Line | None]:
        """Use a line. Returns whether it was in the cache, and the line that it drops, or None."""
        if line in self._lines:
            self._lines.move_to_end(line)
            return True, None
        self._lines[line] = None
        return False, self._lines.popitem(last=False)[0] if len(self._lines) > self.most else None


@dataclass
class CachedLedger(Ledger):
    """A `Ledger` of memory that also counts the misses of a small cache.

    Buffers of scope "local" are registers: moving data to and from them is not counted. `lines_fetched` counts the
    misses of a cache of `cache_lines` lines of 64 bytes that drops the least recently used line.
    """

    cache_lines: int = 16
    lines_fetched: int = 0

    def __post_init__(self) -> None:
        self._cache = RecentLines(self.cache_lines)

    def load(self, access: Access) -> None:
        if access.scope != "local":
            Ledger.load(self, access)
            self._touch(access)

    def store(self, access: Access) -> None:
        if access.scope != "local":
            Ledger.store(self, access)
            self._touch(access)

    def _touch(self, access: Access) -> None:
        hit, _ = self._cache.touch((access.buffer, access.offset * access.bytes // LINE))
        self.lines_fetched += not hit
