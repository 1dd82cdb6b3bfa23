"""Asynchronous copies of a run: begun, committed in groups, arrived where a wait asks for them.

A copy reads its source and writes its destination at any time between where it is begun and where its thread waits for
it. So what it reads is taken at the start, what it writes is written early (order "forward"), late ("backward") or
either ("shuffled"), and in between nobody may touch the destination or write the source: the shadow says so. A thread
is a point of the loops over threads around a statement; one that stands in fewer of them speaks for all threads there.
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
    """One element under way: what makes it arrive, and the accesses at its two ends."""

    arrive: Callable[[Any], None]  # takes the iteration in which it arrives
    written: tuple[Memory, int, Access]
    read: tuple[tuple[Memory, int, Access], ...]


@dataclass
class Flights:
    """The copies of a run that have not arrived, by their threads: groups in order, the last one still open."""

    groups: dict[Owner, list[list[Flight]]] = field(default_factory=dict)

    def begin(self, owner: Owner, flight: Flight) -> None:
        """A copy of a thread is under way."""
        self.groups.setdefault(owner, [[]])[-1].append(flight)
        memory, offset, access = flight.written
        memory.arriving[offset] = access
        for memory, offset, access in flight.read:
            memory.leaving.setdefault(offset, []).append(access)

    def commit(self, owner: Owner) -> None:
        """What a thread began since its last group is a group."""
        for groups in self._of(owner):
            groups.append([])

    def wait(self, owner: Owner, pending: int, now: Any) -> None:
        """All but the newest `pending` groups of a thread arrive. What is not in a group yet does not."""
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
        """A kernel ended: with copies that nobody waited for it did something undefined."""
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
    """An element is touched while a copy of it is under way."""
    element = f"element [{', '.join(map(str, index))}] of {memory.name}"
    return UndefinedBehaviour(
        f"{element} is {access.verb} before the copy was waited for\n"
        f"  copied: {copy.place}\n  in:     {access.place}\n  try:    T.ptx_wait_group before it",
        Finding("copy under way", memory.name, index, (copy, access)),
    )
