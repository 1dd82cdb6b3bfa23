"""Find legal calls of primitives on a program: all of them, or a random one without trying all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .calls import PrimitiveCall, bind
from .registry import Primitive
from .state import ScheduleState

# A function that makes a new state for a primitive to change; and one that returns the call with these arguments
# (nodes) if it is legal.
FreshState = Callable[[], ScheduleState]
WouldTake = Callable[[Primitive, Mapping[str, Any]], PrimitiveCall | None]


def legal_calls(primitives: Sequence[Primitive], fresh: FreshState, would_take: WouldTake) -> list[PrimitiveCall]:
    """Return every legal call from the spaces of `primitives`, in their order."""
    tried = (would_take(one, bind(one, values, {})) for one in primitives if one.calls for values in one.calls(fresh()))
    return [call for call in tried if call is not None]


def draw_call(
    primitives: Sequence[Primitive],
    fresh: FreshState,
    would_take: WouldTake,
    choose: Callable[[int], int],
    tries: int | None,
) -> PrimitiveCall | None:
    """Return one legal call, or None; see `Schedule.draw`."""
    first, at = choose(len(primitives)), choose(1 << 16)
    most = tries or (6 if len(primitives) > 1 else None)
    for primitive in (*primitives[first:], *primitives[:first]):
        candidates = list(primitive.calls(fresh())) if primitive.calls else []
        start = at % len(candidates) if candidates else 0
        for values in (candidates[start:] + candidates[:start])[:most]:
            call = would_take(primitive, bind(primitive, values, {}))
            if call is not None:
                return call
    return None
