"""Try every call of a primitive's space on every pinned program: legal ones must keep the meaning, and some are
refused.

There are no random choices and no time limit, so whether a primitive breaks a dependence is decided the same way in
each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from minitvm.errors import InputError, TypeMismatch
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Primitive, Schedule
from minitvm.tir.schedule.calls import bind
from minitvm.tir.schedule.handles import to_handles
from minitvm.tir.schedule.messages import arguments_text
from minitvm.tir.schedule.registry import Refused

from .pairs import Chain
from .pinned_programs import pinned


class Attempts(NamedTuple):
    """The number of legal calls that were compared, and of programs."""

    calls: int
    programs: int


def try_pinned(name: str, progress: Callable[[int, int], None] | None = None) -> Attempts:
    """Make each legal call of a primitive on each pinned program, and compare before and after, as loops and kernels.

    `progress(done, total)` is called for each program. Raises `InternalError` with the program and the trace of the
    first call that changes the meaning.
    """
    calls = 0
    for done, func in enumerate(pinned().values()):
        if progress is not None:
            progress(done, len(pinned()))
        for call in Schedule(func).space(name):
            chain = Chain(func)
            chain.take(call)
            chain.compare()
            calls += 1
    return Attempts(calls, len(pinned()))


def looks_at_dependences(name: str) -> bool:
    """Return whether a call is refused on a pinned program but legal on its twin, which has no dependence."""
    primitive, dependent = PRIMITIVES[name], pinned()
    return any(
        text in _legal(primitive, twin)
        for title, twin in pinned(independent=True).items()
        for text, legal in _calls(primitive, dependent[title])
        if not legal
    )


def _legal(primitive: Primitive, func: PrimFunc) -> list[str]:
    return [text for text, legal in _calls(primitive, func) if legal]


def _calls(primitive: Primitive, func: PrimFunc) -> Iterator[tuple[str, bool]]:
    """Yield the calls of a primitive's space on a program, as text, and whether each is legal."""
    state = Schedule(func).state
    for values in primitive.calls(state) if primitive.calls else ():
        arguments = bind(primitive, values, {})
        text = arguments_text(state, primitive, {name: to_handles(value) for name, value in arguments.items()}, {})
        try:
            primitive.run(Schedule(func).state, arguments)
        except (Refused, TypeMismatch, InputError):
            yield text, False
        else:
            yield text, True
