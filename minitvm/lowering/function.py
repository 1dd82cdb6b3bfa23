"""One function on its way from level 3 to the sources of its kernels."""

from __future__ import annotations

from ..backend import get as get_backend
from ..expr.names import identifier
from ..target import Target
from ..tir.nodes import IRModule, PrimFunc
from ..tir.transform.pipeline import PassCallback
from .lowered import LoweredFunc, lowered


def schedule_function(func: PrimFunc, target: Target) -> PrimFunc:
    """The function as the target's strategy schedules it.

    Its attributes "schedule_trace", "schedule_choice" and "schedule_tiles" keep the steps, the rule that made them, the
    algorithms and the tiles that were weighed.
    """
    from .. import strategy

    chosen = strategy.chosen(func, target)
    traced = chosen.schedule.func.with_attr("schedule_trace", chosen.schedule.trace.as_python())
    explained = traced.with_attr(strategy.CHOICE, (chosen.rule, *strategy.algorithms_of(func)))
    return explained.with_attr(strategy.TILES, chosen.weighed) if chosen.weighed else explained


def to_kernels(func: PrimFunc, target: Target, callback: PassCallback | None = None) -> IRModule:
    """A scheduled level-3 function as a host function and its kernels."""
    from ..tir.transform.pipeline import lower

    return lower(func, target, identifier(func.name), callback=callback)


def lower_function(func: PrimFunc, target: Target, callback: PassCallback | None = None) -> LoweredFunc:
    """A scheduled level-3 function as a host function and its kernels, with the sources of the kernels."""
    generate = get_backend(target).part("generate")
    module = to_kernels(func, target, callback)
    sources = {name: generate(kernel, target) for name, kernel in module.items() if not kernel.attrs.get("host")}
    return lowered(func, module, sources)
