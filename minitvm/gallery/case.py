"""What a case of the gallery is: a schedule, and a call on it that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.errors import InternalError, ScheduleError
from minitvm.tir.schedule import Schedule

BadCall = Callable[[], tuple[Schedule, Callable[[], Any]]]
CASES: dict[str, BadCall] = {}  # "primitive.requirement" -> the case


def on(func: Any, call: Callable[[Schedule], Any], prepare: Callable[[Schedule], Any] | None = None) -> BadCall:
    """The case of a call on a function (or on what a function of no arguments gives), after some legal steps."""

    def build() -> tuple[Schedule, Callable[[], Any]]:
        sch = Schedule(func() if callable(func) else func)
        if prepare is not None:
            prepare(sch)
        return sch, lambda: call(sch)

    return build


def loop(sch: Schedule, block: str, position: int = 0) -> Any:
    """The handle of a loop around a block, counted from the outermost."""
    return sch.get_loops(block)[position]


def refusal(case: str) -> str:
    """The error that a case ends in.

    Raises `InternalError` where nothing is refused, where another requirement refuses, or where the program changes.
    """
    sch, call = CASES[case]()
    before = sch.mod
    try:
        call()
    except ScheduleError as error:
        text = str(error)
    else:
        raise InternalError(f"the bad call of {case} is not refused\n{sch.mod.script()}")
    if text.splitlines()[0].split(": ")[-1].split()[0] != case.split(".")[1]:
        raise InternalError(f"the bad call of {case} is refused by another requirement\n{text}")
    if sch.mod is not before:
        raise InternalError(f"the bad call of {case} changes the program\n{sch.mod.script()}")
    return text


def refusals(primitive: str) -> dict[str, str]:
    """The errors of a primitive's bad calls, by the names of the requirements, in their order."""
    return {case.split(".")[1]: refusal(case) for case in CASES if case.split(".")[0] == primitive}
