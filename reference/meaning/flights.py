"""The asynchronous copies of a run: they are begun, committed in groups, and arrive when a thread waits for them.

A copy may read its source and write its destination at any time between its begin and the wait of its thread. So the
source is read at the start, and the destination is written early (order "forward"), late ("backward") or either
("shuffled"). In between, the shadow checks that nobody accesses the destination or writes the source. A thread is a
point of the loops over threads around a statement; a statement inside fewer of these loops speaks for all threads
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .findings import Access, Finding, UndefinedBehaviour

if TYPE_CHECKING:
    from .storage import Memory

Owner = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Flight:
    """One element of a copy in flight: the function that makes it arrive, and the accesses at its two ends."""

    arrive: Callable[[Any], None]  # takes the iteration in which it arrives
    written: tuple[Memory, int, Access]
    read: tuple[tuple[Memory, int, Access], ...]


@dataclass
class Flights:
    """The copies of a run that have not arrived, by thread: groups in order, the last one still open."""

    groups: dict[Owner, list[list[Flight]]] = field(default_factory=dict)

    def begin(self, owner: Owner, flight: Flight) -> None:
        """Add a copy of a thread."""
        self.groups.setdefault(owner, [[]])[-1].append(flight)
        memory, offset, access = flight.written
        memory.arriving[offset] = access
        for memory, offset, access in flight.read:
            memory.leaving.setdefault(offset, []).append(access)

    def commit(self, owner: Owner) -> None:
        """Make a group of the copies that a thread began since its last group."""
        for groups in self._of(owner):
            groups.append([])

    def wait(self, owner: Owner, pending: int, now: Any) -> None:
        """Let all but the newest `pending` groups of a thread arrive. Copies that are not in a group yet do not
        arrive.
        """
        for groups in self._of(owner):
            closed = len(groups) - 1
            for group in groups[: max(0, closed - pending)]:
                for flight in group:
                    self._land(flight, now)
            del groups[: max(0, closed - pending)]

    def _of(self, owner: Owner) -> list[list[list[Flight]]]:
        return [groups for thread, groups in self.groups.items() if thread >= owner]

    def _land(self, flight: Flight, now: Any) -> None:
        memory, offset, _ = flight.written
        memory.arriving.pop(offset, None)
        for source, place, access in flight.read:
            left = source.leaving.get(place, [])
            if access in left:
                left.remove(access)
            if not left:
                source.leaving.pop(place, None)
        flight.arrive(now)

    def finish(self, shadow: bool) -> None:
        """Check at the end of a kernel that no thread has left copies that it did not wait for."""
        missing = [flight for groups in self.groups.values() for group in groups for flight in group]
        self.groups.clear()
        if missing and shadow:
            memory, offset, access = missing[0].written
            raise UndefinedBehaviour(
                f"a kernel ends, and nothing waited for {len(missing)} elements that were to be copied to {memory.name}"
                f"\n  in:     {access.place}\n  try:    T.ptx_commit_group() and T.ptx_wait_group(0)",
                Finding("copy not waited for", memory.name, (offset,), (access,)),
            )


def under_way(memory: Memory, index: tuple[int, ...], copy: Access, access: Access) -> UndefinedBehaviour:
    """Return the error for an access to an element while a copy of it is in flight."""
    element = f"element [{', '.join(map(str, index))}] of {memory.name}"
    return UndefinedBehaviour(
        f"{element} is {access.verb} before the copy was waited for\n"
        f"  copied: {copy.place}\n  in:     {access.place}\n  try:    T.ptx_wait_group before it",
        Finding("copy under way", memory.name, index, (copy, access)),
    )
