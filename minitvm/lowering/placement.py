"""Where the operators of a network run: on the target, or on its host, if the target's back end refuses some.

The kernels of both are in one executable. If the target's kernels work in the host's memory (the part `hosted` of its
back end), it is the host's, and so is everything between kernels: loops, sizes, states (`runtime.hosted`). A device
with memory of its own keeps the executable, and values are copied where they go from one memory to the other
(`link.copies`).
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
    """The target of a function; `refusal` is why it is not the one that was asked for, "" if it is."""

    target: Target
    refusal: str = ""


def host_of(target: Target) -> Target:
    """The target whose program runs a network: the host if the target works in its memory and refuses operators."""
    beside_it = lookup(target, "refusal") is not None and lookup(target, "hosted") is not None
    return target.own_host if beside_it else target


def place(func: PrimFunc, target: Target, operators: Sequence[str] = ()) -> Placement:
    """Where a function of a network runs that is compiled for a target; `operators` are the names of its operators.

    Raises `InputError` if the target's option `on_host` names an operator that there is not.
    """
    refusal = lookup(target, "refusal")
    if refusal is None:
        return Placement(target)
    asked = [name for name in _on_host(target) if name in operators]
    reason = f"the target's option on_host names {asked[0]}" if asked else str(refusal(func, target))
    return Placement(target.own_host, reason) if reason else Placement(target)


def _on_host(target: Target) -> tuple[str, ...]:
    """The operators that a user wants to run on the host."""
    names: tuple[str, ...] = getattr(target.description, "on_host", ())
    for name in names:
        registry.get(name)  # which says what there is instead
    return names


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
