"""Limit the amount of code that a pass may produce; a pass that keeps copying statements is stopped with an error.

The largest growth that is useful is about ninefold, to fewer than 1,000 statements: in `unswitch_tiles`, for the widest
tiles of an extent that is unknown at compile time. A function that grows far beyond that would take minutes to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ...errors import TooMuchCode, report
from ..nodes import PrimFunc

FACTOR = 16  # unrolled statements after a pass for each one before it
LEAST = 4000  # statements that a pass may always make

_LEFT: ContextVar[list[int] | None] = ContextVar("copies_left", default=None)


def within_budget(name: str, func: PrimFunc, apply: Callable[[PrimFunc], PrimFunc]) -> PrimFunc:
    """Run the pass `name` as `apply(func)`; raise `TooMuchCode` if the pass makes too many copies, or if its result is
    too large.
    """
    from .unroll import unrolled_size

    limit = max(LEAST, FACTOR * unrolled_size(func.body))
    token = _LEFT.set([limit])
    try:
        made = apply(func)
    except _Spent:
        raise _too_much(func, name, limit, f"more than {limit} copies") from None
    finally:
        _LEFT.reset(token)
    size = limit if made is func else unrolled_size(made.body)
    if size > limit:
        raise _too_much(func, name, limit, f"{size}, unrolled")
    return made


def count_copy() -> None:
    """Count one copy of a body against the budget of the running pass (if it has one); raise `_Spent` if the budget is
    exceeded.
    """
    left = _LEFT.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise _Spent


class _Spent(Exception):
    """Raised if the budget of a pass is exceeded."""


def _too_much(func: PrimFunc, name: str, limit: int, found: str) -> TooMuchCode:
    return TooMuchCode(
        report(
            f"{func.name}: {TOO_MUCH} in the pass {name}",
            wanted=f"at most {limit} statements after it",
            found=found,
            tries=("a smaller tile, or fewer unrolled iterations",),
        )
    )


TOO_MUCH = "the schedule makes too much code"
