"""The error gallery of a primitive: for each requirement a call that it refuses, and the text that the caller reads.

split.refuses(starts_at_zero, "sch.split(i, [2])", before="for i in range(2, 8): ...")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InternalError, ScheduleError
from ..nodes import PrimFunc
from ..script import builtins as T
from .examples import example_program, loops_by_name, program_of, run_text
from .registry import PRIMITIVES, BadCall, Primitive
from .schedule import Schedule


def bad_call_program(primitive: Primitive, bad: BadCall) -> PrimFunc:
    """The program that a bad call is made on."""
    return program_of(bad.before) if bad.before else example_program(primitive)


def prepared(primitive: Primitive, bad: BadCall) -> tuple[Schedule, Callable[[], Any]]:
    """The schedule on which a bad call is made, after the statements before it, and the call."""
    sch = Schedule(bad_call_program(primitive, bad))
    *first, last = bad.call.split("; ")
    names: dict[str, Any] = {"sch": sch, "T": T, **loops_by_name(sch)}
    subject = f"{primitive.name}: the bad call for {bad.requirement.name}"
    for statement in first:
        run_text(statement, names, subject)
    return sch, lambda: run_text(last, names, subject)


def refusal(primitive: Primitive, bad: BadCall) -> str:
    """The text of the error that a bad call raises; raises itself as `refused` does."""
    sch, call = prepared(primitive, bad)
    return refused(
        sch, call, bad.requirement.name, f"{primitive.name}: the bad call for {bad.requirement.name}, `{bad.call}`,"
    )


def refused(sch: Schedule, call: Callable[[], Any], requirement: str, subject: str) -> str:
    """The error that a call on a schedule ends in, which `subject` names in messages.

    Raises `InternalError` where nothing is refused, where another requirement refuses, or where the program changes.
    """
    before = sch.mod
    try:
        call()
    except ScheduleError as error:
        text, by = str(error), error.requirement
    else:
        raise InternalError(f"{subject} is not refused\n{sch.mod.script()}")
    if by != requirement:
        raise InternalError(f"{subject} is refused by another requirement\n{text}")
    if sch.mod is not before:
        raise InternalError(f"{subject} is refused and changes the program all the same\n{sch.mod.script()}")
    return text


def gallery(primitive: Primitive | str) -> dict[str, str]:
    """The errors of a primitive's bad calls, by the names of the requirements.

    Raises `InternalError` as `refusal` does, and where a requirement has no bad call.
    """
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    shown = {bad.requirement.name: refusal(primitive, bad) for bad in primitive.bad_calls}
    missing = [needed.name for needed in primitive.requires if needed.name not in shown]
    if missing:
        example = f'{primitive.name}.refuses({missing[0]}, "sch.{primitive.name}(...)")'
        raise InternalError(f"{primitive.name}: no bad call for {', '.join(missing)}\n  wanted: {example}")
    return shown
