"""Count bank conflicts, with a listener: the extra turns that a warp's accesses to shared storage take.

Shared storage has 32 banks, each one 32-bit word wide; word w is in bank w % 32. An access of a warp takes as many
turns as the largest number of *different* words in one bank; threads that read the same word share a turn (CUDA C++
Programming Guide, "Shared Memory"). If each thread accesses 8 bytes, the warp does so in two halves; for 16 bytes, in
four quarters. A *conflict* is a turn that would not be needed if every word were in a different bank.

    banks = BankConflicts()
    reference.kernel.run(module, *arrays, listeners=[banks])
    banks.of("S", "read")

Each array is assumed to begin at bank 0. Instructions of a whole warp (`ldmatrix`) are not counted.
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
    """Counts the conflicts of all kernels that run while it listens; `threads` is the size of a block along x and y."""

    threads: tuple[int, int] = (WARP, 1)
    # (verb, buffer) -> place of a warp's access (it ends with the element size) -> lane -> where elements begin
    _warps: dict[tuple[str, str], dict[_Place, dict[int, list[int]]]] = field(default_factory=lambda: defaultdict(dict))
    _nodes: list[Any] = field(default_factory=list)  # whose identities are in `_warps`

    def thread_access(self, access: ThreadAccess) -> None:
        """Add an access to the simultaneous accesses of the thread's warp."""
        own = dict(access.threads)
        x, y, z = (own.get(f"threadIdx.{axis}", 0) for axis in "xyz")
        number = x + self.threads[0] * (y + self.threads[1] * z)
        blocks = tuple(value for axis, value in access.threads if not axis.startswith("threadIdx"))
        place = (id(access.node), access.moment, blocks, number // WARP, access.bytes)
        self._nodes.append(access.node)
        lanes = self._warps[access.verb, access.buffer].setdefault(place, defaultdict(list))
        lanes[number % WARP].append(access.offset * access.bytes)

    def of(self, buffer: str, verb: str) -> int:
        """Return the number of conflicts in accesses to a buffer; `verb` is "read" or "written"."""
        return sum(conflicts(lanes, place[-1]) for place, lanes in self._warps[verb, buffer].items())


def conflicts(lanes: Mapping[int, Sequence[int]], size: int) -> int:
    """Return the extra turns of a warp's access. `lanes` maps lanes to the bytes where their elements of `size` bytes
    begin.
    """
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
    """Yield the simultaneous accesses of a warp, one after the other: the range of bytes of each lane, where adjacent
    elements are merged.
    """
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
