"""A listener that counts bank conflicts: turns that accesses of a warp to shared storage take one after the other.

Shared storage has 32 banks, each a word of 32 bits wide; word w is in bank w % 32. What the threads of a warp access at
once takes as many turns as the bank with most *different* words is asked for, and threads that read the same word share
it (CUDA C++ Programming Guide, "Shared Memory"). Threads that access 8 bytes each do so in two halves of the warp, 16
bytes in four quarters. A *conflict* is a turn more than there would be if every word were in a bank of its own.

    banks = BankConflicts()
    reference.kernel.run(module, *arrays, listeners=[banks])
    banks.of("S", "read")

An array begins at bank 0. What a warp runs as one instruction (`ldmatrix`) is not counted: one thread stands for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitvm.events import Listener, ThreadAccess

BANKS, WORD, WARP = 32, 4, 32
_WIDEST = 16  # bytes of one access of a thread
_Place = tuple[Any, ...]


@dataclass
class BankConflicts(Listener):
    """The conflicts of all kernels that run meanwhile; `threads` are those of a block along x and y."""

    threads: tuple[int, int] = (WARP, 1)
    # (verb, buffer), then the access of a warp: by lane the bytes where elements begin, and how many they have.
    _warps: dict[tuple[str, str], dict[_Place, dict[int, list[int]]]] = field(default_factory=lambda: defaultdict(dict))
    _nodes: list[Any] = field(default_factory=list)  # whose identities are in `_warps`

    def thread_access(self, access: ThreadAccess) -> None:
        """Put an access to those of its warp that are done at the same time."""
        own = dict(access.threads)
        x, y, z = (own.get(f"threadIdx.{axis}", 0) for axis in "xyz")
        number = x + self.threads[0] * (y + self.threads[1] * z)
        blocks = tuple(value for axis, value in access.threads if not axis.startswith("threadIdx"))
        place = (id(access.node), access.moment, blocks, number // WARP, access.bytes)
        self._nodes.append(access.node)
        lanes = self._warps[access.verb, access.buffer].setdefault(place, defaultdict(list))
        lanes[number % WARP].append(access.offset * access.bytes)

    def of(self, buffer: str, verb: str) -> int:
        """How many conflicts there were in accesses of a buffer, "read" or "written"."""
        return sum(conflicts(lanes, place[-1]) for place, lanes in self._warps[verb, buffer].items())


def conflicts(lanes: Mapping[int, Sequence[int]], size: int) -> int:
    """The turns that an access of a warp takes beside those that its bytes need: `lanes` say where elements begin."""
    count = 0
    for wide in _at_once(lanes, size):
        width = max((end - begin for begin, end in wide.values()), default=WORD)
        together = WARP * WORD // max(WORD, width)
        for first in range(0, WARP, together):
            banks: dict[int, set[int]] = defaultdict(set)
            for lane in range(first, first + together):
                begin, end = wide.get(lane, (0, 0))
                for word in range(begin // WORD, -(-end // WORD)):
                    banks[word % BANKS].add(word)
            count += max(map(len, banks.values()), default=1) - 1
    return count


def _at_once(lanes: Mapping[int, Sequence[int]], size: int) -> Iterator[dict[int, tuple[int, int]]]:
    """The accesses of a warp one after the other: of each lane the bytes, with neighbours as far as one goes."""
    runs = {lane: list(_runs(starts, size)) for lane, starts in lanes.items()}
    for number in range(max(map(len, runs.values()), default=0)):
        yield {lane: own[number] for lane, own in runs.items() if number < len(own)}


def _runs(starts: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    begin, end = starts[0], starts[0] + size
    for start in starts[1:]:
        if start != end or end + size - begin > _WIDEST:
            yield begin, end
            begin = start
        end = start + size
    yield begin, end
