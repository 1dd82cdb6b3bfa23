"""What an interpreter, the runtime or the compiler reports to a listener.

A listener subclasses `Listener` and overrides what it wants to hear; the rest costs nothing, because who reports asks
`heard(listeners, "load")` once, before the run, and leaves silent reports out. Times are seconds of
`time.perf_counter()`, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Access:
    """One element read or written: the buffer's name and scope, its flat offset in elements, and the bytes moved.

    `node` is the load or store that did it.
    """

    buffer: str
    scope: str
    offset: int
    bytes: int
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """An element that a thread of a grid read or wrote, `verb`, in storage that the threads of a block share.

    `node` is the load or store, `moment` the values of the serial loops around it, outer ones first, `threads` those of
    the loops over threads and blocks, by their axis; `offset` is in elements, `bytes` those of an element.
    """

    verb: str
    node: Any
    moment: tuple[int, ...]
    threads: tuple[tuple[str, int], ...]
    buffer: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop as a listener sees it: the variable's name, its first value, the extent, the kind and the node."""

    var: str
    start: int
    extent: int
    kind: str
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an executable or a kernel call of a host function: its position, what it does, and on what."""

    index: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that could not be had: the rule that proposed it, its knobs, the reason on one line."""

    rule: str
    knobs: Mapping[str, Any]
    reason: str


class Listener:
    """Hears a run, or a compilation. All methods do nothing here; a report nobody overrides is not even made."""

    def load(self, access: Access) -> None:
        """An element was read."""

    def store(self, access: Access) -> None:
        """An element was written."""

    def thread_access(self, access: ThreadAccess) -> None:
        """An element was read or written by a thread, in storage that the threads of a block share."""

    def operation(self, name: str, dtype: str) -> None:
        """A float or integer operation on data was done: "add", "mul", "fma", "exp", ...; not index arithmetic."""

    def loop_enter(self, loop: Loop) -> None:
        """A loop begins. Threads that meet at barriers: each phase, from one barrier to the next, is such a loop."""

    def loop_iteration(self, loop: Loop, value: int) -> None:
        """An iteration begins in which the loop's variable has this value."""

    def loop_exit(self, loop: Loop) -> None:
        """The loop that was entered last is done."""

    def block(self, name: str) -> None:
        """A block runs once, its predicate holding."""

    def barrier(self, scope: str) -> None:
        """The threads of a block meet."""

    def allocate(self, buffer: str, scope: str, size: int) -> None:
        """Storage of `size` bytes comes to life."""

    def free(self, buffer: str, scope: str, size: int) -> None:
        """Storage is given back."""

    def kernel_begin(self, name: str) -> None:
        """A kernel starts."""

    def kernel_end(self, name: str) -> None:
        """A kernel is done."""

    def step_begin(self, step: Step, time: float) -> None:
        """A step of an executable starts."""

    def step_end(self, step: Step, time: float) -> None:
        """A step of an executable is done."""

    def refused(self, refusal: Refusal) -> None:
        """A rule's candidate cannot schedule a function; after the last one the next rule is tried."""


def heard(listeners: Iterable[Listener], method: str) -> Callable[..., None] | None:
    """What to call to report `method` to all who override it; None when nobody does."""
    bound: list[Any] = [
        getattr(one, method) for one in listeners if getattr(type(one), method) is not getattr(Listener, method)
    ]
    if not bound:
        return None
    if len(bound) == 1:
        return bound[0]

    def report(*args: Any) -> None:
        for one in bound:
            one(*args)

    return report


_LISTENING: ContextVar[tuple[Listener, ...]] = ContextVar("listening", default=())


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """Let listeners hear what is reported where none can be handed over: what the compiler does inside of the block."""
    token = _LISTENING.set((*_LISTENING.get(), *listeners))
    try:
        yield
    finally:
        _LISTENING.reset(token)


@contextmanager
def unheard() -> Iterator[None]:
    """Keep what happens inside of the block from the `listening` blocks around: it is reported otherwise."""
    token = _LISTENING.set(())
    try:
        yield
    finally:
        _LISTENING.reset(token)


def listening_now() -> tuple[Listener, ...]:
    """The listeners of the `listening` blocks around."""
    return _LISTENING.get()
