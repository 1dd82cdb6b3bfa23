"""Where the operators of a network run: on the target, or on its host, if the target's back end refuses some.

A back end whose part `refusal` says no to some functions shares the memory of the host: the kernels of both are in one
executable, which is the host's (`runtime.hosted`). So is everything between them: loops, sizes, states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..backend import lookup
from ..target import Target
from ..tir.nodes import PrimFunc
from ..tir.transform.pipeline import PassCallback
from .lowered import LoweredFunc
from .many import Decisions, Progress, lower_functions
from .units import SharedFunction

Decided = Callable[[Sequence[SharedFunction], Target], Decisions]


@dataclass(frozen=True, slots=True)
class Placement:
    """The target of a function; `refusal` is why it is not the one that was asked for, "" if it is."""

    target: Target
    refusal: str = ""


def host_of(target: Target) -> Target:
    """The target whose program runs a network: the host if the target refuses operators, else the target itself."""
    if lookup(target, "refusal") is None:
        return target
    return target.own_host


def place(func: PrimFunc, target: Target) -> Placement:
    """Where a function of a network runs that is compiled for a target."""
    refusal = lookup(target, "refusal")
    reason = "" if refusal is None else str(refusal(func, target))
    return Placement(host_of(target), reason) if reason else Placement(target)


def lower_placed(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    decided: Decided = lambda functions, target: {},
) -> dict[bytes, LoweredFunc]:
    """Each function by its key, scheduled and lowered for the target where it runs.

    `decided(functions, target)` is the `decisions` of `lower_functions` for those that run on a target.
    """
    if lookup(target, "refusal") is None:
        return lower_functions(functions, target, callback, progress, decided(functions, target))
    places = [place(function.func, target).target for function in functions]
    lowered: dict[bytes, LoweredFunc] = {}
    for machine in dict.fromkeys(places):
        group = [function for function, its in zip(functions, places, strict=True) if its == machine]
        before = len(lowered)
        report = None if progress is None else _shifted(progress, before, len(functions))
        lowered.update(lower_functions(group, machine, callback, report, decided(group, machine)))
    return lowered


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)
