"""Schedules of one function that share their first steps.

    steps = SharedSteps(func)
    one, other = steps.schedule(), steps.schedule()
    one.split("i", ...)                       # does it
    other.split("i", ...)                     # looks it up

A tuner schedules one function hundreds of times, and most of its schedules start with the same steps, up to the first
choice in which they differ. The calls of all schedules form a tree. A call is looked up in the tree by primitive and
arguments; if it was already made at the same node, its result is reused.

Two index functions count as the same argument if they have the same code and use the same numbers (`identity`): most of
them are lambdas in the call, which are created again each time. Two index maps count as the same argument if they map
the same variables to the same expressions.

Results can be shared because a call depends only on the schedule's state and on its arguments, and states are values:
modules, handles and trees never change, and the parts that do change (trace, history, numbers) are copied. The same
node in the tree always means the same state, because all schedules start from one state and reached the node by the
same calls.

A schedule that is changed by anything other than a call (a new seed, another function, a removed handle) leaves the
tree. From then on, its calls are not shared.
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
    """A node in the tree. It stores the results of the calls that were made there, keyed by primitive and arguments."""

    __slots__ = ("calls", "tree")

    def __init__(self, tree: SharedSteps) -> None:
        self.tree = tree
        self.calls: dict[Any, _Done | _Refused] = {}


@dataclass(frozen=True, slots=True)
class _Done:
    """A call that succeeded: the state of the schedule after it, its result, and the node that it leads to.

    `call` keeps the objects alive that are compared by identity, so that no other object gets the same id.
    """

    call: tuple[Primitive, Mapping[str, Any]]
    held: Mapping[str, Any]
    result: Any
    then: Waypoint


@dataclass(frozen=True, slots=True)
class _Refused:
    """A call that was refused, with the text and the requirement of the error."""

    call: tuple[Primitive, Mapping[str, Any]]
    text: str
    requirement: str


class SharedSteps:
    """The tree of steps for a function or module. The options are those of `Schedule`."""

    def __init__(self, mod: PrimFunc | IRModule, **options: Any) -> None:
        from .schedule import Schedule

        self._first = Schedule(mod, **options)
        self._root, self.size = Waypoint(self), 0

    def schedule(self) -> Schedule:
        """Return a schedule with no steps yet. All schedules of one tree start with the same random numbers."""
        return self._first.sharing(self._root)

    def call(self, schedule: Schedule, at: Waypoint, primitive: Primitive, arguments: Mapping[str, Any]) -> Any:
        """Make a call on a schedule that is at node `at`; return the result of the call and the next node."""
        key = id(primitive), identity(arguments)
        known = at.calls.get(key)
        if isinstance(known, _Refused):
            raise ScheduleError(known.text, known.requirement)
        if known is not None:
            schedule.take_over(known.held)
            return _copied(known.result), known.then
        if self.size >= MOST:  # unfinished schedules keep their places
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
    """Return the tree for a function. The trees of the last four functions are cached."""
    return SharedSteps(func)


def identity(value: Any) -> Any:
    """Return a key that two arguments share only if no call can tell them apart. Most nodes equal only themselves."""
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
    """Return a key for a function, made from its code and the numbers and names that it uses.

    A function that uses anything else equals only itself, because such an object may change or disappear.
    """
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if function.__dict__ or not all(map(_never_changes, known)):
        return FunctionType, id(function)
    return FunctionType, id(function.__code__), *map(identity, known)


def _of_map(index_map: IndexMap) -> Any:
    """Return a key for an index map: the names and dtypes of its variables, and its results in terms of variables that
    all maps share.
    """
    names = tuple((var.name, str(var.dtype)) for var in index_map.initial_indices)
    places = {var: _place(p, var.dtype) for p, var in enumerate(index_map.initial_indices)}
    results = tuple(structural_key(substitute(result, places)) for result in index_map.final_indices)
    return IndexMap, names, results, identity(index_map.inverse_index_map)


@lru_cache(maxsize=256)
def _place(position: int, dtype: DType) -> Var:
    """Return the shared variable for a position among a map's variables."""
    return Var(f"place_{position}", dtype)


def _copied(value: Any) -> Any:
    """Copy the lists in a result, so that the caller may change them."""
    return [_copied(item) for item in value] if isinstance(value, list) else value
