"""The steps of a run, as a listener hears them.

A step is one statement with the elements that it reads and the one that it writes; all lanes of a vector belong to one
step. Steps of a serial loop follow each other. The iterations of a parallel, vectorised or thread loop promise no
order, so the film shows them side by side: first step with first step, second with second. A barrier ends a phase: the
interpreter reports each phase as a loop over the threads of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ...errors import InputError
from ...events import Access, Listener, Loop
from ...tir import nodes as t

MOST_ACCESSES = 150_000


@dataclass(frozen=True, slots=True)
class Touch:
    """One access: "read" or "written", the buffer, the element by its flat offset."""

    verb: str
    buffer: str
    offset: int


@dataclass(slots=True)
class Line:
    """A line of the program: a loop, or a statement (`loop` is None), `depth` loops deep."""

    depth: int
    loop: Loop | None
    node: Any
    lines: list[Line] = field(default_factory=list)  # those inside, in the order in which they first ran

    def walk(self) -> Iterator[Line]:
        """The line and all lines inside, from top to bottom."""
        yield self
        for line in self.lines:
            yield from line.walk()


@dataclass(slots=True)
class Step:
    """One statement that ran: what it touched, its line, and the values of the loops around it, outermost first."""

    touches: list[Touch]
    line: Line
    loops: tuple[tuple[Line, int], ...]


BARRIER = object()  # stands for the node of all barriers of a loop
Group = list[Step]  # steps that happen at the same time


@dataclass(slots=True)
class _Open:
    """A loop that runs now; `iterations` are those of a loop without an order, each a list of groups."""

    line: Line
    outside: list[Group]
    iterations: list[list[Group]] | None
    value: int = 0


class Recording(Listener):
    """Writes down the steps of a run; `groups` are in the order of the film."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.program = Line(-1, None, None)  # its lines are those of the program
        self.groups: list[Group] = []
        self.scopes: dict[str, str] = {}
        self.sizes: dict[str, tuple[int, int]] = {}  # of each buffer: elements, at least; the bytes of an element
        self._open: list[_Open] = []
        self._pending: list[Touch] = []
        self._writer: Any = None  # the node that wrote last in the step that is pending
        self._by_node: dict[tuple[int, int], Line] = {}
        self._count = 0

    # --- what the interpreter reports ------------------------------------------------------------------------------

    def loop_enter(self, loop: Loop) -> None:
        """A loop begins."""
        self._flush()
        together = loop.kind in t.CONCURRENT
        self._open.append(_Open(self._line(loop.node, loop), self.groups, [] if together else None))

    def loop_iteration(self, loop: Loop, value: int) -> None:  # noqa: ARG002 (a listener's method)
        """An iteration begins."""
        self._flush()
        current = self._open[-1]
        current.value = value
        if current.iterations is not None:
            self.groups = []
            current.iterations.append(self.groups)

    def loop_exit(self, loop: Loop) -> None:  # noqa: ARG002 (a listener's method)
        """The innermost loop is done."""
        self._flush()
        current = self._open.pop()
        self.groups = current.outside
        # Nothing orders the iterations of such a loop, so "all first steps, then all second steps" is one of the orders
        # that the program allows.
        for together in zip_longest(*(current.iterations or ()), fillvalue=()):
            self.groups.append([step for group in together for step in group])

    def load(self, access: Access) -> None:
        """An element was read."""
        if self._writer is not None:
            self._flush()
        self._touch("read", access)

    def store(self, access: Access) -> None:
        """An element was written; the lanes of one vector store belong together."""
        if self._writer is not None and self._writer is not access.node:
            self._flush()
        self._touch("written", access)
        self._writer = access.node

    def barrier(self, scope: str) -> None:  # noqa: ARG002 (a listener's method)
        """A thread waits for the others: a step that touches nothing."""
        self._flush()
        self._writer = BARRIER
        self._flush(empty=True)

    # --- at the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The run is over, perhaps in the middle of a loop, by an error."""
        while self._open:
            self.loop_exit(Loop("", 0, 0, ""))
        self._flush()

    def _touch(self, verb: str, access: Access) -> None:
        self._count += 1
        if self._count > MOST_ACCESSES:
            raise InputError(
                f"the film of {self.name} is too long\n"
                f"  wanted: at most {MOST_ACCESSES:,} elements read or written\n"
                f"  found:  more; loops so far: {', '.join(self._extents()) or 'none'}\n"
                "  try:    smaller shapes, or fewer iterations; the order is the same"
            )
        self._pending.append(Touch(verb, access.buffer, access.offset))
        self.scopes.setdefault(access.buffer, access.scope)
        size, _ = self.sizes.get(access.buffer, (0, 0))
        self.sizes[access.buffer] = max(size, access.offset + 1), access.bytes

    def _extents(self) -> list[str]:
        return [f"{o.line.loop.var} of {o.line.loop.extent}" for o in self._open if o.line.loop is not None]

    def _flush(self, empty: bool = False) -> None:
        """End the step that is pending."""
        if self._pending or empty:
            around = tuple((o.line, o.value) for o in self._open)
            self.groups.append([Step(self._pending, self._line(self._writer, None), around)])
            self._pending = []
        self._writer = None

    def _line(self, node: Any, loop: Loop | None) -> Line:
        """The line of a node inside of the loops that are open; a new one where the node runs for the first time."""
        outer = self._open[-1].line if self._open else self.program
        key = id(outer), id(node)
        if key not in self._by_node:
            line = self._by_node[key] = Line(outer.depth + 1, loop, node)
            if node is not None:  # steps that only read have no line of their own
                outer.lines.append(line)
        return self._by_node[key]


def values(loops: tuple[tuple[Line, int], ...]) -> Mapping[str, int]:
    """The values of the loops around a step, by the names of their variables."""
    return {line.loop.var: value for line, value in loops if line.loop is not None}
