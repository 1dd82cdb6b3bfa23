"""The stages of one function from level 3 to the sources of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ..backend import get as get_backend
from ..errors import TooMuchCode
from ..expr.names import identifier
from ..garbage import collected_seldom
from ..strategy.decision import Decision
from ..target import Target
from ..tir.nodes import IRModule, PrimFunc
from ..tir.transform.pipeline import PassCallback
from .inside import size_conditions
from .lowered import LoweredFunc, lowered

T = TypeVar("T")


@collected_seldom()
def schedule_function(func: PrimFunc, target: Target, decision: Decision | None = None) -> PrimFunc:
    """The function as the target's strategy schedules it, or by a `decision` that was measured, where it still applies.

    Its attributes "schedule_trace" and "schedule_choice" hold the steps, and the record of the chosen and the rejected
    candidates.
    """
    from .. import strategy

    return strategy.scheduled(func, target, decision=decision)


@collected_seldom()
def to_kernels(func: PrimFunc, target: Target, callback: PassCallback | None = None) -> IRModule:
    """A scheduled level-3 function as a host function and its kernels."""
    from ..strategy.choice import choice_of
    from ..tir.transform.pipeline import lower

    # What the strategy scheduled has another schedule; a function that you scheduled is lowered whatever its size.
    return lower(func, target, identifier(func.name), callback=callback, limited=bool(choice_of(func).rule))


@collected_seldom()
def lower_function(
    func: PrimFunc, target: Target, callback: PassCallback | None = None, before: PrimFunc | None = None
) -> LoweredFunc:
    """A scheduled level-3 function as a host function and its kernels, with the sources of the kernels.

    All accesses of `before`, the function before it was scheduled (default: `func`), are shown to be inside their
    buffers; schedules and passes keep what a function accesses. Raises `VerificationError` for one that is not.
    """
    generate = get_backend(target).part("generate")
    conditions = size_conditions(func if before is None else before)
    module = to_kernels(func, target, callback)
    sources = {name: generate(kernel, target) for name, kernel in module.items() if not kernel.attrs.get("host")}
    return lowered(func, module, sources, target, conditions)


def with_a_schedule(
    func: PrimFunc, target: Target, lower: Callable[[PrimFunc], T], decision: Decision | None = None
) -> T:
    """`lower(scheduled)` for the schedule of `schedule_function`.

    If this schedule makes too much code, a simpler one is lowered: that of the rule for all functions, then the loops
    as written. The record of the choice has the reason.
    """
    from .. import strategy

    scheduled = schedule_function(func, target, decision)
    refused: tuple[strategy.Weighed, ...] = ()
    while True:
        try:
            return lower(scheduled)
        except TooMuchCode as error:
            taken = strategy.choice_of(scheduled).taken
            if taken is None:
                raise
            refused = (*refused, replace(taken, refused=strategy.reason(error)))
            scheduled = strategy.simpler(func, target, refused)
