"""Wrong: refuses what it could do: loops that do not go round."""

from __future__ import annotations

from minitvm.expr import Var, const, substitute
from minitvm.tir.nodes import For, ForKind
from minitvm.tir.schedule import requirements as req
from minitvm.tir.schedule.registry import Failure, primitive, requirement
from minitvm.tir.schedule.state import ScheduleState, guard, tidy


@requirement
def somebody_plays(state: ScheduleState, loop: For, hands: int) -> Failure | None:
    """hands >= 1"""
    if hands >= 1:
        return None
    return Failure({loop: "these iterations"}, "at least one hand", str(hands))


@requirement
def no_cards_left(state: ScheduleState, loop: For, hands: int) -> Failure | None:
    """extent(loop) is a multiple of hands"""
    if state.analyzer(loop).can_prove_equal(loop.extent % hands, const(0, loop.var.dtype)):
        return None
    return Failure({loop: "these iterations"}, "the same number for each hand", str(loop.extent))


@primitive(
    requires=[somebody_plays, no_cards_left, req.plain_loops, req.starts_at_zero, req.only_spatial, req.no_races]
)
def deal(state: ScheduleState, loop: For, hands: int) -> list[For]:
    """Deal the iterations of a loop out to `hands` hands."""
    hand, turn = Var("hand", loop.var.dtype), Var("turn", loop.var.dtype)
    turns = (loop.extent + hands - 1) // hands  # rounded up
    old = turn * hands + hand
    body = guard(substitute(loop.body, {loop.var: old}), old < loop.extent)
    inner = For(turn, const(0, turn.dtype), turns, ForKind.SERIAL, body)
    outer = For(hand, const(0, hand.dtype), const(hands, hand.dtype), ForKind.SERIAL, inner)
    state.replace({loop: tidy(outer, state.analyzer(state.home(loop).parent[loop]))})
    return [made for made in map(state.loop, (hand, turn)) if made is not None]
