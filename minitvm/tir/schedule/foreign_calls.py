"""The invariant that a block declares each buffer whose address it passes to foreign code."""

from __future__ import annotations

import functools

from ...expr.visitor import handed_out
from ..nodes import PrimFunc
from ..verifier.tir_rules import addresses_are_declared
from .registry import Failure, invariant
from .state import ScheduleState


@invariant
def addresses_follow(state: ScheduleState) -> Failure | None:
    """a block declares each buffer whose address it hands to foreign code: a step may not move the data away from the
    address"""
    for func in state.mod.functions.values():
        failure = _broken(func)
        if failure is not None:
            return failure
    return None


@functools.lru_cache(64)
def _broken(func: PrimFunc) -> Failure | None:
    # Few functions pass addresses at all, and the walk with scopes is slow.
    if not handed_out(func.body):
        return None
    for node, fault in addresses_are_declared(func):
        expected = "the buffer that the block declares is the one whose address it hands out"
        return Failure({node: "still this buffer"}, expected, fault)
    return None
