"""What a schedule keeps for blocks that hand the address of a buffer to foreign code."""

from __future__ import annotations

import functools

from ...expr import children, walk
from ...expr.kept import kept_with_node
from ..analysis.accesses import handed_out
from ..nodes import PrimFunc, Stmt
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


@kept_with_node  # a step keeps most statements
def _hands_out(stmt: Stmt) -> bool:
    """Whether the address of a buffer is handed out anywhere inside."""
    return any(
        _hands_out(child) if isinstance(child, Stmt) else any(handed_out(n) is not None for n in walk(child))
        for child in children(stmt)
    )


@functools.lru_cache(64)
def _broken(func: PrimFunc) -> Failure | None:
    # Few functions hand out addresses at all, and the walk with scopes is slow.
    if not _hands_out(func.body):
        return None
    for node, fault in addresses_are_declared(func):
        expected = "the buffer that the block declares is the one whose address it hands out"
        return Failure({node: "still this buffer"}, expected, fault)
    return None
