"""Exercise 14: deal the iterations of a loop out, like cards.

Write a primitive `deal(loop, hands)`. It turns one loop into two loops, an outer loop over hands and an inner loop over
turns. Hand h gets the iterations h, h + hands, h + 2 * hands, and so on. All iterations of one hand run before the
iterations of the next hand. With 3 hands,

    for i in range(7): ...         0 1 2 3 4 5 6
    becomes
    for hand in range(3):
        for turn in range(3): ...  0 3 6   1 4   2 5

There are always `hands` hands, even if some of them get no iteration. `deal` returns the two loops, first the loop over
hands. Both new loops are serial, whatever kind the old loop had, and their variables have the dtype of the old
variable. The extent of the old loop may be an expression, for example i + 1 inside a loop over i.

`deal` changes the order of iterations, so it is not always legal. List your conditions in `requires`; minitvm then
refuses each call that violates one of them. Refuse calls that would change the result, and calls with fewer than 1
hand. Refuse a loop that is bound to a thread or has an annotation, because the new loops would not have them. Accept
any other loop, even a parallel one, if no iteration touches an element that another one writes. (The iterations of a
sum all touch the same element.) Accept a loop also if some hands get fewer iterations than others.

You need parts of `skew.py`, which is in the folder of the lesson, and these requirements:

    req.plain_loops, req.starts_at_zero     as in skew
    req.no_races                            no iteration of the loop touches an element that another one writes

Try your primitive on a small program, as the lesson does with `skew`. Then check it with: minitvm lesson 14 --check
"""

from __future__ import annotations

from minitvm.expr import Var, const, substitute  # noqa: F401  (what you will need)
from minitvm.tir.nodes import For, ForKind  # noqa: F401
from minitvm.tir.schedule import requirements as req  # noqa: F401
from minitvm.tir.schedule.registry import Failure, primitive, requirement  # noqa: F401
from minitvm.tir.schedule.state import ScheduleState, guard, tidy  # noqa: F401


@primitive(requires=[])
def deal(state: ScheduleState, loop: For, hands: int) -> list[For]:
    """Deal the iterations of a loop out to `hands` hands."""
    raise NotImplementedError("deal(state, loop, hands): the text at the top describes the task")
