"""Exercise 12: deal the iterations of a loop out, like cards.

Write a primitive `deal(loop, hands)`. It makes two loops of one, over hands and turns: hand h takes iterations h,
h + hands, h + 2 * hands, ... and all iterations of one hand run before those of the next. With 3 hands,

    for i in range(7): ...         0 1 2 3 4 5 6
    becomes
    for hand in range(3):
        for turn in range(3): ...  0 3 6   1 4   2 5

There are always `hands` hands, even when some get nothing. `deal` returns the two loops, the one over hands first. Both
are serial, whatever the old loop was, and their variables have its dtype. The extent of the old loop may be an
expression, such as i + 1 for an outer loop over i.

The order of iterations changes, so it is not always legal. List the conditions in `requires`; a call that
violates one is refused. Refuse calls that would change the result, and fewer than 1 hand. Refuse a loop that is bound
to a thread or has an annotation, since the new loops would not have them. Any other loop is legal, a
parallel one too, if no iteration touches elements that another one writes (as the iterations of a sum do), also when
some hands get fewer iterations.

You need parts of `skew.py`, next to this file, and these requirements:

    req.plain_loops, req.starts_at_zero     as in skew
    req.no_races                            iterations of the loop do not touch each other's data

Call your primitive on a program of your own (minitvm lesson 12 shows how), then check it with:
minitvm lesson 12 --check
"""

from __future__ import annotations

from minitvm.expr import Var, const, substitute  # noqa: F401  (what you will need)
from minitvm.tir.nodes import For, ForKind  # noqa: F401
from minitvm.tir.schedule import requirements as req  # noqa: F401
from minitvm.tir.schedule.registry import Failure, primitive, requirement  # noqa: F401
from minitvm.tir.schedule.state import ScheduleState, guard, tidy  # noqa: F401


@primitive(requires=[])
def deal(state: ScheduleState, loop: For, hands: int) -> list[For]:
    """Deal the iterations of a loop out to so many hands."""
    raise NotImplementedError("deal(state, loop, hands): the text at the top says what is wanted")
