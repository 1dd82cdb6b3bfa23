"""What a case of the gallery is: a schedule, and a call on it that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.examples import prepared, refused

BadCall = Callable[[], tuple[Schedule, Callable[[], Any]]]
CASES: dict[str, BadCall] = {}  # "primitive.requirement" -> the case; `cases` has those beside the primitives, too


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


def cases() -> dict[str, BadCall]:
    """All cases: those that stand here, and those that stand beside the package's primitives (`Primitive.refuses`)."""
    beside = {
        f"{primitive.name}.{bad.requirement.name}": partial(prepared, primitive, bad)
        for primitive in PRIMITIVES.values()
        if primitive.function.__module__.startswith("minitvm.")
        for bad in primitive.bad_calls
    }
    return beside | CASES


def refusal(case: str) -> str:
    """The error that a case ends in; raises as `minitvm.tir.schedule.examples.refused` does."""
    sch, call = cases()[case]()
    return refused(sch, call, case.split(".")[1], f"the bad call of {case}")


def refusals(primitive: str) -> dict[str, str]:
    """The errors of a primitive's bad calls, by the names of its requirements, in their order, then of its steps'."""
    needed = [requirement.name for requirement in PRIMITIVES[primitive].requires]
    there = [name for owner, name in (case.split(".") for case in cases()) if owner == primitive]
    first = [name for name in needed if name in there]
    return {name: refusal(f"{primitive}.{name}") for name in (*first, *(name for name in there if name not in first))}
