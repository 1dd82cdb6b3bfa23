"""The stages of one function from level 3 to the sources of its kernels."""

from __future__ import annotations

from ..backend import get as get_backend
from ..expr.names import identifier
from ..garbage import collected_seldom
from ..strategy.decision import Decision
from ..target import Target
from ..tir.nodes import IRModule, PrimFunc
from ..tir.transform.pipeline import PassCallback
from .lowered import LoweredFunc, lowered


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
    from ..tir.transform.pipeline import lower

    return lower(func, target, identifier(func.name), callback=callback)


@collected_seldom()
def lower_function(func: PrimFunc, target: Target, callback: PassCallback | None = None) -> LoweredFunc:
    """A scheduled level-3 function as a host function and its kernels, with the sources of the kernels."""
    generate = get_backend(target).part("generate")
    module = to_kernels(func, target, callback)
    sources = {name: generate(kernel, target) for name, kernel in module.items() if not kernel.attrs.get("host")}
    return lowered(func, module, sources, target)
