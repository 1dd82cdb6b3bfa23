"""Schedules of one function that share the steps with which they begin.

    steps = SharedSteps(func)
    one, other = steps.schedule(), steps.schedule()
    one.split("i", ...)                       # does it
    other.split("i", ...)                     # looks it up

A tuner schedules one function hundreds of times, and most of its schedules begin alike: they differ from the first
knob on. The calls of all schedules form a tree. A call is looked up in it by primitive and arguments; one that was
made at the same place before has the same result.

Two functions of indices are the same argument if they are one piece of code and know the same numbers (`identity`):
most are written where they are called, and made anew each time. Two index maps are, if they map the same variables
to the same expressions.

That is so because a call depends on the schedule's state and on its arguments alone, and states are values: modules,
handles and trees never change, and what does change (trace, history, numbers) is copied. The same place in the tree
means the same state, because all schedules begin with one state and came there by the same calls.

A schedule that is changed by anything but a call (a new seed, another function, a handle removed) leaves the tree, and
goes on by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ...arith.affine import structural_key
from ...errors import ScheduleError
from ...expr import DType, Var, substitute
from ..index_map import IndexMap
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


@lru_cache(maxsize=4)
def steps_of(func: PrimFunc) -> SharedSteps:
    """The tree of a function: the same one as long as no four others were asked for."""
    return SharedSteps(func)


def identity(value: Any) -> Any:
    """A key that two arguments share only if a call cannot tell them apart; most nodes are themselves only."""
    if isinstance(value, list | tuple):
        return type(value), *map(identity, value)
    if isinstance(value, Mapping):
        return type(value), *((name, identity(item)) for name, item in value.items())
    if _is_plain(value):
        return type(value), repr(value)
    if isinstance(value, IndexMap):
        return _of_map(value)
    if isinstance(value, FunctionType):
        return _of_function(value)
    return type(value), id(value.key if isinstance(value, BlockRV | LoopRV) else value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | None)


def _never_changes(value: Any) -> bool:
    return all(map(_never_changes, value)) if type(value) is tuple else _is_plain(value)


def _of_function(function: FunctionType) -> Any:
    """Its code with the numbers and names that it knows; a function that knows anything else is itself only, for that
    may change or go."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if function.__dict__ or not all(map(_never_changes, known)):
        return FunctionType, id(function)
    return FunctionType, id(function.__code__), *map(identity, known)


def _of_map(index_map: IndexMap) -> Any:
    """The names and dtypes of its variables, and its results over variables that all maps share."""
    names = tuple((var.name, str(var.dtype)) for var in index_map.initial_indices)
    places = {var: _place(p, var.dtype) for p, var in enumerate(index_map.initial_indices)}
    results = tuple(structural_key(substitute(result, places)) for result in index_map.final_indices)
    return IndexMap, names, results, identity(index_map.inverse_index_map)


@lru_cache(maxsize=256)
def _place(position: int, dtype: DType) -> Var:
    """The variable that stands for the one at a place of a map."""
    return Var(f"place_{position}", dtype)


def _copied(value: Any) -> Any:
    """A result whose lists are the caller's own."""
    return [_copied(item) for item in value] if isinstance(value, list) else value
