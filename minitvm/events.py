"""The events that interpreters, the runtime and the compiler report to listeners.

A listener subclasses `Listener` and overrides the methods for the events that it needs. Other events cost nothing: the
reporting side calls `heard(listeners, "load")` once, before the run, and skips events that no listener handles. Times
are seconds of `time.perf_counter()`, and sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of one element: the buffer's name and scope, the flat offset in elements, and the number of
    bytes.

    `node` is the load or store.
    """

    buffer: str
    scope: str
    offset: int
    bytes: int
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """A read or write (`verb`) of an element by a thread of a grid, in storage that the threads of a block share.

    `node` is the load or store. `moment` holds the values of the serial loops around it, outermost first, and `threads`
    those of the loops over threads and blocks, by axis. `offset` is in elements, and `bytes` is the size of one
    element.
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
    """A loop, for listeners: the variable's name, its first value, the extent, the kind and the node."""

    var: str
    start: int
    extent: int
    kind: str
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an executable, or a kernel call of a host function: its position, its kind, and the values it works
    on.
    """

    index: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that could not be built: the rule that proposed it, its knobs, and the reason on one line."""

    rule: str
    knobs: Mapping[str, Any]
    reason: str


class Listener:
    """Receives the events of a run or a compilation. All methods do nothing here, and an event that no listener
    overrides is not created.
    """

    def load(self, access: Access) -> None:
        """An element was read."""

    def store(self, access: Access) -> None:
        """An element was written."""

    def thread_access(self, access: ThreadAccess) -> None:
        """A thread read or wrote an element, in storage that the threads of a block share."""

    def operation(self, name: str, dtype: str) -> None:
        """An operation on float or integer data was done ("add", "mul", "fma", "exp", ...). Index arithmetic does not
        count.
        """

    def loop_enter(self, loop: Loop) -> None:
        """A loop begins. If threads meet at barriers, each phase between two barriers is reported as such a loop."""

    def loop_iteration(self, loop: Loop, value: int) -> None:
        """An iteration begins, with this value of the loop variable."""

    def loop_exit(self, loop: Loop) -> None:
        """The innermost loop that was entered is done."""

    def block(self, name: str) -> None:
        """A block runs once; its predicate holds."""

    def barrier(self, scope: str) -> None:
        """The threads of a block meet at a barrier."""

    def allocate(self, buffer: str, scope: str, size: int) -> None:
        """Storage of `size` bytes was allocated."""

    def free(self, buffer: str, scope: str, size: int) -> None:
        """Storage was freed."""

    def kernel_begin(self, name: str) -> None:
        """A kernel starts."""

    def kernel_end(self, name: str) -> None:
        """A kernel is done."""

    def step_begin(self, step: Step, time: float) -> None:
        """A step of an executable starts."""

    def step_end(self, step: Step, time: float) -> None:
        """A step of an executable is done."""

    def refused(self, refusal: Refusal) -> None:
        """A rule's candidate cannot schedule a function. After the rule's last candidate, the next rule is tried."""


def heard(listeners: Iterable[Listener], method: str) -> Callable[..., None] | None:
    """Return a function that reports `method` to all listeners that override it, or None if no listener does."""
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
    """Within this scope, these listeners receive the events of code that takes no listeners as an argument, such as the
    compiler.
    """
    token = _LISTENING.set((*_LISTENING.get(), *listeners))
    try:
        yield
    finally:
        _LISTENING.reset(token)


@contextmanager
def unheard() -> Iterator[None]:
    """Within this scope, the surrounding `listening` scopes receive no events, because the caller reports them in
    another way.
    """
    token = _LISTENING.set(())
    try:
        yield
    finally:
        _LISTENING.reset(token)


def listening_now() -> tuple[Listener, ...]:
    """Return the listeners of the surrounding `listening` scopes."""
    return _LISTENING.get()
