"""Schedules of one function that share the steps with which they begin.

    steps = SharedSteps(func)
    one, other = steps.schedule(), steps.schedule()
    one.split("i", ...)                       # does it
    other.split("i", ...)                     # looks it up

A tuner schedules one function hundreds of times, and most of its schedules begin alike: they differ from the first
knob on. The calls of all schedules form a tree. A call is looked up in it by primitive and arguments; one that was
made at the same place before has the same result.

That is so because a call depends on the schedule's state and on its arguments alone, and states are values: modules,
handles and trees never change, and what does change (trace, history, numbers) is copied. The same place in the tree
means the same state, because all schedules begin with one state and came there by the same calls.

A schedule that is changed by anything but a call (a new seed, another function, a handle removed) leaves the tree, and
goes on by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ScheduleError
from .handles import BlockRV, LoopRV

if TYPE_CHECKING:
    from ..nodes import IRModule, PrimFunc
    from .registry import Primitive
    from .schedule import Schedule

MOST = 2000  # steps that are kept: some ten kilobytes each


class Waypoint:
    """A place in the tree: what calls came to from here, by primitive and arguments."""

    __slots__ = ("calls", "tree")

    def __init__(self, tree: SharedSteps) -> None:
        self.tree = tree
        self.calls: dict[Any, _Done | _Refused] = {}


@dataclass(frozen=True, slots=True)
class _Done:
    """A call that was taken: the schedule after it, what it returned, and the place to which it leads.

    `call` keeps what is known by its identity alive.
    """

    call: tuple[Primitive, Mapping[str, Any]]
    held: Mapping[str, Any]
    result: Any
    then: Waypoint


@dataclass(frozen=True, slots=True)
class _Refused:
    """A call that was refused: the error's text and requirement."""

    call: tuple[Primitive, Mapping[str, Any]]
    text: str
    requirement: str


class SharedSteps:
    """The tree of one function or module. The options are those of `Schedule`."""

    def __init__(self, mod: PrimFunc | IRModule, **options: Any) -> None:
        from .schedule import Schedule

        self._first = Schedule(mod, **options)
        self._root, self.size = Waypoint(self), 0

    def schedule(self) -> Schedule:
        """A schedule before its first step; all begin with the same random numbers."""
        return self._first.sharing(self._root)

    def call(self, schedule: Schedule, at: Waypoint, primitive: Primitive, arguments: Mapping[str, Any]) -> Any:
        """Make a call on a schedule that is at a place; returns its result and the next place."""
        key = id(primitive), identity(arguments)
        known = at.calls.get(key)
        if isinstance(known, _Refused):
            raise ScheduleError(known.text, known.requirement)
        if known is not None:
            schedule.take_over(known.held)
            return _copied(known.result), known.then
        if self.size >= MOST:  # schedules that are under way keep their places
            self._root, self.size = Waypoint(self), 0
        self.size += 1
        call = primitive, arguments
        try:
            result = schedule.call_alone(primitive, arguments)
        except ScheduleError as error:
            at.calls[key] = _Refused(call, str(error), error.requirement)
            raise
        done = _Done(call, schedule.held(), _copied(result), Waypoint(self))
        at.calls[key] = done
        return result, done.then


def identity(value: Any) -> Any:
    """A key that two arguments share only if a call cannot tell them apart; nodes and functions are themselves only."""
    if isinstance(value, list | tuple):
        return type(value), *map(identity, value)
    if isinstance(value, Mapping):
        return type(value), *((name, identity(item)) for name, item in value.items())
    if isinstance(value, str | int | float | None):
        return type(value), repr(value)
    return type(value), id(value.key if isinstance(value, BlockRV | LoopRV) else value)


def _copied(value: Any) -> Any:
    """A result whose lists are the caller's own."""
    return [_copied(item) for item in value] if isinstance(value, list) else value
