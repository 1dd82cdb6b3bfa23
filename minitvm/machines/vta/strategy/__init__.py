"""Schedules for the tensor accelerator (`minitvm.machines.vta`): products of the array, and what registers do alone."""

from __future__ import annotations

from ....strategy.registry import RULES, Rule
from ....target import Target
from ....tir.nodes import PrimFunc
from ...scratchpad.passes import PASSES
from ...scratchpad.strategy import convolution
from . import registers

__all__ = ["PASSES", "refusal", "rules"]


def rules(target: Target) -> list[Rule]:
    """The part "rules" of its back end."""
    return list(RULES[target.kind])


def refusal(func: PrimFunc, target: Target) -> str:
    """Why a function does not run on the accelerator; "" for one that does. The part "refusal" of its back end."""
    if (conv := convolution.convolution_of(func)) is not None:
        why = convolution.beyond_constants(conv.stages, target.config)
        candidates = convolution.conv2d_elements(func, target)
    elif (chain := registers.chain_of(func)) is not None:
        why = registers.misfit(chain, target.config)
        candidates = registers.in_registers(func, target)
    else:
        return "it is no convolution, window or sum of elements of int8 with operations of the ALU behind it"
    if why:
        return why
    return "" if next(iter(candidates), None) is not None else "no tile of it fits the scratchpads"
