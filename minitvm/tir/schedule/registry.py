"""The registry of primitives: a primitive is a function together with its requirements and the space of its calls.

    @primitive(past="was split into", aka={"Halide": "split"}, requires=[req.plain_loops, req.starts_at_zero, ...])
    def split(state, loop: For, factors: Sequence[...], preserve_unit_iters: bool = True) -> list[For]:
        "...docstring with a before/after program..."

    split.refuses(req.starts_at_zero, "sch.split(i, [2, None])", _FROM_TWO)
    split.refuses(covers, "sch.split(i, [2, 3])", on.MATMUL)

    @split.space
    def _(state): yield (loop, [None, 4]) ...

A bad call for each requirement follows the function. It is made on a small program: a text above the function, or one
of the module `programs`, which is imported as `on`.

Many things are derived from this registration: the `Schedule` method, the trace instruction, the text of `minitvm
explain`, the page and the example in the documentation, the error gallery, the calls that property tests draw, and the
moves of a tuner. Arguments annotated `For` or `BlockRealize` are handles for the caller and nodes for the function;
returned nodes become handles again. A primitive can also be registered from outside the package.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError, InternalError, ScheduleError, nearest
from ..analysis.failure import Failure as Failure
from ..nodes import BlockRealize, For
from .state import ScheduleState


class Refused(Exception):
    """Raised inside a primitive if a requirement does not hold. The `Schedule` converts it to a `ScheduleError`."""

    def __init__(self, requirement: Requirement, failure: Failure) -> None:
        super().__init__(requirement.name)
        self.requirement = requirement
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Requirement:
    """A named condition that must hold for a call to be legal.

    `check` has a parameter `state` and any of the primitive's parameters (`loops` can also stand for all arguments that
    are loops), and returns a `Failure` or None. `statement` says formally what must hold.
    """

    name: str
    statement: str
    check: Callable[..., Failure | None]

    def failure(self, state: ScheduleState, arguments: Mapping[str, Any]) -> Failure | None:
        """Return how a call violates the requirement, or None if it does not."""
        available: dict[str, Any] = {"state": state, **arguments}
        if "ordered_loops" in available:
            available.setdefault("loops", available["ordered_loops"])
        available.setdefault("loops", tuple(value for value in arguments.values() if isinstance(value, For)))
        parameters = _parameters(self.check)
        missing = [name for name, needed in parameters.items() if needed and name not in available]
        if missing:
            raise InternalError(f"requirement {self.name} reads {', '.join(missing)}, no argument of the primitive")
        return self.check(**{name: available[name] for name in parameters if name in available})

    def refuse(self, failure: Failure) -> Refused:
        """Return the exception to raise if the requirement turns out to be violated while the primitive runs."""
        return Refused(self, failure)


@functools.cache
def _parameters(check: Callable[..., Any]) -> Mapping[str, bool]:
    """Return {name: whether it is required} for the parameters of a check."""
    # This is slow, and needed for every requirement of every call.
    return {name: p.default is p.empty for name, p in inspect.signature(check).parameters.items()}


def requirement(check: Callable[..., Failure | None]) -> Requirement:
    """Decorator: turn a function into a `Requirement` of the same name; its docstring is the formal statement."""
    return Requirement(check.__name__, inspect.cleandoc(check.__doc__ or ""), check)


def invariant(check: Callable[[ScheduleState], Failure | None]) -> Requirement:
    """Decorator: register a requirement that the program must meet after every step of any primitive."""
    entry = requirement(check)
    INVARIANTS.append(entry)
    return entry


def holds_inside(name: str, statement: str) -> Requirement:
    """Return a requirement that the primitive itself checks while it runs, using `raise NAME.refuse(Failure(...))`."""
    return Requirement(name, inspect.cleandoc(statement), lambda: None)


@dataclass(frozen=True, slots=True)
class BadCall:
    """A call that a requirement refuses, given as statements that use `sch` and the names of loops. The last statement
    is the call.

    `before` is a program, written as in docstrings; if it is empty, the docstring's program is used. The call may use
    names that are defined in the primitive's file. Everything is stored as text, which is only parsed when the error is
    needed.
    """

    requirement: Requirement
    call: str
    before: str = ""


@dataclass(slots=True)
class Primitive:
    """A registered primitive, with everything that is derived from it or needed to run it."""

    name: str
    function: Callable[..., Any]
    requires: tuple[Requirement, ...] = ()
    match: Callable[..., Any] | None = None
    aka: Mapping[str, str] = field(default_factory=dict)
    past: str = ""  # "was split into": for the error about a handle that is gone
    query: bool = False  # only looks things up and changes nothing
    kind: str = ""  # the instruction's name in TVM's trace format
    calls: Callable[[ScheduleState], Iterable[tuple[Any, ...]]] | None = None
    bad_calls: list[BadCall] = field(default_factory=list)
    hints: dict[str, Any] = field(default_factory=dict)
    signature: inspect.Signature = field(default_factory=inspect.Signature)

    def space(self, calls: Callable[[ScheduleState], Iterable[tuple[Any, ...]]]) -> Callable[..., Any]:
        """Decorator: register a function that enumerates calls worth trying on a program, as tuples of arguments
        (nodes, not handles).
        """
        self.calls = calls
        return calls

    def refuses(self, requirement: Requirement, call: str, before: str = "") -> None:
        """Register a call that a requirement refuses, for the error gallery (see `gallery` and `BadCall`)."""
        self.bad_calls.append(BadCall(requirement, call, before))

    def first_failure(self, state: ScheduleState, arguments: dict[str, Any]) -> tuple[Requirement, Failure] | None:
        """Return the first requirement that a call violates, with the failure that describes the violation, or None if
        all requirements hold.

        `match` is added to the arguments when it is first needed.
        """
        for needed in self.requires:
            if "match" in _parameters(needed.check):
                self._add_match(state, arguments)
            failure = needed.failure(state, arguments)
            if failure is not None:
                return needed, failure
        return None

    def _add_match(self, state: ScheduleState, arguments: dict[str, Any]) -> None:
        if self.match is not None and "match" not in arguments:
            own = _parameters(self.match)
            arguments["match"] = self.match(state, **{name: arguments[name] for name in own if name in arguments})

    @property
    def decides(self) -> bool:
        """Whether the primitive samples. The parameter `decision` fixes the result; without it, the result
        is random.
        """
        return "decision" in self.signature.parameters

    def takes_nodes(self, parameter: str) -> bool:
        """Return whether callers pass handles for the parameter `parameter`."""
        return _mentions(self.hints.get(parameter), For) or self.takes_blocks(parameter)

    def takes_blocks(self, parameter: str) -> bool:
        """Return whether a string passed for the parameter `parameter` is the name of a block."""
        return _mentions(self.hints.get(parameter), BlockRealize)

    def run(self, state: ScheduleState, arguments: Mapping[str, Any]) -> Any:
        """Check all requirements, change the program, and check all invariants; raise `Refused` if anything fails."""
        result = self.perform(state, arguments)
        for kept in () if self.query else INVARIANTS:
            failure = kept.check(state)
            if failure is not None:
                raise kept.refuse(failure)
        return result

    def perform(self, state: ScheduleState, arguments: Mapping[str, Any]) -> Any:
        """Check all requirements and change the program, as a part of another primitive; raise `Refused` if a
        requirement fails.
        """
        arguments = dict(arguments)
        broken = self.first_failure(state, arguments)
        if broken is not None:
            raise broken[0].refuse(broken[1])
        self._add_match(state, arguments)
        positional: list[Any] = [] if self.match is None else [arguments["match"]]
        named: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(arguments[name])
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = arguments[name]
            else:
                positional.append(arguments[name])
        return self.function(state, *positional, **named)

    def document(self) -> str:
        """Return the documentation page: signature, docstring, names in other systems, and requirements with their
        statements.
        """
        lines = [f"{self.name}{self.call_signature()}", "", inspect.cleandoc(self.function.__doc__ or "")]
        if self.aka:
            lines += ["", "Elsewhere: " + ", ".join(f"{who} `{name}`" for who, name in self.aka.items())]
        if self.requires:
            lines += ["", "Legal when:"]
            for needed in self.requires:
                # A statement says what must hold and, after an empty line, why or how it is shown. Here it becomes one
                # paragraph.
                first, *rest = needed.statement.replace("\n\n", ".\n").split("\n")
                lines += [f"  {needed.name}: {first}", *("      " + line for line in rest)]
                refused = (bad.call for bad in self.bad_calls if bad.requirement is needed and not bad.before)
                lines += [f"      refused: `{call}`" for call in refused]
        return "\n".join(lines)

    def call_signature(self) -> str:
        """Return the signature as callers see it, for example `(loop, factors, preserve_unit_iters=True)`."""
        shown = []
        for name, parameter in self.signature.parameters.items():
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
            shown.append(f"{star}{name}{default}")
        return f"({', '.join(shown)})"


def _mentions(hint: Any, node: type) -> bool:
    return hint is node or any(_mentions(inner, node) for inner in typing.get_args(hint))


PRIMITIVES: dict[str, Primitive] = {}
INVARIANTS: list[Requirement] = []
RESERVED: set[str] = set()  # names that a `Schedule` uses besides primitives
_listeners: list[Callable[[Primitive], None]] = []


def primitive(
    *,
    requires: Sequence[Requirement] = (),
    match: Callable[..., Any] | None = None,
    aka: Mapping[str, str] | None = None,
    past: str = "",
    query: bool = False,
    kind: str = "",
) -> Callable[[Callable[..., Any]], Primitive]:
    """Register a schedule primitive; this also works outside of the package. `kind` is its name in TVM's JSON traces
    (CamelCase by default).

    `match` has a parameter `state` and any of the primitive's parameters, and returns a frozen record of its findings
    in the program. Requirements with a parameter `match` share the record with the function, which receives it as its
    second argument. `match` is called once, when a requirement first needs it, and may rely on the requirements before
    that one.

    If you register a primitive again, it replaces the old version. Raises `InputError` if `Schedule` already uses the
    name.
    """

    def register(function: Callable[..., Any]) -> Primitive:
        name = function.__name__
        _require_free(name, function)
        whole = inspect.signature(function)
        entry = Primitive(
            name,
            function,
            tuple(requires),
            match,
            aka or {},
            past or f"was consumed by {name}, which made",
            query,
            kind or "".join(part.capitalize() for part in name.split("_")),
            hints=typing.get_type_hints(function),
            signature=whole.replace(parameters=list(whole.parameters.values())[1 if match is None else 2 :]),
        )
        PRIMITIVES[name] = entry
        for listener in _listeners:
            listener(entry)
        return entry

    return register


def _require_free(name: str, function: Callable[..., Any]) -> None:
    if name in RESERVED:
        raise InputError(f"a Schedule has {name!r} already, which is no primitive\n  try:    another name")
    if name not in PRIMITIVES:
        return
    module = PRIMITIVES[name].function.__module__ or ""  # code that is run from a text has no module
    if module.startswith(__name__.rpartition(".")[0]) and module != function.__module__:
        raise InputError(f"{name} is a primitive of minitvm\n  try:    another name")


def on_registration(listener: Callable[[Primitive], None]) -> None:
    """Call `listener` for every primitive, both those already registered and those registered later."""
    _listeners.append(listener)
    for entry in PRIMITIVES.values():
        listener(entry)


def lookup(name: str) -> Primitive:
    """Find a primitive by its own name, its name in another system, or its kind in a trace; raise `KeyError`,
    suggesting the nearest name, if there is none.
    """
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    for entry in PRIMITIVES.values():
        if name == entry.kind or name in entry.aka.values():
            return entry
    raise KeyError(f"no schedule primitive {name!r}; {nearest(name, list(PRIMITIVES))}")


def registered(name: str) -> Primitive:
    """Return the primitive called `name`; raise `ScheduleError`, suggesting the nearest name, if there is none."""
    if name not in PRIMITIVES:
        raise ScheduleError(f"no schedule primitive {name!r}; {nearest(name, list(PRIMITIVES))}")
    return PRIMITIVES[name]


def document(name: str) -> str:
    """Return the documentation page of a primitive; raise `KeyError`, suggesting the nearest name, if there is none."""
    return lookup(name).document()


def transforms() -> Iterator[Primitive]:
    """Iterate over the primitives that change programs, in the order of registration."""
    return (p for p in PRIMITIVES.values() if not p.query)
