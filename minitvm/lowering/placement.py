"""Decide where each operator of a network runs: on the target, or on its host if the target's back end refuses it.

One executable contains the kernels of both. If the target's kernels work in the host's memory (its back end has the
part `hosted`), the executable is a program of the host, which also runs loops and keeps sizes and states
(`runtime.hosted`). If the target has memory of its own, the executable is a program of the target, and values are
copied from one memory to the other as needed (`link.copies`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..backend import lookup
from ..target import Target
from ..tir.nodes import PrimFunc
from ..tir.transform.pipeline import PassCallback
from ..topi import registry
from .lowered import LoweredFunc
from .many import Decisions, Progress, lower_functions
from .units import SharedFunction

Decided = Callable[[Sequence[SharedFunction], Target], Decisions]


@dataclass(frozen=True, slots=True)
class Placement:
    """The target that a function runs on. If it is not the requested target, `refusal` is the reason; otherwise it
    is "".
    """

    target: Target
    refusal: str = ""


def host_of(target: Target) -> Target:
    """Return the target whose program runs a network.

    That is the host if `target` works in the host's memory and can refuse operators, and `target` itself otherwise.
    """
    beside_it = lookup(target, "refusal") is not None and lookup(target, "hosted") is not None
    return target.own_host if beside_it else target


def place(func: PrimFunc, target: Target, operators: Sequence[str] = ()) -> Placement:
    """Decide which target a function of a network runs on. `operators` names the operators in the function.

    Raises `InputError` if the target option `on_host` names an operator that does not exist.
    """
    refusal = lookup(target, "refusal")
    if refusal is None:
        return Placement(target)
    asked = [name for name in _on_host(target) if name in operators]
    reason = f"the target's option on_host names {asked[0]}" if asked else str(refusal(func, target))
    return Placement(target.own_host, reason) if reason else Placement(target)


def _on_host(target: Target) -> tuple[str, ...]:
    """Return the operators that the user wants to run on the host."""
    names: tuple[str, ...] = getattr(target.description, "on_host", ())
    for name in names:
        registry.get(name)  # the error lists the existing ones
    return names


def lower_placed(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    decided: Decided = lambda functions, target: {},
) -> dict[bytes, LoweredFunc]:
    """Schedule and lower each function for the target that it runs on, and return the results by key.

    `decided(functions, target)` returns the `decisions` of `lower_functions` for the functions that run on a target.
    """
    if lookup(target, "refusal") is None:
        return lower_functions(functions, target, callback, progress, decided(functions, target))
    places = {function.key: place(function.func, target, function.operators) for function in functions}
    lowered: dict[bytes, LoweredFunc] = {}
    for machine in dict.fromkeys(one.target for one in places.values()):
        group = [function for function in functions if places[function.key].target == machine]
        before = len(lowered)
        report = None if progress is None else _shifted(progress, before, len(functions))
        lowered.update(lower_functions(group, machine, callback, report, decided(group, machine)))
    return {
        key: replace(func, refusal=places[key].refusal) if places[key].refusal else func
        for key, func in lowered.items()
    }


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)
